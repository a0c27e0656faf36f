"""Denied requests and connected clients in /api, in /metrics and in the event stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.config.authorizer_rules import STANDARD
from protocol.errors import GROUP_AUTHORIZATION_FAILED
from tests.broker.authorizer.peers import allow
from tests.broker.openapi import fields
from tests.broker.seen import seeing
from tests.broker.web.live.test_live import watching
from tests.broker.web.rights import securely

SETTINGS: dict[str, Any] = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}


async def test_denial_is_reported_in_http_api_metrics_and_event_stream(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen, watching(seen, "broker") as stream:
        acls = seen.broker.secured.acls
        assert acls is not None
        for _ in range(3):
            assert await seen.client.commit("billing", 1) == GROUP_AUTHORIZATION_FAILED
        peer = next(iter(seen.broker.server.connections))
        await acls.add(peer, [allow("orders"), allow("invoices")])
        [denial] = (await seen.get("/api/denials")).json()["denials"]
        [client] = (await seen.get("/api/clients")).json()["clients"]
        scrape = await seen.scrape()
        await stream.until("they are shown", lambda: {"denial", "client"} <= set(stream.tables))
        [shown] = stream.tables["denial"].values()
        [connected] = stream.tables["client"].values()

    assert set(denial) == fields("Denial")
    assert denial["first_ms"] <= denial["last_ms"]
    wanted = {
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
        "api": "OffsetCommit",
        "operation": "Read",
        "resource_type": "Group",
        "name": "billing",
        "resource": "Group:LITERAL:billing",
        "rule": "no ACL matches",
        "count": 3,
    }
    assert denial | wanted == denial
    assert shown["resource"] == "Group:LITERAL:billing"
    assert client["sessions"] == connected["sessions"] == [
        {
            "principal": "User:ANONYMOUS",
            "listener": "PLAINTEXT",
            "protocol": "PLAINTEXT",
            "connections": 1,
        }
    ]  # fmt: skip
    of_it = "api=OffsetCommit", "operation=Read", "resource_type=Group"
    assert scrape["muster_authorization_denied_total", *of_it] == 3
    assert scrape["muster_acls"] == 2


async def test_denials_over_http_need_describe_on_the_cluster(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        assert (await seen.as_("alice", "/api/denials")).status_code == 403
        assert (await seen.as_("admin", "/api/denials")).json() == {"denials": []}
