"""`muster groups list` when offsets cannot be read, and when no group matches."""

from __future__ import annotations

import pytest

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
def test_groups_list_prints_no_group_matches_when_no_group_matches(at: Broker) -> None:
    assert run("groups", "list", "no-such-*").out == "No group matches\n"
    assert run("groups", "list", "--state", "Dead").out == "No group matches\n"
