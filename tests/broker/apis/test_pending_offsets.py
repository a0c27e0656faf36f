"""Tests that pending offsets of open transactions survive kills, log cleaning, group deletions and
rebalances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import GROUP_ID_NOT_FOUND, NONE, UNSTABLE_OFFSET_COMMIT
from tests.broker.topic_calls import create_topic
from tests.broker.topics.test_cleaning_churn import commit, disk_bytes, settled
from tests.broker.transactional import TransactionalProducer, initialized
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
UNSTABLE = (-1, UNSTABLE_OFFSET_COMMIT)
PARTITIONS = 100


def prepared(wire: Wire, name: str, partitions: int = 3, rules: int = 2) -> TransactionalProducer:
    """Creates a topic, waits for the group coordinator, and returns a transactional producer."""
    create_topic(wire, name, partitions)
    asked = {"key": name, "key_type": 0}
    until(
        "there is a coordinator", lambda: not wire.call("FindCoordinator", 2, asked)["error_code"]
    )
    return initialized(wire, name, rules)


def plain(wire: Wire, name: str, offsets: dict[int, int]) -> None:
    """Commits offsets without a transaction and without a member."""
    partitions = [
        {"partition_index": each, "committed_offset": offset, "committed_metadata": ""}
        for each, offset in offsets.items()
    ]
    topics = [{"name": name, "partitions": partitions}]
    answer = wire.call("OffsetCommit", 7, {"group_id": name, "member_id": "", "topics": topics})
    assert {each["error_code"] for each in answer["topics"][0]["partitions"]} == {NONE}


def fetched(wire: Wire, name: str, *, stable: bool = False) -> list[tuple[int, int]]:
    """Returns offset and error code of the first three partitions, after the group is loaded."""
    topics = [{"name": name, "partition_indexes": [0, 1, 2]}]
    asked = {"group_id": name, "topics": topics, "require_stable": stable}
    answer: dict[str, Any] = {}

    def loaded() -> bool:
        answer.update(wire.call("OffsetFetch", 7, asked))
        return bool(answer["error_code"] == NONE)

    until("the group is loaded", loaded)
    return [
        (each["committed_offset"], each["error_code"]) for each in answer["topics"][0]["partitions"]
    ]


@pytest.mark.proves("transactions 25", "transactions 26")
@pytest.mark.campaign
@pytest.mark.parametrize("committed", [True, False])
def test_pending_offsets_survive_a_kill_but_do_not_replace_later_commits(
    brokers: Callable[..., Broker], name: str, committed: bool
) -> None:
    broker = brokers(SETTINGS)
    with Wire(broker.port) as wire:
        producer = prepared(wire, name)
        plain(wire, name, {0: 10, 1: 10})
        offsets = {(name, 0): 8, (name, 2): 8}
        assert producer.commit_offsets(name, offsets) == [NONE, NONE]
        assert producer.commit_offsets(name, {(name, 1): 8}) == [NONE]
        plain(wire, name, {1: 11})
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        producer.wire = wire
        assert fetched(wire, name, stable=True) == [UNSTABLE] * 3
        assert fetched(wire, name) == [(10, NONE), (11, NONE), (-1, NONE)], "shown to nobody"
        until("it ends", lambda: producer.end(committed) == NONE)
        ended = [(8, NONE), (11, NONE), (8, NONE)]
        expected = ended if committed else [(10, NONE), (11, NONE), (-1, NONE)]
        until("it is stable", lambda: fetched(wire, name, stable=True) == expected)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert fetched(wire, name, stable=True) == expected


@pytest.mark.proves("transactions 25", "transactions 26")
@pytest.mark.campaign
def test_log_cleaning_keeps_pending_offsets_until_their_transaction_ends(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers(SETTINGS)
    folder = broker.partition_folder("__consumer_offsets", 0)
    with Wire(broker.port) as wire:
        producer = prepared(wire, name, PARTITIONS)
        plain(wire, name, {0: 1, 1: 1, 2: 1})
        assert producer.commit_offsets(name, {(name, 0): 8, (name, 1): 8}) == [NONE] * 2
        plain(wire, name, {1: 11})
        create_topic(wire, "t", PARTITIONS)
        for number in range(800):
            commit(wire, "other", number)
            settled(wire)
        held = disk_bytes(folder)
        assert held > 3 << 20
        assert len(list(folder.glob("*.log"))) <= 2, "it rolls no segment in vain"
    broker.kill()
    (folder / "groups.image").unlink(missing_ok=True)
    broker.start()
    with Wire(broker.port) as wire:
        producer.wire = wire
        assert fetched(wire, name, stable=True) == [UNSTABLE, UNSTABLE, (1, NONE)]
        until("it ends", lambda: producer.end(True) == NONE)

        def cleaned() -> bool:
            commit(wire, "other", 1_000)
            settled(wire)
            return disk_bytes(folder) < held // 2

        until("it is cleaned", cleaned, within_s=60)
        assert fetched(wire, name, stable=True) == [(8, NONE), (11, NONE), (1, NONE)]
    broker.kill()
    (folder / "groups.image").unlink(missing_ok=True)
    broker.start()
    with Wire(broker.port) as wire:
        assert fetched(wire, name, stable=True) == [(8, NONE), (11, NONE), (1, NONE)]


@pytest.mark.proves("transactions 25")
@pytest.mark.parametrize("rules", [1, 2])
def test_pending_offsets_are_stable_directly_after_the_end_txn_response(
    brokers: Callable[..., Broker], name: str, rules: int
) -> None:
    broker = brokers(SETTINGS)
    with Wire(broker.port) as wire:
        producer = prepared(wire, name, rules=rules)
        for number in range(30):
            if rules == 1:
                until("it is added", lambda: producer.add_offsets(name) == NONE)
            assert producer.commit_offsets(name, {(name, 0): number}) == [NONE]
            assert fetched(wire, name, stable=True)[0] == UNSTABLE
            assert producer.end(True) == NONE
            assert fetched(wire, name, stable=True)[0] == (number, NONE)


@pytest.mark.proves("transactions 28")
@pytest.mark.campaign
def test_commit_of_a_transaction_does_not_restore_a_deleted_group(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers(SETTINGS)
    with Wire(broker.port) as wire:
        producer = prepared(wire, name)
        assert producer.commit_offsets(name, {(name, 0): 8}) == [NONE]
        deleted = {"groups_names": [name]}
        [result] = wire.call("DeleteGroups", 2, deleted)["results"]
        assert result["error_code"] == NONE
        until("it ends", lambda: producer.end(True) == NONE)
        assert fetched(wire, name, stable=True) == [(-1, NONE)] * 3
        [result] = wire.call("DeleteGroups", 2, deleted)["results"]
        assert result["error_code"] == GROUP_ID_NOT_FOUND
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert fetched(wire, name, stable=True) == [(-1, NONE)] * 3
        assert wire.call("ListGroups", 4, {"states_filter": []})["groups"] == []


@pytest.mark.proves("transactions 28")
def test_marker_commits_pending_offsets_while_the_group_rebalances(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers(SETTINGS | {"group.initial.rebalance.delay.ms": "60000"})
    with Wire(broker.port) as wire, Wire(broker.port) as joining:
        producer = prepared(wire, name)
        joined = {
            "group_id": name,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 120_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joining.send("JoinGroup", 3, joined)

        def state() -> str:
            asked = {"groups": [name], "include_authorized_operations": False}
            said: str = wire.call("DescribeGroups", 5, asked)["groups"][0]["group_state"]
            return said

        until("it rebalances", lambda: state() == "PreparingRebalance")
        assert producer.commit_offsets(name, {(name, 0): 8}) == [NONE]
        assert fetched(wire, name, stable=True)[0] == UNSTABLE
        until("it ends", lambda: producer.end(True) == NONE)
        until("it is stable", lambda: fetched(wire, name, stable=True)[0] == (8, NONE))
        assert state() == "PreparingRebalance"
