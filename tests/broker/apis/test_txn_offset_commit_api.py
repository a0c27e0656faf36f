from __future__ import annotations

from typing import Any

import pytest

from broker.apis.txn_offset_commit import _as_known
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    STALE_MEMBER_EPOCH,
    TRANSACTION_ABORTABLE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from tests.broker.topic_calls import create_topic, topic_id
from tests.broker.transactional import TransactionalProducer, initialized
from tests.waiting import until
from tests.wire import Wire

VERSIONS = range(7)
WITH_MEMBERS = range(3, 7)


def unknown_topic(version: int) -> int:
    return UNKNOWN_TOPIC_ID if version >= 6 else UNKNOWN_TOPIC_OR_PARTITION


def producer_for_group(wire: Wire, name: str, version: int) -> TransactionalProducer:
    """Returns a producer that may commit offsets of the group ``name`` in this version of
    TxnOffsetCommit."""
    create_topic(wire, name, 2)
    wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})
    producer = initialized(wire, name, 2 if version >= 5 else 1)
    if version < 5:
        until("its offsets are added", lambda: producer.add_offsets(name) == NONE)
    return producer


def fetched(wire: Wire, name: str, stable: bool = False) -> list[tuple[int, int]]:
    """Returns the group's offsets of two partitions, with their error codes."""
    topics = [{"name": name, "partition_indexes": [0, 1]}]
    asked = {"group_id": name, "topics": topics, "require_stable": stable}
    answer = wire.call("OffsetFetch", 7, asked)
    assert answer["error_code"] == NONE
    return [
        (each["committed_offset"], each["error_code"]) for each in answer["topics"][0]["partitions"]
    ]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offsets_are_visible_after_their_transaction_commits(
    wire: Wire, name: str, version: int, commit: bool
) -> None:
    producer = producer_for_group(wire, name, version)

    assert producer.commit_offsets(name, {(name, 0): 7, (name, 1): 8}, version) == [NONE, NONE]

    assert fetched(wire, name) == [(-1, NONE)] * 2
    assert fetched(wire, name, stable=True) == [(-1, UNSTABLE_OFFSET_COMMIT)] * 2
    assert producer.end(commit) == NONE
    expected = [(7, NONE), (8, NONE)] if commit else [(-1, NONE)] * 2
    until("the offsets are stable", lambda: fetched(wire, name, stable=True) == expected)
    assert fetched(wire, name) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_refuses_only_unknown_partitions(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    offsets = {(name, 0): 7, (name, 9): 8, (f"{name}-none", 0): 9}

    codes = producer.commit_offsets(name, offsets, version)

    assert codes == [NONE, UNKNOWN_TOPIC_OR_PARTITION, unknown_topic(version)]
    assert producer.end(commit=True) == NONE
    until("it counts", lambda: fetched(wire, name)[0] == (7, NONE))


@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_of_unknown_partitions_skips_the_other_checks(
    wire: Wire, name: str, version: int
) -> None:
    producer = TransactionalProducer(wire, f"{name}-unknown", producer_id=77, epoch=3)

    codes = producer.commit_offsets("", {(f"{name}-none", 0): 1}, version)

    assert codes == [unknown_topic(version)]


@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_refuses_an_empty_group_id_before_it_checks_the_transaction(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    producer = TransactionalProducer(wire, f"{name}-unknown", producer_id=77, epoch=3)

    assert producer.commit_offsets("", {(name, 0): 1}, version) == [INVALID_GROUP_ID]


@pytest.mark.proves("transactions 2")
@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_checks_the_transaction_before_the_group(
    wire: Wire, name: str, version: int
) -> None:
    """Three producers fail a check of their transaction: an unknown producer, a fenced producer,
    and a producer whose transaction does not contain the group."""
    producer = producer_for_group(wire, name, version)
    offsets = {(name, 0): 1}
    member: dict[str, Any] = {}
    if version in WITH_MEMBERS:
        member = {"generation_id": 5, "member_id": "nobody", "group_instance_id": None}

    stranger = TransactionalProducer(wire, f"{name}-unknown", producer_id=77, epoch=3)
    assert stranger.commit_offsets(name, offsets, version, **member) == [
        INVALID_PRODUCER_ID_MAPPING
    ]
    if version < 5:
        other = initialized(wire, f"{name}-other", rules=1)
        told = TRANSACTION_ABORTABLE if version == 4 else INVALID_TXN_STATE
        assert other.commit_offsets(name, offsets, version, **member) == [told]
    successor = initialized(wire, name, producer.rules)
    assert successor.epoch > producer.epoch
    fenced = producer.commit_offsets(name, offsets, version, **member)
    assert fenced == [INVALID_PRODUCER_EPOCH]
    assert fetched(wire, name, stable=True)[0][0] == -1


@pytest.mark.proves("transactions 27")
@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_txn_offset_commit_of_an_outdated_member_is_refused(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    joined = join(wire, name)
    ours = {
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "group_instance_id": f"{name}-instance",
    }

    def commit(**fields: Any) -> int:
        [code] = producer.commit_offsets(name, {(name, 0): 1}, version, **{**ours, **fields})
        return code

    assert commit(generation_id=ours["generation_id"] - 1) == ILLEGAL_GENERATION
    assert commit(member_id="nobody") == FENCED_INSTANCE_ID
    assert commit(member_id="nobody", group_instance_id=None) == UNKNOWN_MEMBER_ID
    assert commit() == NONE, "also while the group waits for its assignment"
    assert commit(generation_id=-1, member_id="", group_instance_id=None) == NONE, "it names nobody"


@pytest.mark.proves("transactions 27")
@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_without_generation_creates_an_unknown_group(
    wire: Wire, name: str, version: int
) -> None:
    """A commit with a generation is refused and creates no group."""
    producer = producer_for_group(wire, name, version)

    def groups() -> list[str]:
        found = wire.call("ListGroups", 4, {"states_filter": []})["groups"]
        return [each["group_id"] for each in found if each["group_id"] == name]

    if version in WITH_MEMBERS:
        member = {"generation_id": 3, "member_id": "m", "group_instance_id": None}
        codes = producer.commit_offsets(name, {(name, 0): 1}, version, **member)
        refused = GROUP_ID_NOT_FOUND if version >= 6 else ILLEGAL_GENERATION
        assert (codes, groups()) == ([refused], [])
    assert producer.commit_offsets(name, {(name, 0): 1}, version) == [NONE]
    assert producer.end(commit=True) == NONE
    until("the group is there", lambda: groups() == [name])


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_txn_offset_commit_checks_the_epoch_of_a_consumer_group_member(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    heartbeat = {"group_id": name, "member_id": "m", "member_epoch": 0, "topic_partitions": []}
    heartbeat |= {"subscribed_topic_names": [name], "rebalance_timeout_ms": 60_000}
    joined = wire.call("ConsumerGroupHeartbeat", 1, heartbeat)
    assert joined["error_code"] == NONE
    epoch = joined["member_epoch"]

    def commit(epoch: int, member_id: str = "m") -> int:
        member = {"generation_id": epoch, "member_id": member_id}
        [code] = producer.commit_offsets(name, {(name, 0): 1}, version, **member)
        return code

    assert commit(epoch) == NONE
    assert commit(epoch + 1) == (STALE_MEMBER_EPOCH if version >= 6 else ILLEGAL_GENERATION)
    assert commit(epoch, "nobody") == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
def test_txn_offset_commit_below_version_3_commits_for_any_group(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    join(wire, name)

    assert producer.commit_offsets(name, {(name, 0): 1}, version) == [NONE]


def join(wire: Wire, name: str) -> dict[str, Any]:
    """Joins the group as a static member. The group then waits for the assignment."""
    answer = wire.call(
        "JoinGroup",
        5,
        {
            "group_id": name,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": "",
            "group_instance_id": f"{name}-instance",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    )
    assert answer["error_code"] == NONE
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_refuses_only_partitions_with_long_metadata(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    value = {
        "transactional_id": name,
        "group_id": name,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "topics": [
            {
                **({"topic_id": topic_id(wire, name)} if version >= 6 else {"name": name}),
                "partitions": [
                    {"partition_index": index, "committed_offset": 5, "committed_metadata": said}
                    for index, said in enumerate(("x" * 10_000, None))
                ],
            }
        ],
    }

    answer = wire.call("TxnOffsetCommit", version, value)

    codes = [each["error_code"] for each in answer["topics"][0]["partitions"]]
    assert codes == [OFFSET_METADATA_TOO_LARGE, NONE]


@pytest.mark.parametrize("version", VERSIONS)
def test_txn_offset_commit_after_the_end_of_its_transaction_is_refused(
    wire: Wire, name: str, version: int
) -> None:
    producer = producer_for_group(wire, name, version)
    assert producer.commit_offsets(name, {(name, 0): 1}, version) == [NONE]
    before = producer.epoch
    assert producer.end(commit=True) == NONE
    until("it counts", lambda: fetched(wire, name, stable=True)[0] == (1, NONE))

    producer.epoch = before
    [code] = producer.commit_offsets(name, {(name, 0): 2}, version)

    if version >= 5:
        assert code == INVALID_PRODUCER_EPOCH
    else:
        assert code == (TRANSACTION_ABORTABLE if version == 4 else INVALID_TXN_STATE)
    assert fetched(wire, name, stable=True)[0] == (1, NONE)


@pytest.mark.parametrize("version", [2, 5])
def test_txn_offset_commit_of_600_partitions_commits_all_partitions(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, f"{name}-wide", 600)
    producer = producer_for_group(wire, name, version)
    offsets = {(f"{name}-wide", index): index for index in range(600)}

    assert set(producer.commit_offsets(name, offsets, version)) == {NONE}
    assert producer.end(commit=True) == NONE

    def last() -> int:
        topics = [{"name": f"{name}-wide", "partition_indexes": [599]}]
        asked = {"group_id": name, "topics": topics, "require_stable": True}
        answer = wire.call("OffsetFetch", 7, asked)
        offset: int = answer["topics"][0]["partitions"][0]["committed_offset"]
        return offset

    until("all of it counts", lambda: last() == 599)


def test_txn_offset_commit_v0_v1_returns_not_available_while_the_group_is_loading() -> None:
    loading, elsewhere = COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE

    assert [_as_known(loading, version) for version in VERSIONS] == [elsewhere] * 2 + [loading] * 5
