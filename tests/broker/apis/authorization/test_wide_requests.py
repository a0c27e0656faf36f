"""Tests that a request for the maximum number of partitions of a topic does not block the event
loop."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED
from tests.broker.apis.authorization.asking import (
    GROUP,
    Asking,
    Value,
    codes,
    guarded_broker,
)
from tests.broker.apis.authorization.rules import ADMIN
from tests.broker.loop_work import CALLS_IN_10_MS, counting

WIDE = 9_990
INDEXES = list(range(WIDE))
COMMITTED = {"committed_offset": 1, "committed_metadata": "m" * 20}
TXN = {"transactional_id": "pay", "group_id": GROUP, "producer_id": 0, "producer_epoch": 0}


def many(index: str, **fields: object) -> list[Value]:
    return [{index: number, **fields} for number in INDEXES]


REQUESTS: list[tuple[str, int, Value]] = [
    ("DescribeProducers", 0, {"topics": [{"name": "t", "partition_indexes": INDEXES}]}),
    (
        "OffsetCommit",
        8,
        {
            "group_id": GROUP,
            "topics": [{"name": "t", "partitions": many("partition_index", **COMMITTED)}],
        },
    ),
    (
        "OffsetCommit",
        1,
        {
            "group_id": GROUP,
            "topics": [{"name": "t", "partitions": many("partition_index", **COMMITTED)}],
        },
    ),
    (
        "TxnOffsetCommit",
        4,
        {**TXN, "topics": [{"name": "t", "partitions": many("partition_index", **COMMITTED)}]},
    ),
    (
        "ListOffsets",
        5,
        {"topics": [{"name": "t", "partitions": many("partition_index", timestamp=-1)}]},
    ),
    (
        "OffsetForLeaderEpoch",
        3,
        {"topics": [{"topic": "t", "partitions": many("partition", leader_epoch=0)}]},
    ),
    (
        "DeleteRecords",
        2,
        {"topics": [{"name": "t", "partitions": many("partition_index", offset=0)}]},
    ),
    (
        "OffsetFetch",
        5,
        {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": INDEXES}]},
    ),
    (
        "OffsetDelete",
        0,
        {"group_id": GROUP, "topics": [{"name": "t", "partitions": many("partition_index")}]},
    ),
    (
        "Fetch",
        11,
        {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "session_epoch": -1,
            "forgotten_topics_data": [],
            "topics": [
                {
                    "topic": "t",
                    "partitions": many("partition", fetch_offset=0, partition_max_bytes=1),
                }
            ],
        },
    ),
    (
        "Produce",
        7,
        {
            "acks": 1,
            "timeout_ms": 1_000,
            "topic_data": [{"name": "t", "partition_data": many("index", records=None)}],
        },
    ),
    (
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": "pay",
            "v3_and_below_producer_id": 0,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "t", "partitions": INDEXES}],
        },
    ),
    ("ElectLeaders", 2, {"topic_partitions": [{"topic": "t", "partitions": INDEXES}]}),
    ("DescribeLogDirs", 1, {"topics": [{"topic": "t", "partitions": INDEXES}]}),
]


DENIED: dict[str, set[int]] = defaultdict(
    lambda: {TOPIC_AUTHORIZATION_FAILED},
    # These two APIs need a right on the cluster. They return its error, or no elements.
    ElectLeaders={CLUSTER_AUTHORIZATION_FAILED},
    DescribeLogDirs={NONE},
)


async def codes_in_short_steps(
    asking: Asking, user: str, api: str, version: int, value: Value
) -> set[int]:
    """Sends a request and returns the error codes of its response. Fails if one step of the work
    takes 10 ms or more."""
    with counting() as work:
        answer = await asking.ask(user, api, version, value)
    assert work.longest < CALLS_IN_10_MS, f"{api}: {work.longest} calls in one piece"
    return codes(answer)


def names(value: object) -> str:
    return value if isinstance(value, str) else f"v{value}" if isinstance(value, int) else ""


@pytest.mark.parametrize(("api", "version", "value"), REQUESTS, ids=names)
async def test_denied_request_for_many_partitions_is_handled_in_short_steps(
    tmp_path: Path, api: str, version: int, value: Value
) -> None:
    rules = (
        f"alice: READ GROUP {GROUP}",
        f"alice: DELETE GROUP {GROUP}",
        "alice: WRITE TRANSACTIONAL_ID pay",
    )
    async with guarded_broker(tmp_path, *rules, topics=("t",)) as asking:
        found = await codes_in_short_steps(asking, "alice", api, version, value)
        assert found <= DENIED[api], found


@pytest.mark.parametrize(("api", "version", "value"), REQUESTS, ids=names)
async def test_allowed_request_for_many_partitions_is_handled_in_short_steps(
    tmp_path: Path, api: str, version: int, value: Value
) -> None:
    async with guarded_broker(tmp_path, topics=("t",)) as asking:
        known = asking.broker.registry.topics
        known["t"] = replace(known["t"], partitions=WIDE)  # so that a commit checks each one
        await codes_in_short_steps(asking, ADMIN, api, version, value)
