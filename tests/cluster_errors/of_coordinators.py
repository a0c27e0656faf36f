"""Requests for groups and transactional ids, at their coordinators and at other brokers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cluster_errors.cell import (
    GROUP,
    NOWHERE,
    TOPIC,
    TRANSACTION,
    Cell,
    Value,
    there_and_elsewhere,
)

Said = tuple[str, int, Value]


def _of_group() -> Iterator[Said]:
    member = {"group_id": GROUP, "generation_id": 3, "member_id": "somebody"}
    yield (
        "JoinGroup",
        9,
        {
            "group_id": GROUP,
            "session_timeout_ms": 1,
            "rebalance_timeout_ms": 1,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    )
    yield "SyncGroup", 5, {**member, "protocol_type": "consumer", "protocol_name": "range"}
    yield "Heartbeat", 4, member
    yield "LeaveGroup", 5, {"group_id": GROUP, "members": [{"member_id": "somebody"}]}
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    committed = {"group_id": GROUP, "member_id": "somebody", "topics": topics}
    yield "OffsetCommit", 8, {**committed, "generation_id_or_member_epoch": 3}
    producer = {"transactional_id": TRANSACTION, "producer_id": 77_000, "producer_epoch": 0}
    yield "TxnOffsetCommit", 3, {**committed, **producer, "generation_id": 3}
    wanted = [{"name": TOPIC, "partition_indexes": [0]}]
    yield "OffsetFetch", 8, {"groups": [{"group_id": GROUP, "topics": wanted}]}
    yield "OffsetFetch of one group", 7, {"group_id": GROUP, "topics": wanted}
    for topic in (TOPIC, NOWHERE):
        dropped = [{"name": topic, "partitions": [{"partition_index": 7}]}]
        yield f"OffsetDelete of {topic}", 0, {"group_id": GROUP, "topics": dropped}
    yield "DescribeGroups", 5, {"groups": [GROUP]}


def _of_transaction() -> Iterator[Said]:
    producer = {"transactional_id": TRANSACTION, "producer_id": 77_000, "producer_epoch": 0}
    yield "InitProducerId", 4, {**producer, "transaction_timeout_ms": 0}
    yield "AddOffsetsToTxn", 3, {**producer, "group_id": GROUP}
    yield "EndTxn", 3, {**producer, "committed": True}
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    for topic in (TOPIC, NOWHERE):
        added = [{"name": topic, "partitions": [0]}]
        yield f"AddPartitionsToTxn of {topic}", 3, {**old, "v3_and_below_topics": added}
    for verify in (False, True):
        topics = [{"name": TOPIC, "partitions": [0]}]
        transaction = {**producer, "verify_only": verify, "topics": topics}
        said = "verifying" if verify else "of many"
        yield f"AddPartitionsToTxn {said}", 4, {"transactions": [transaction]}
    yield "DescribeTransactions", 0, {"transactional_ids": [TRANSACTION]}


def cells() -> Iterator[Cell]:
    for said in _of_group():
        yield from there_and_elsewhere("coordinator", lambda each: each.of_group, *said)
    yield Cell(
        "DeleteGroups at another broker",
        2,
        {"groups_names": [GROUP]},
        lambda each: each.other_than(each.of_group),
    )
    for said in _of_transaction():
        yield from there_and_elsewhere("coordinator", lambda each: each.of_transaction, *said)
    for kind in (0, 1, 7):
        asked = {"key_type": kind, "coordinator_keys": [GROUP]}
        yield Cell(f"FindCoordinator of type {kind}", 4, asked)
    yield Cell("ListGroups", 4, {})
    yield Cell("ListTransactions", 0, {})
    yield Cell("ListTransactions in a strange state", 0, {"state_filters": ["x"]})
