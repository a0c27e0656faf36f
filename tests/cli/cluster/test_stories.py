"""`muster cluster why` merges the journals of several brokers into one history of a partition, a
broker or the controller."""

from __future__ import annotations

from typing import Any

import pytest

from cli.cluster.stories import last_move, left_isr, merged
from cli.cluster.telling import lines_of_broker, lines_of_controller, lines_of_partition
from cli.errors import USAGE
from tests.cli.running import run

Value = dict[str, Any]


def entry(at_s: int, kind: str, cause: str, why: str, **more: Any) -> Value:
    """Returns a journal entry as Muster's API returns it."""
    return {
        "at_ms": 1_700_000_000_000 + 1000 * at_s,
        "kind": kind,
        "cause": cause,
        "why": why,
        "broker": None,
        "controller_epoch": 2,
        "leader": None,
        "leader_before": None,
        "leader_epoch": None,
        "isr": [],
        "isr_before": [],
        "records": None,
        "source": "seen",
        **more,
    }


def led(at_s: int, cause: str, why: str, leader: int, epoch: int, isr: list[int]) -> Value:
    before = [1, 2, 3]
    return entry(
        at_s, "leader", cause, why, leader=leader, leader_epoch=epoch, isr=isr, isr_before=before
    )


CREATED = led(0, "created", "elected when the partition was created", 3, 0, [1, 2, 3])
GONE = led(
    60,
    "offline",
    "the leader, broker 3, is no longer registered in ZooKeeper; broker 1 is next",
    1,
    1,
    [1, 2],
)
TOLD = led(61, "told", "the controller reports broker 1 as leader", 1, 1, [1, 2])
SLOW = entry(
    90, "isr", "slow", "broker 2 is 60 records behind", broker=2, leader=1, leader_epoch=1, isr=[1],
    isr_before=[1, 2],
)  # fmt: skip
ASKED = entry(
    91, "isr", "isr", "the leader, broker 1, changed the ISR: removed broker"
    " 2", leader=1, leader_epoch=1, isr=[1],
    isr_before=[2, 1],
)  # fmt: skip


def test_merge_of_journals_prefers_the_entry_with_a_cause() -> None:
    story = merged({1: [TOLD, SLOW], 2: [CREATED, GONE, ASKED], 3: [TOLD]})

    assert [(each["cause"], each["told_by"]) for each in story] == [
        ("created", 2),
        ("offline", 2),
        ("slow", 1),
    ]


def test_merge_of_journals_keeps_an_entry_when_no_journal_has_its_cause() -> None:
    assert [each["cause"] for each in merged({1: [TOLD], 3: [TOLD, ASKED]})] == ["told", "isr"]
    assert merged({}) == []


def test_function_left_isr_returns_the_entry_that_last_removed_the_broker() -> None:
    back = entry(95, "isr", "in", "broker 2 has caught up", isr=[1, 2], isr_before=[1])
    story = [CREATED, GONE, SLOW]

    assert left_isr(story, 2) == SLOW
    assert left_isr(story, 3) == GONE
    assert left_isr([*story, back], 2) is None
    assert left_isr(story, 1) is None


def test_function_last_move_returns_the_entry_about_the_election_of_the_current_leader() -> None:
    assert last_move([CREATED, GONE, SLOW], 1) == GONE
    assert last_move([CREATED, GONE], 2) is None
    assert last_move([], 1) is None


def test_partition_lines_show_replicas_outside_the_isr_and_pending_work() -> None:
    story = merged({1: [SLOW], 2: [CREATED, GONE]})
    found = {
        "topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 1, "replicas": [3, 1, 2],
        "isr": [1], "adding": [], "moving": False, "moved": story[1], "story": story,
        "topic_story": [], "controller": 2, "unasked": [], "waits": [
            {"what": "reassignment", "topic": "orders", "partition": 0, "brokers": [2],
             "since_ms": None}
        ],
        "out": [
            {"broker": 3, "alive": False, "left": story[1], "adding": False, "records": None,
             "fetched_ms": None, "caught_up_ms": None,
             "held_up": None},
            {"broker": 2, "alive": True, "left": story[2], "adding": False, "records": 60,
             "fetched_ms": 1_700_000_092_000, "caught_up_ms": None,
             "held_up": "the disk is full"},
        ],
    }  # fmt: skip

    assert lines_of_partition(found, 2) == [
        "orders-0  broker 1 leads, leader epoch 1",
        "replicas 3, 1, 2  ISR 1",
        "leader since 2023-11-14T22:14:20Z: the leader, broker 3, is no longer registered in"
        " ZooKeeper; broker 1 is next  (broker 2)",
        "broker 3 is out of the ISR since 2023-11-14T22:14:20Z: the leader, broker 3, is no longer"
        " registered in ZooKeeper  (broker 2)",
        "    now: broker 3 is down",
        "broker 2 is out of the ISR since 2023-11-14T22:14:50Z: broker 2 is 60 records behind "
        " (broker 1)",
        "    now: the replica is 60 records behind the leader, last fetch at 2023-11-14T22:14:52Z",
        "    broker 2 reports: the disk is full",
        "reassignment of orders-0: waiting for broker 2 to join the ISR",
        "2023-11-14T22:14:20Z  broker 1 leads (epoch 1, ISR 1, 2): the leader, broker 3, is no"
        " longer registered in ZooKeeper; broker 1 is next  (broker 2)",
        "2023-11-14T22:14:50Z  ISR 1: broker 2 is 60 records behind  (broker 1)",
    ]


