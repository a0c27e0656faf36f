"""`muster groups list` when the user may not read offsets, and when no group matches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cli.client import group_reads
from cli.errors import CommandError
from cli.groups import listing
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.waiting import until


@pytest.mark.interop
def test_groups_list_omits_verdicts_when_the_user_may_not_read_offsets(
    at: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(at.bootstrap).create_topic(name, 1)
    line = ("offsets", "set", name, f"{name}:0=0", "--execute")
    until("the group has an offset", lambda: run(*line).code == 0)

    def refused(*_: object) -> None:
        raise CommandError("offsets of group x: GROUP_AUTHORIZATION_FAILED")

    monkeypatch.setattr(listing, "looks", refused)
    ran = run("groups", "list", name, "--json")

    assert ran.code == 0
    assert "verdicts are not shown: offsets of group x" in ran.err
    [row] = ran.json
    assert (row["state"], row["verdict"], row["lag"]) == ("Empty", None, None)


@pytest.mark.interop
def test_groups_list_prints_a_message_when_no_group_matches(at: Broker) -> None:
    assert run("groups", "list", "no-such-*").out == "No group matches\n"
    assert run("groups", "list", "--state", "Dead").out == "No group matches\n"


def test_groups_list_returns_only_groups_of_the_requested_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = [
        {"group_id": name, "group_state": "Stable", "group_type": kind, "protocol_type": "consumer"}
        for name, kind in (("new", "Consumer"), ("old", "Classic"), ("older", ""))
    ]
    monkeypatch.setattr(group_reads, "at_once", lambda *_: [{"error_code": 0, "groups": groups}])
    cluster: Any = SimpleNamespace(brokers=list)

    def listed(*kinds: str) -> list[str]:
        return [row["group"] for row in group_reads.list_groups(cluster, kinds=kinds)]

    assert listed("consumer") == ["new"]
    assert listed("classic") == ["old", "older"]
    assert listed() == ["new", "old", "older"]


def test_groups_list_refuses_an_unknown_type() -> None:
    refused = run("groups", "list", "--type", "modern")
    assert refused.code == 2
    assert "--type modern: choose one of classic, consumer, share, streams" in refused.err
