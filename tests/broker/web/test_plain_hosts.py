"""Client addresses in /api and /metrics do not have the leading slash with which Kafka writes an
address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.produce import API as PRODUCE
from tests.broker.seen import Seen, seeing
from tests.broker.web.live.test_live import watching
from tests.broker.web.test_http_api import GROUP, Member
from tests.wire import batch

SLASHED = re.compile(r"(?<![\w:/])/(?:\d+\.){3}\d+")
ONE_OF_EACH = (
    "/api/groups",
    f"/api/groups/{GROUP}",
    f"/api/groups/{GROUP}/journal",
    "/api/broker",
    "/api/clients",
    "/api/denials",
    "/api/transactions",
    "/api/held",
    "/metrics",
)


async def troubled(seen: Seen) -> None:
    """Creates a group with one member. The member commits a lower offset than before, commits an
    offset that causes a finding, and sends a commit that is rejected."""
    records = {"index": 0, "records": batch(*[b"v"] * 50)}
    topic = {"name": "orders", "partition_data": [records]}
    await seen.client.call(PRODUCE.key, 9, acks=-1, timeout_ms=1000, topic_data=[topic])
    first = await Member(seen).alone()
    await first.leave("restarts")
    member = await Member(seen).alone()
    mine = {"member_id": member.member_id, "generation_id": member.generation}
    for offset in (
        40,
        7,
        60_000,
    ):  # The last offset is above the log end offset, so that a finding names the member.
        assert await seen.client.commit(GROUP, offset, partitions=1, **mine) == 0
    assert await seen.client.commit(GROUP, 1, member_id=member.member_id, generation_id=9) != 0
    share_group = {"key_type": 2, "coordinator_keys": ["shared"]}
    await seen.client.call(FIND_COORDINATOR.key, 4, **share_group)


def hosts_in(value: Any) -> list[str]:
    """Returns the values of all fields for hosts in a JSON value, at any depth."""
    if isinstance(value, list):
        return [host for each in value for host in hosts_in(each)]
    if not isinstance(value, dict):
        return []
    own = [each for name, each in value.items() if name.endswith("host") and each]
    return own + [host for each in value.values() for host in hosts_in(each)]


async def test_client_hosts_have_no_leading_slash_in_the_http_api_and_metrics(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await troubled(seen)
        for path in ONE_OF_EACH:
            answer = await seen.get(path)
            assert answer.status_code == 200, path
            assert not SLASHED.search(answer.text), (path, SLASHED.findall(answer.text))
            if path != "/metrics":
                assert set(hosts_in(answer.json())) <= {"127.0.0.1"}, path
        group = (await seen.get(f"/api/groups/{GROUP}")).json()
        journal = (await seen.get(f"/api/groups/{GROUP}/journal")).json()
        broker = (await seen.get("/api/broker")).json()
        clients = (await seen.get("/api/clients")).json()
        metrics = (await seen.get("/metrics")).text
    for found in (group["members"], group["findings"], journal["rejected_commits"]):
        assert hosts_in(found), "the scene has one of each"
    for found in (journal["moved_back"]["last"], journal["rebalances"], journal["returning"]):
        assert hosts_in(found), "the scene has one of each"
    assert hosts_in(broker["unsupported"])
    assert hosts_in(clients)
    assert 'host="127.0.0.1"' in metrics


async def test_client_hosts_have_no_leading_slash_in_live_events(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await troubled(seen)
        for watch in ("groups", f"groups/{GROUP}", "broker"):
            async with watching(seen, watch) as stream:
                await stream.until("its rows", lambda: stream.tables)
                text = repr((stream.head, stream.tables))
                assert "127.0.0.1" in text, watch
                assert not SLASHED.search(text), (watch, SLASHED.findall(text))