def test_cluster_why_reports_a_partition_without_recorded_events() -> None:
    found = {
        "topic": "orders", "partition": 0, "leader": None, "leader_epoch": None, "replicas": [3],
        "isr": [3], "adding": [], "moving": False, "controller": None, "unasked": [],
        "moved": None, "story": [], "topic_story": [], "waits": None, "out": [],
    }  # fmt: skip

    assert lines_of_partition(found, 5) == [
        "orders-0  no leader",
        "replicas 3  ISR 3",
        "reason unknown: the brokers that could be queried have no record of the election",
        "no history: the brokers that could be queried have recorded no event",
    ]


def test_lines_about_a_broker_show_why_its_replicas_are_out_of_sync() -> None:
    row = {"topic": "orders", "leader": 1, "since_ms": 1_700_000_000_000, "cause": "slow",
           "why": "broker 2 is 60 records behind", "records": 60, "fetched_ms": None,
           "held_up": "the disk is full"}  # fmt: skip
    found = {
        "broker": 2, "address": "10.0.0.2:9092", "rack": None, "alive": True, "epoch": 27,
        "zookeeper": {"connect": "zk:2181/kafka", "state": "suspended"}, "leads": 1, "preferred": 2,
        "replicas": 6, "out": [{**row, "partition": 1}, {**row, "partition": 2}], "out_of_isr": 2,
        "story": [entry(0, "broker", "came", "broker 2 is registered", told_by=1, source="kept")],
        "session_story": [], "out_elsewhere": [], "controller": 1, "unasked": [],
    }  # fmt: skip

    assert lines_of_broker(found, 5) == [
        "broker 2  10.0.0.2:9092  epoch 27",
        "the session with ZooKeeper (zk:2181/kafka) is suspended",
        "the broker leads 1 partition, is the preferred leader of 2, and has replicas of 6",
        "the broker is out of the ISR of 2 partitions",
        "    orders:1-2 since 2023-11-14T22:13:20Z: broker 2 is 60 records behind",
        "        the broker reports: the disk is full",
        "2023-11-14T22:13:20Z  broker 2 is registered  (broker 1)  [kept]",
        "[kept]: recorded before the broker's last start",
    ]


def test_cluster_why_merges_partitions_whose_reasons_differ_only_in_the_new_leader() -> None:
    gone = "broker 2 is no longer registered in ZooKeeper"
    led = "the leader, broker {}, is no longer registered in ZooKeeper; broker {} is the first live"
    row = {"topic": "orders", "since_ms": 1_700_000_000_000, "cause": "gone", "records": None,
           "fetched_ms": None, "held_up": None}  # fmt: skip
    found = {
        "broker": 2, "address": None, "rack": None, "alive": False, "epoch": None,
        "zookeeper": None, "leads": 0, "preferred": 2, "replicas": 4, "out_of_isr": 4,
        "out": [
            {**row, "partition": 0, "leader": 1, "why": led.format(2, 1)},
            {**row, "partition": 1, "leader": 3, "why": led.format(2, 3)},
            {**row, "partition": 2, "leader": 3, "why": gone},
            {**row, "partition": 3, "leader": 3, "why": led.format(1, 3)},
        ],
        "story": [], "session_story": [], "out_elsewhere": [], "controller": 1, "unasked": [],
    }  # fmt: skip

    since = "since 2023-11-14T22:13:20Z"
    assert lines_of_broker(found, 1)[3:6] == [
        f"    orders:0-1 {since}: the leader, broker 2, is no longer registered in ZooKeeper",
        f"    orders:2 {since}: {gone}",
        f"    orders:3 {since}: the leader, broker 1, is no longer registered in ZooKeeper",
    ]


