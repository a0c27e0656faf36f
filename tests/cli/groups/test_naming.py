"""The selection of groups by name, by pattern and by --all-groups, and errors about unknown
groups."""

from __future__ import annotations

import uuid

import pytest

from cli.client.group_names import STATES, states_named
from cli.errors import REFUSED, USAGE
from cli.groups import deletion
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.waiting import until
from tests.wire import batch

OFFSETS = 2


@pytest.fixture
def groups(at: Broker, name: str) -> list[str]:
    """Creates two groups whose names share a prefix. Each group has one unread record per
    partition."""
    cluster = Cluster(at.bootstrap)
    cluster.create_topic(name, OFFSETS)
    data = [{"index": index, "records": batch(b"paid")} for index in range(OFFSETS)]
    request = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": name, "partition_data": data}],
    }

    def produced() -> bool:
        (topic,) = cluster.call("Produce", 7, **request)["responses"]
        return not any(each["error_code"] for each in topic["partition_responses"])

    until("each partition has a record", produced)
    found = [f"{name}-one", f"{name}-two"]
    for group in found:
        line = ("offsets", "set", group, f"{name}:0=0", f"{name}:1=0", "--execute")
        until("the group has offsets", lambda line=line: run(*line).code == 0)
    return found


def left(name: str) -> list[str]:
    rows = run("groups", "list", "--json").json
    return [row["group"] for row in rows if row["group"].startswith(name)]


@pytest.mark.interop
def test_pattern_selects_every_matching_group(groups: list[str], name: str) -> None:
    for line in (
        ("groups", "lag", f"{name}*", "--json"),
        ("groups", "reset", f"{name}-*", "--all-topics", "--to-latest", "--dry-run", "--json"),
        ("groups", "delete", f"{name}-???", "--dry-run", "--json"),
    ):
        ran = run(*line)
        rows = ran.json if isinstance(ran.json, list) else ran.json["changes"]
        assert [row["group"] for row in rows] == [group for group in groups for _ in range(OFFSETS)]
    described = run("groups", "describe", f"{name}*", "--json").json
    exported = run("offsets", "export", f"{name}*").json
    assert [each["group"] for each in described] == groups
    assert [each["group"] for each in exported["groups"]] == groups


@pytest.mark.interop
def test_all_groups_option_selects_every_group_of_the_cluster(groups: list[str], name: str) -> None:
    rows = run("groups", "describe", "--all-groups", "--json").json

    assert [row["group"] for row in rows if row["group"] in groups] == groups
    assert run("groups", "lag", "--all-groups", name).code == USAGE
    assert "--all-groups" in run("groups", "delete").err


@pytest.mark.interop
def test_groups_delete_with_an_unknown_group_deletes_no_group(groups: list[str], name: str) -> None:
    for wrong in (f"{name}-typo", f"{name}-typo*"):
        ran = run("groups", "delete", groups[0], wrong, "--execute")
        assert ran.code == REFUSED
        assert f"{wrong}: not found; nothing was deleted" in ran.err
        assert left(name) == groups


@pytest.mark.interop
def test_groups_delete_reports_the_result_per_group(
    at: Broker, groups: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def agreed(*_: object, **__: object) -> bool:
        Cluster(at.bootstrap).call("DeleteGroups", 1, groups_names=[groups[1]])
        return True  # another client has deleted the second group

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(deletion, "agreed", agreed)
        ran = run("groups", "delete", *groups, "--execute")

    assert ran.code == REFUSED
    assert f"Deleted group {groups[0]}" in ran.out
    assert f"Not deleted: group {groups[1]}: GROUP_ID_NOT_FOUND" in ran.out
    assert f"1 group of 2 deleted; not deleted: {groups[1]}" in ran.err
    assert left(name) == []


@pytest.mark.interop
def test_groups_reset_rejects_an_unknown_group_without_option_new_group(
    groups: list[str], name: str
) -> None:
    line = ("groups", "reset", f"{name}-typo", "--topic", name, "--to-latest", "--execute")
    slip = run(*line)
    assert slip.code == REFUSED
    assert "--new-group creates the group" in slip.err
    assert left(name) == groups
    assert run(*line, "--new-group").code == 0
    assert f"{name}-typo" in left(name)


@pytest.mark.interop
def test_groups_commands_that_need_offsets_reject_a_share_group(at: Broker, name: str) -> None:
    asked = Cluster(at.bootstrap)
    asked.create_topic(name, 1)

    def joined() -> bool:
        answer = asked.call(
            "ShareGroupHeartbeat",
            1,
            group_id=name,
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=[name],
        )
        return answer["error_code"] == 0

    run("offsets", "get", name)  # the first coordinator lookup creates the offsets topic
    until("a share group has a member", joined)
    rows = {row["group"]: row for row in run("groups", "list", "--json").json}
    assert rows[name]["type"] == "share"
    for line in (
        ("groups", "lag", name),
        ("groups", "reset", name, "--topic", name, "--to-latest", "--execute"),
        ("groups", "delete", name, "--execute"),
        ("groups", "evict", name, "a", "--execute"),
        ("offsets", "get", name),
        ("offsets", "set", name, f"{name}:0=0", "--execute"),
    ):
        ran = run(*line)
        assert ran.code == REFUSED, line
        assert f"group {name} is a share group" in ran.err, line
    assert run("groups", "describe", name).code == 0
    assert run("groups", "lag", "--all-groups").code == 0


def test_state_option_of_groups_list_is_case_insensitive() -> None:
    assert states_named([state.lower() for state in STATES]) == list(STATES)


@pytest.mark.interop
def test_control_characters_of_a_group_name_are_escaped(at: Broker, name: str) -> None:
    group = f"\x1b[31m{name}\n"
    Cluster(at.bootstrap).create_topic(name, 1)
    line = ("offsets", "set", group, f"{name}:0=0", "--execute")
    until("the group has offsets", lambda: run(*line).code == 0)

    for words in (("groups", "describe", group), ("groups", "delete", group, "--execute")):
        ran = run(*words)
        assert f"\\x1b[31m{name}\\n" in ran.out
        assert "\x1b" not in ran.out


@pytest.mark.interop
@pytest.mark.usefixtures("groups")
def test_error_about_a_misspelled_topic_suggests_the_right_name(name: str) -> None:
    for words in (("produce", f"{name}x", "-v", "1"), ("topics", "grow", f"{name}x", "-p", "9")):
        ran = run(*words)
        assert (ran.code, ran.out) == (REFUSED, "")
        assert ran.err.endswith(f"; did you mean {name}?\n")
