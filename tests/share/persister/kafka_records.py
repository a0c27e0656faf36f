"""Records and replies of Apache Kafka 4.3.1's share coordinator for a list of requests.

tests/interop/test_share_records_as_kafka.py sends `STEPS` to a real Kafka. `core_answers` sends
`STEPS` to the core of Muster, at the times of Kafka's records. Kafka and Muster must write records
with the same bytes and send the same replies. The file `GOLDEN` contains Kafka's records and
replies for tests that run without Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from protocol.now import Now
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    WriteState,
)
from share.persister.config import ShareStateConfig
from share.persister.record_codec import SNAPSHOT, decode_value, encode_key, encode_value
from share.persister.shard import ShareStateShard
from share.persister.values import SnapshotValue
from share.values import SharePartitionKey, StateBatch

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "share_state_records.jsonl"
UPDATES_PER_SNAPSHOT = 3
CONFIG = ShareStateConfig(updates_per_snapshot=UPDATES_PER_SNAPSHOT)
PARTITIONS = 6

StoredRecord = tuple[bytes, bytes | None]
"""Key and value of a record."""


class Step(NamedTuple):
    """A request for one share partition."""

    verb: str
    """The operation: initialize, read, summarize, write or delete."""
    partition: int
    group_id: str = "g"
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    complete_count: int = 0
    batches: Sequence[tuple[int, int, int, int]] = ()


class Reply(NamedTuple):
    """The reply to a step. It contains only the fields that the replies to all operations have in
    common."""

    error_code: int
    error_message: str | None
    state: tuple[int, ...] | None = None
    """After a successful read: state epoch and start offset. After a successful summary: state
    epoch, start offset, leader epoch and delivery complete count."""
    batches: tuple[tuple[int, ...], ...] = ()


def initialize(partition: int, state_epoch: int, start_offset: int = -1, **more: Any) -> Step:
    return Step("initialize", partition, state_epoch=state_epoch, start_offset=start_offset, **more)


def read(partition: int, leader_epoch: int, **more: Any) -> Step:
    return Step("read", partition, leader_epoch=leader_epoch, **more)


def write(
    partition: int, start_offset: int, complete_count: int, *batches: tuple[int, int, int, int],
    state_epoch: int = 1, leader_epoch: int = 0, **more: Any,
) -> Step:  # fmt: skip
    return Step(
        "write",
        partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        complete_count=complete_count,
        batches=batches,
        **more,
    )


def summarize(partition: int) -> Step:
    return Step("summarize", partition)


def delete(partition: int) -> Step:
    return Step("delete", partition)


STEPS = [
    # Before the first Initialize.
    read(0, 0),
    write(0, 5, 0),
    summarize(0),
    delete(0),
    # Epochs.
    initialize(0, 5),
    summarize(0),
    read(0, 0),
    initialize(0, 4),
    initialize(0, 5, 7),
    initialize(0, 6, 9),
    read(0, -1),
    read(0, 3),
    read(0, 3),
    read(0, 2),
    summarize(0),
    write(0, 9, 0, (9, 9, 0, 1), state_epoch=6, leader_epoch=2),
    write(0, 9, 0, (9, 9, 0, 1), state_epoch=5, leader_epoch=3),
    write(0, 9, 0, (9, 9, 0, 1), state_epoch=5, leader_epoch=2),
    write(0, 9, 0, (9, 9, 0, 1), state_epoch=7, leader_epoch=4),
    write(0, -1, 1, (10, 10, 2, 1), state_epoch=-1, leader_epoch=-1),
    read(0, 3),
    delete(0),
    delete(0),
    read(0, 0),
    initialize(0, 1, 3),
    read(0, 0),
    # Batches of one write and of several writes are combined.
    initialize(1, 1, 0),
    write(1, 0, 0, (0, 4, 0, 1), (5, 9, 0, 1), (10, 12, 2, 1)),
    write(1, 0, 3, (3, 6, 2, 2), (20, 29, 4, 1), (22, 24, 0, 1), (25, 40, 2, 2)),
    write(1, -1, 0),
    write(1, 4, 9, (0, 2, 2, 1), (3, 3, 2, 1), (50, 50, 1, 3)),
    read(1, 0),
    # A write that causes a snapshot.
    write(1, 6, 10, (6, 6, 0, 3), (41, 45, 2, 2)),
    read(1, 0),
    summarize(1),
    # The start offset drops all batches.
    initialize(2, 1, 100),
    write(2, 100, 0, (100, 199, 0, 1)),
    write(2, 150, 0, (100, 149, 2, 1)),
    read(2, 0),
    write(2, 200, 0, (150, 199, 2, 1)),
    read(2, 0),
    # Other groups and partitions, and unusual numbers.
    initialize(3, 2147483647, 9223372036854775807, group_id="grüße 🙂"),
    read(3, 2147483647, group_id="grüße 🙂"),
    initialize(4, 0, 0, group_id="a" * 200),
    write(4, 0, 200, *[(2 * n, 2 * n, 2, 1 + n % 5) for n in range(200)], group_id="a" * 200),
    read(4, 0, group_id="a" * 200),
    summarize(5),
]


def core_call(step: Step, topic_id: bytes) -> Call:
    key = SharePartitionKey(step.group_id, topic_id, step.partition)
    match step.verb:
        case "initialize":
            return InitializeState("t", key, step.state_epoch, step.start_offset)
        case "read":
            return ReadState("t", key, step.leader_epoch)
        case "summarize":
            return ReadStateSummary("t", key, step.leader_epoch)
        case "write":
            return WriteState(
                "t",
                key,
                step.state_epoch,
                step.leader_epoch,
                step.start_offset,
                step.complete_count,
                [StateBatch(*each) for each in step.batches],
            )
    return DeleteState("t", key)


def topic_id_of(records: Sequence[StoredRecord]) -> bytes:
    """Returns the topic id, which is the same in the keys of all records."""
    return records[0][0][-20:-4]


def core_answers(kafka: Sequence[StoredRecord]) -> tuple[list[StoredRecord], list[Reply]]:
    """Runs `STEPS` on the core, with topic id and times from Kafka's records. Returns the core's
    records and replies."""
    topic_id = topic_id_of(kafka)
    shard = ShareStateShard(CONFIG)
    shard.loaded(Now(0, 0))
    records: list[StoredRecord] = []
    replies = []
    for step in STEPS:
        now = Now(0, _time_of(kafka, len(records)))
        outcome = shard.handle(core_call(step, topic_id), now)
        for run in outcome.records:
            shard.replay(run, len(records))
            records.append((encode_key(run), encode_value(run.value)))
        ((_, reply),) = outcome.replies
        replies.append(_common(step, reply))
    return records, replies


def _time_of(kafka: Sequence[StoredRecord], number: int) -> int:
    if number < len(kafka):
        key, data = kafka[number]
        if data is not None and int.from_bytes(key[:2], "big") == SNAPSHOT:
            value = decode_value(SNAPSHOT, data)
            assert isinstance(value, SnapshotValue)
            return value.write_ms
    return 0


def _common(step: Step, reply: Any) -> Reply:
    state = reply.state
    if step.verb == "read" and state is not None:
        found = (state.state_epoch, state.start_offset)
        batches = tuple(map(tuple, state.batches))
        return Reply(reply.error_code, reply.error_message, found, batches)
    if step.verb == "summarize":
        summary = (
            state.state_epoch,
            state.start_offset,
            state.leader_epoch,
            state.delivery_complete_count,
        )
        return Reply(reply.error_code, reply.error_message, summary)
    return Reply(reply.error_code, reply.error_message)


def read_golden() -> tuple[list[StoredRecord], list[Reply]]:
    lines = list(map(json.loads, GOLDEN.read_text().splitlines()))
    records = [
        (bytes.fromhex(line["key"]), line["value"] and bytes.fromhex(line["value"]))
        for line in lines
        if "key" in line
    ]
    replies = [
        Reply(code, message, state and tuple(state), tuple(map(tuple, batches)))
        for code, message, state, batches in (line["reply"] for line in lines if "reply" in line)
    ]
    return records, replies


def write_golden(records: Sequence[StoredRecord], replies: Sequence[Reply]) -> None:
    lines: list[dict[str, Any]] = [
        {"key": key.hex(), "value": value and value.hex()} for key, value in records
    ]
    lines += [{"reply": reply} for reply in replies]
    GOLDEN.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
