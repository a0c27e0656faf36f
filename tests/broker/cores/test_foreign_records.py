"""Tests records that Kafka's admin client writes to ``__consumer_offsets``. The broker checks them
before it appends them."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.cores.hosted_shard import NotActive, Phase
from coordinator.calls import OffsetCommit, TopicOffsets
from coordinator.outcome import CommitReply
from log.values import AppendInfo
from offsets.partitioner import partition_for
from offsets.record_codec import run_records
from offsets.record_values import group_key, group_value, offset_key_head, offset_value
from offsets.runs import GroupMember, GroupValue, OffsetRun, Run
from protocol.errors import (
    INVALID_RECORD,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.records.batch import assemble_batch, encode_batch
from protocol.records.compression import GZIP, LZ4
from protocol.records.section import Record
from tests.broker.edge import EdgeBroker, Taker
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import commit, committed, create_topic, produce
from tests.simulated_files import SimulatedFiles

TOPIC = "__consumer_offsets"
ADMIN = "__admin_client"
PARTITIONS = 4
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS)}
HERE = partition_for("g", PARTITIONS)
ELSEWHERE = next(name for name in "abcdef" if partition_for(name, PARTITIONS) != HERE)

KEY = offset_key_head("g", "t") + bytes(4)
VALUE = offset_value(41, -1, "", 1, -1)
MEMBER = GroupMember("m", None, "client", "/h", 60_000, 30_000, b"", b"")
GROUP = GroupValue("consumer", 3, "range", "m", 1, [MEMBER])


def no_members(count: int) -> bytes:
    """Returns a group value that claims to contain ``count`` members but contains none."""
    value = group_value(dataclasses.replace(GROUP, members=[]))
    return value[:-4] + count.to_bytes(4, "big", signed=True)


def twice(member: GroupMember) -> bytes:
    return group_value(dataclasses.replace(GROUP, members=[MEMBER, member]))


STATIC = dataclasses.replace(MEMBER, group_instance_id="i")
OTHER = dataclasses.replace(STATIC, member_id="other")
EMPTY = dataclasses.replace(GROUP, members=[], leader=None, protocol_name=None)

UNREADABLE: dict[str, tuple[bytes, bytes | None, str]] = {
    "an empty key": (b"", VALUE, "key is missing, or too short"),
    "a key of one byte": (b"\0", VALUE, "key is missing, or too short"),
    "a key that ends in its group": (b"\0\1\0\x05g", VALUE, "ends within the string"),
    "a key that is not UTF-8": (b"\0\2\0\1\xff", group_value(GROUP), "not UTF-8"),
    "an empty value": (KEY, b"", "a value of 0 bytes is too short to contain a version"),
    "a consumer group without epoch": (b"\0\3\0\1g", b"\0\0", "ConsumerGroupMetadata"),
    "a value of version 5": (KEY, b"\0\5" + VALUE[2:], "value version 5 is unknown"),
    "a value that is cut": (KEY, VALUE[:-1], "a field of 8 bytes"),
    "a group value that is cut": (group_key("g"), group_value(GROUP)[:-1], "a field of"),
    "a group with minus one members": (
        group_key("g"),
        no_members(-1),
        "the number of members is -1",
    ),
    "a group with two billion members": (group_key("g"), no_members(2**31 - 1), "a field of"),
    "the same member twice": (group_key("g"), twice(MEMBER), "the same member id"),
    "the same instance twice": (
        group_key("g"),
        group_value(
            dataclasses.replace(
                GROUP, members=[STATIC, dataclasses.replace(STATIC, member_id="other")]
            )
        ),
        "the same instance id",
    ),
    "a group of another partition": (
        group_key(ELSEWHERE),
        group_value(GROUP),
        f"belongs to partition {partition_for(ELSEWHERE, PARTITIONS)} of 4, not to {HERE}",
    ),
    "an offset of such a group": (
        offset_key_head(ELSEWHERE, "t") + bytes(4),
        VALUE,
        "belongs to partition",
    ),
    "a tombstone of such a group": (group_key(ELSEWHERE), None, "belongs to partition"),
}


def records(*pairs: tuple[bytes, bytes | None], compression: int = 0) -> bytes:
    stored = [Record(i, 1_000, key, value) for i, (key, value) in enumerate(pairs)]
    return encode_batch(stored, compression=compression)


def commits_of(run: Run, **fields: Any) -> bytes:
    return assemble_batch(run_records(run, 0), len(run), 0, 1_000, 1_000, **fields)


async def produce_as_admin(broker: Broker, data: bytes, **fields: Any) -> dict[str, Any]:
    return await asked(broker, lambda wire: produce(wire, TOPIC, data, HERE, **fields), ADMIN)


async def begin(broker: Broker) -> None:
    """Creates topic ``t``. Group ``g`` commits offset 1 of this topic."""
    await asked(broker, lambda wire: create_topic(wire, "t"))
    await asked(broker, lambda wire: wire.call("FindCoordinator", 2, {"key": "g"}))
    assert await asked(broker, lambda wire: commit(wire, 1)) == NONE


@pytest.mark.parametrize("compression", [0, GZIP, LZ4], ids=["plain", "gzip", "lz4"])
@pytest.mark.parametrize("what", UNREADABLE)
async def test_unreadable_record_that_a_client_produces_to_the_offsets_topic_is_refused(
    tmp_path: Path, what: str, compression: int
) -> None:
    key, value, why = UNREADABLE[what]
    data = records((KEY, VALUE), (key, value), compression=compression)
    async with serving(tmp_path, SETTINGS) as broker:
        await begin(broker)
        before = broker.groups.hosted_shards[HERE].log.read(0, 10_000).data

        answer = await produce_as_admin(broker, data)

        assert answer["error_code"] == INVALID_RECORD
        assert why in answer["error_message"]
        [blamed] = answer["record_errors"]
        assert blamed["batch_index"] == 1
        assert why in blamed["batch_index_error_message"]
        hosted = broker.groups.hosted_shards[HERE]
        assert hosted.log.read(0, 10_000).data == before
        assert (hosted.phase, hosted.log.log_end_offset) == (Phase.ACTIVE, 1), (
            "and loads nothing anew"
        )
        assert await asked(broker, lambda wire: commit(wire, 2)) == NONE
    async with serving(tmp_path, SETTINGS) as broker:
        await eventually("the load", lambda: not broker.groups.life.loading)
        assert await asked(broker, committed) == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (records((KEY, None)), NONE),
        (records((group_key("g"), group_value(EMPTY))), NONE),
        (records((b"\0\3\0\1g", b"\0\0\0\0\0\7\0")), NONE),
        (records((b"\0\x0b\0\1k", b"\0\0\0\0\0\2" + bytes(9))), NONE),
        (records((b"\0\x11\0\1g", b"\0\0\0\0\0\2" + bytes(9))), NONE),
        (records((b"\0\x18\0\1g", b"\0\0")), NONE),
        (commits_of(OffsetRun("g", "t", [0], [41], [-1], None, 1), attributes=1 << 5), 87),
        (
            commits_of(
                OffsetRun("g", "t", [0], [41], [-1], None, 1),
                attributes=1 << 4,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
            ),
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
    ids=[
        "tombstone",
        "group",
        "consumer group",
        "share group",
        "streams group",
        "a kind to come",
        "control",
        "transactional",
    ],
)
async def test_client_record_for_the_offsets_topic_is_refused_if_a_load_would_fail(
    tmp_path: Path, data: bytes, code: int
) -> None:
    async with serving(tmp_path, SETTINGS) as broker:
        await begin(broker)
        assert (await produce_as_admin(broker, data))["error_code"] == code
        await eventually("the load", lambda: not broker.groups.life.loading)
        assert broker.groups.hosted_shards[HERE].log.log_end_offset == (1 if code else 2)
        assert await asked(broker, lambda wire: commit(wire, 2)) == NONE


async def test_produce_to_the_offsets_topic_is_refused_unless_from_the_admin_client(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, SETTINGS) as broker:
        await begin(broker)
        answer = await asked(broker, lambda wire: produce(wire, TOPIC, records((KEY, VALUE)), HERE))
        assert answer["error_code"] == INVALID_TOPIC_EXCEPTION


async def test_produce_response_has_the_partitions_in_the_order_of_the_request(
    tmp_path: Path,
) -> None:
    """The broker appends or refuses the records of each partition separately."""
    async with serving(tmp_path, SETTINGS) as broker:
        await begin(broker)
        good, bad = records((KEY, VALUE)), records((b"", VALUE))
        topics = {TOPIC: [(HERE, bad), (HERE, good), (99, good)], "t": [(0, good)]}
        request = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [
                {
                    "name": name,
                    "partition_data": [{"index": index, "records": data} for index, data in parts],
                }
                for name, parts in topics.items()
            ],
        }
        answer = await asked(broker, lambda wire: wire.call("Produce", 9, request), ADMIN)
        told = [
            (topic["name"], part["index"], part["error_code"])
            for topic in answer["responses"]
            for part in topic["partition_responses"]
        ]
        assert told == [(TOPIC, HERE, 87), (TOPIC, HERE, 0), (TOPIC, 99, 3), ("t", 0, 0)]
        await eventually("the load", lambda: not broker.groups.life.loading)
        assert await asked(broker, committed) == 41


async def test_admin_client_records_are_appended_after_the_commits_of_the_turn(
    tmp_path: Path,
) -> None:
    """The commits already have log offsets, so the records of the admin client must follow them."""
    async with EdgeBroker(tmp_path, partitions=1) as edge:
        await edge.ensure_offsets_topic()
        (hosted,) = edge.groups.hosted_shards
        replies: list[Any] = []

        def commit_of(offset: int) -> OffsetCommit:
            topics = [TopicOffsets("orders", [0], [offset], [-1], None, None)]
            return OffsetCommit(Taker(replies.append), "g", -1, "", None, -1, topics)

        def append() -> AppendInfo:
            assert hosted.accepted == hosted.appended == 2, "both commits are in the log"
            data = commits_of(OffsetRun("g", "orders", [0], [41], [-1], None, 1))
            return hosted.log.append(data, 0, 1_000)

        ends: list[int] = []
        foreign = asyncio.ensure_future(edge.groups.append_foreign(0, append))
        for offset in (1, 2):  # Both commits follow the foreign append in the same turn.
            asyncio.get_running_loop().call_soon(edge.groups.submit, hosted, commit_of(offset))
            asyncio.get_running_loop().call_soon(lambda: ends.append(hosted.log.log_end_offset))
        info = await foreign

        assert ends == [0, 0], "nothing is written before the turn ends"
        assert (info.first_offset, replies) == (2, [CommitReply(0)] * 2)
        await eventually("the load", lambda: hosted.phase is Phase.ACTIVE)
        assert await (await edge.client()).fetch("g") == 41


async def test_admin_client_record_is_refused_while_the_shard_is_loading(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as edge:
        await edge.ensure_offsets_topic()
        (hosted,) = edge.groups.hosted_shards
        foreign = asyncio.ensure_future(edge.groups.append_foreign(0, pytest.fail))
        await asyncio.sleep(0)
        edge.groups.life._unload(hosted, Phase.LOADING)
        with pytest.raises(NotActive, match="loading"):
            await foreign
        with pytest.raises(NotActive, match="loading"):
            await edge.groups.append_foreign(0, pytest.fail)


async def test_shard_is_unloaded_when_the_append_of_an_admin_client_record_fails() -> None:
    """The runtime probes the log, and loads the shard again when the log is writable. It does the
    same after a failed append of commits."""
    fs = SimulatedFiles()
    async with serving("/data", SETTINGS, fs) as broker:
        await begin(broker)
        fs.fail("write", f"{TOPIC}-{HERE}/00000000000000000000.log", code=28)

        answer = await produce_as_admin(broker, records((KEY, VALUE)))

        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        hosted = broker.groups.hosted_shards[HERE]
        assert hosted.log.log_end_offset == 1
        await eventually("the shard is whole again", lambda: hosted.phase is Phase.ACTIVE)
        assert await asked(broker, lambda wire: commit(wire, 2)) == NONE


async def test_admin_client_record_is_flushed_before_it_is_acknowledged(tmp_path: Path) -> None:
    settings = {**SETTINGS, "log.flush.interval.messages": "1"}
    async with serving(tmp_path, settings) as broker:
        await begin(broker)
        assert (await produce_as_admin(broker, records((KEY, VALUE))))["error_code"] == NONE
        log = broker.groups.hosted_shards[HERE].log
        assert (log.log_end_offset, log.recovery_point) == (2, 2)