def test_output_about_the_controller_shows_its_pending_work_and_the_brokers_it_waits_for() -> None:
    doing = {
        "epoch": 4, "partitions_left": 3, "writes": 1, "retries": 0, "calls": 0,
        "shutdowns": [{"broker": 3, "partitions": 2}],
        "unanswered": [
            {"broker": 2, "requests": 4, "request": "LeaderAndIsr", "since_ms": 1_700_000_000_000,
             "attempts": 9, "reason": "no connection"}
        ],
    }  # fmt: skip
    waits = [
        {"what": what, "topic": "orders", "partition": partition, "brokers": [3], "since_ms": 0}
        for what, partition in (("deletion", None), ("leader", 1))
    ]
    views = [
        {"broker": node, "controller": named, "controller_epoch": 4, "since_ms": None}
        for node, named in ((1, 1), (2, 3))
    ]
    found = {"controller": 1, "doing": doing, "waits": waits, "more_waits": 7, "views": views,
             "story": []}  # fmt: skip

    assert lines_of_controller(found, 5) == [
        "broker 1 is the controller, epoch 4",
        "broker 2 considers broker 3 the controller",
        "pending work: 3 partitions to check, 1 write to ZooKeeper in flight",
        "broker 3 is shutting down; the controller must still move the leadership of 2 partitions",
        "broker 2 has not responded to LeaderAndIsr since 2023-11-14T22:13:20Z; 4 requests queued:"
        " no connection",
        "deletion of orders: waiting since 1970-01-01T00:00:00Z for broker 3 to return or respond",
        "leader election of orders-1: waiting since 1970-01-01T00:00:00Z for broker 3 of the last"
        " ISR to return",
        "further deletions, reassignments and elections that wait for brokers: 7",
        "no history: the brokers that could be queried have recorded no event",
    ]


@pytest.mark.parametrize("what", ["orders", "-1", "controllers"])
def test_cluster_why_rejects_an_unknown_subject(what: str) -> None:
    ran = run("cluster", "why", "--", what)

    assert ran.code == USAGE
    assert ran.err == (
        f"muster: {what}: write TOPIC-PARTITION such as orders-0, a broker's id, or controller\n"
    )


def test_cluster_why_lines_name_the_unreachable_broker_whose_journal_is_missing() -> None:
    unasked = [{"broker": 1, "why": "the broker at a:9092 is not a Muster broker"}]
    moved = merged({2: [TOLD]})[0]
    out = {"broker": 3, "alive": True, "left": None, "adding": False, "records": None,
           "fetched_ms": None, "caught_up_ms": None, "held_up": None}  # fmt: skip
    partition = {
        "topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 1, "replicas": [3, 1, 2],
        "isr": [1, 2], "adding": [], "moving": False, "moved": moved, "story": [moved],
        "topic_story": [], "waits": [], "out": [out], "controller": 1, "unasked": unasked,
    }  # fmt: skip
    broker = {
        "broker": 3, "address": "10.0.0.3:9092", "rack": None, "alive": True, "epoch": None,
        "zookeeper": None, "leads": 0, "preferred": 1, "replicas": 1, "out": [], "out_of_isr": 1,
        "out_elsewhere": [{"topic": "orders", "partition": 0, "leader": 1}], "story": [],
        "session_story": [], "controller": 1, "unasked": unasked,
    }  # fmt: skip

    lines = lines_of_partition(partition, 1)
    assert lines[3:5] == [
        "    reason unknown: broker 1, the controller, could not be queried",
        "broker 3 is out of the ISR since an unknown time: broker 1, the partition's leader, could"
        " not be queried",
    ]
    assert lines_of_partition({**partition, "unasked": []}, 1)[3] == (
        "    reason unknown: only the controller of epoch 2 recorded the reason"
    )
    assert lines_of_broker(broker, 1)[-2:] == [
        "    orders:0; broker 1, the leader, could not be queried",
        "history unknown: broker 1, the controller, could not be queried",
    ]


def test_entry_about_a_broker_that_left_the_isr_is_found_when_the_previous_isr_is_empty() -> None:
    first = led(0, "told", "the controller reports broker 3 as leader", 3, 0, [1, 2, 3])
    then = {**TOLD, "isr_before": []}

    assert left_isr([{**first, "isr_before": []}, then], 3) == then
