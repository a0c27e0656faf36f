"""`muster groups` for streams groups (KIP-1071): tasks, missing topics, and members that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.client.streams_tasks import inputs_of, tasks_text
from cli.groups.why import story
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.streams_group_side import JOINING, heartbeat
from tests.interop.streams_topologies import subtopology, topology
from tests.waiting import until
from tests.wire import Wire

EMPTY: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}

REBALANCE = {
    "source": "seen",
    "type": "consumer",
    "cause": "member_joined",
    "why": "counts-fd8e-StreamThread-1-consumer (EPxgwm5Y) from 127.0.0.1 joined",
    "member": "EPxgwm5Y",
    "last_heard_ms": None,
    "began_ms": 1_796_045_745_000,
    "phase": "revoke",
    "outcome": None,
    "awaited": [{"member": "30ogms_V", "instance": None}],
    "until_ms": 1_796_046_046_000,
    "moved": "0_2, 1_1 from 30ogms_V to EPxgwm5Y",
    "generation": 5,
    "protocol": "sticky",
    "changes": [],
}


def tasks(**partitions: list[int]) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": name.lstrip("_"), "partitions": numbers}
        for name, numbers in partitions.items()
    ]


def test_tasks_of_a_streams_member_are_shown_by_role_and_subtopology() -> None:
    assignment = {**EMPTY, "active_tasks": tasks(_1=[0], _0=[2, 0, 1])}
    assert tasks_text(assignment) == "0:0-2 1:0"
    assert tasks_text({**assignment, "standby_tasks": tasks(_1=[2])}) == "0:0-2 1:0; standby 1:2"
    assert tasks_text(EMPTY) == ""


def test_partitions_of_a_streams_member_are_those_that_its_active_tasks_read() -> None:
    between = {"name": "between"}
    described = topology(subtopology("0", "a", "b"), subtopology("1", repartitioned=(between,)))
    member = {"assignment": {**EMPTY, "active_tasks": tasks(_0=[1, 0], _1=[3])}}
    assert inputs_of(described, member) == {"a": [0, 1], "b": [0, 1], "between": [3]}
    assert inputs_of(None, member) == {}


def test_groups_why_prints_the_reasons_why_streams_tasks_are_not_assigned() -> None:
    wait = {"waiting": "b", "task": "0_2", "role": "active", "member": "a"}
    journal = {
        "group": "counts",
        "state": "Reconciling",
        "topology": {
            "problem": {"code": 1, "detail": "Source topics lines are missing.", "topics": []},
            "delayed_until_ms": 1_700_000_000_000,
            "shutdown_by": "a",
        },
        "task_waits": [wait, {**wait, "role": "standby", "task": "1_0"}, wait, wait],
        "findings": [],
        "restored": None,
        "rebalances": [],
        "notes": [],
        "moved_back": {"last": []},
        "rejected_commits": [],
        "flapping": [],
        "returning": [],
    }
    assert story(journal)[1:-1] == [
        "no task is assigned: Source topics lines are missing.",
        "the first assignment waits until 2023-11-14T22:13:20Z for further members",
        "a requested the shutdown of the application; every instance must end",
        "b waits for task 0_2, which a must give up",
        "b waits for standby task 1_0, which a must give up",
        "b waits for task 0_2, which a must give up",
        "and 1 more tasks are awaited",
    ]


def test_groups_list_and_groups_describe_show_a_streams_group(at: Broker, name: str) -> None:
    shape = topology(subtopology("0", "absent"))
    coordinator = {"key": "", "key_type": 0, "coordinator_keys": [name]}
    value = heartbeat(name, "m1", 0, **{**JOINING, "topology": shape})

    def joined() -> bool:
        wire.call("FindCoordinator", 4, coordinator)
        return not wire.call("StreamsGroupHeartbeat", 0, value)["error_code"]

    with Wire(at.port) as wire:
        until("the member has joined", joined)
        listed = run("groups", "list", "--type", "streams", "--json")
        assert listed.code == 0, listed.err
        [row] = listed.json
        shown = run("groups", "describe", name, "--json")
        assert shown.code == 0, shown.err
        [described] = shown.json
    assert (row["group"], row["state"], row["type"]) == (name, "NotReady", "streams")
    assert (described["type"], described["state"]) == ("streams", "NotReady")
    assert [(each["member"], each["tasks"]) for each in described["members"]] == [("m1", "")]


def test_examples_of_the_streams_groups_page_equal_the_output() -> None:
    page = (Path(__file__).parents[3] / "docs" / "use" / "streams-groups.md").read_text()
    nothing: dict[str, Any] = {
        "restored": None,
        "notes": [],
        "moved_back": {"last": []},
        "rejected_commits": [],
        "flapping": [],
        "returning": [],
    }
    missing = {
        "verdict": "NOT_READY",
        "sentence": "no instance has had a task since 2026-11-30T13:35:10Z: the source topic clicks"
        " does not exist",
        "advice": "create the topic, or correct its name in the application",
        "command": "muster topics create clicks",
    }
    waits = [
        {"waiting": "EPxgwm5Y", "task": task, "role": "active", "member": "30ogms_V"}
        for task in ("0_2", "1_1")
    ]
    idle = {"problem": None, "delayed_until_ms": None, "shutdown_by": None}
    shown = [
        *story(
            {
                **nothing,
                "group": "clicks",
                "state": "NotReady",
                "topology": {**idle, "problem": {"code": 1, "detail": "", "topics": ["clicks"]}},
                "task_waits": [],
                "findings": [missing],
                "rebalances": [],
            }
        )[:-1],
        *story(
            {
                **nothing,
                "group": "counts",
                "state": "Reconciling",
                "topology": idle,
                "task_waits": waits,
                "findings": [],
                "rebalances": [REBALANCE],
            }
        ),
    ]
    assert [line for line in shown if f"    {line}\n" not in page] == []
