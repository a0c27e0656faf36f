"""With flush.messages, no client reads a record before the record is flushed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from log.checkpoint import HIGH_WATERMARK, read_offsets
from protocol.errors import KAFKA_STORAGE_ERROR, NONE
from tests.broker.partitions import log_of, partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.slow_disk import SlowFiles
from tests.broker.topic_calls import (
    commit,
    committed,
    create_topic,
    fetch,
    list_offset,
    produce,
)
from tests.wire import Wire, batch, values_of

EACH = {"log.flush.interval.messages": "1"}
COMMITTED = {"isolation_level": 1}


def epoch_end(wire: Wire) -> int:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": "t", "partitions": [partition]}]
    answer = wire.call("OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": topics})
    end: int = answer["topics"][0]["partitions"][0]["end_offset"]
    return end


def everything_about(wire: Wire) -> dict[str, Any]:
    """Returns every response value that can reveal the log end offset of t-0 to a client."""
    plain = fetch(wire, "t", last_fetched_epoch=0, current_leader_epoch=0)
    committed = fetch(wire, "t", **COMMITTED)
    old = {"timestamp": -1, "max_num_offsets": 3, "partition_index": 0}
    v0 = wire.call(
        "ListOffsets", 0, {"replica_id": -1, "topics": [{"name": "t", "partitions": [old]}]}
    )
    return {
        "fetched": values_of(plain["records"]),
        "fetched by readers of what is committed": values_of(committed["records"]),
        "high watermark": plain["high_watermark"],
        "last stable offset": plain["last_stable_offset"],
        "latest": list_offset(wire, "t", -1)["offset"],
        "by time": list_offset(wire, "t", 5_000)["offset"],
        "largest time": list_offset(wire, "t", -3)["offset"],
        "by segment": v0["topics"][0]["partitions"][0]["old_style_offsets"],
        "end of the epoch": epoch_end(wire),
    }


async def test_unflushed_record_is_invisible_to_every_request_with_flush_messages(
    tmp_path: Path,
) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, EACH, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        await asked(broker, lambda wire: produce(wire, "t", batch(b"0", timestamp=1_000)))
        before = await asked(broker, everything_about)
        fs.kind.may_go.clear()
        waiting = asyncio.ensure_future(
            asked(broker, lambda wire: fetch(wire, "t", offset=1, max_wait_ms=20_000))
        )
        await eventually("the fetch waits", lambda: len(broker.long_polls) == 1)

        producing = asyncio.ensure_future(
            asked(broker, lambda wire: produce(wire, "t", batch(b"1", timestamp=9_000)))
        )
        await eventually("the append", lambda: log_of(broker, "t").log_end_offset == 2)
        meanwhile = await asked(broker, everything_about)
        lag_end = partition_of(broker, "t").high_watermark
        await broker.maintenance.write_checkpoints()
        on_disk = read_offsets(broker.fs, str(tmp_path / HIGH_WATERMARK))

        assert before["fetched"] == [b"0"]
        assert meanwhile == before
        assert (lag_end, on_disk["t", 0]) == (1, 1)
        assert not producing.done()
        assert not waiting.done()

        fs.kind.may_go.set()
        assert (await producing)["error_code"] == NONE
        assert values_of((await waiting)["records"]) == [b"1"], "the flush wakes who waits"
        assert await asked(broker, everything_about) == {
            "fetched": [b"0", b"1"],
            "fetched by readers of what is committed": [b"0", b"1"],
            "high watermark": 2,
            "last stable offset": 2,
            "latest": 2,
            "by time": 1,
            "largest time": 1,
            "by segment": [2, 0],
            "end of the epoch": 2,
        }


def sequence_of(wire: Wire) -> list[int]:
    """Returns the last sequence number of each producer in partition t-0."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = wire.call("DescribeProducers", 0, {"topics": topics})
    [partition] = answer["topics"][0]["partitions"]
    return [producer["last_sequence"] for producer in partition["active_producers"]]


async def test_describe_producers_waits_for_the_flush_of_the_last_batch(tmp_path: Path) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, EACH, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fs.kind.may_go.clear()
        data = batch(b"0", b"1", producer_id=7, producer_epoch=0, base_sequence=0)
        producing = asyncio.ensure_future(asked(broker, lambda wire: produce(wire, "t", data)))
        await eventually("the append", lambda: log_of(broker, "t").log_end_offset == 2)
        describing = asyncio.ensure_future(asked(broker, sequence_of))
        await eventually("it waits", lambda: len(partition_of(broker, "t")._waiting) == 2)
        assert not describing.done()

        fs.kind.may_go.set()
        assert (await producing)["error_code"] == NONE
        assert await describing == [1]


async def test_record_whose_fsync_failed_is_never_visible(tmp_path: Path) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, EACH, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fs.kind.fails = True

        answer = await asked(broker, lambda wire: produce(wire, "t"))
        seen = await asked(broker, lambda wire: fetch(wire, "t"))

        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        assert (seen["high_watermark"], values_of(seen["records"])) == (0, [])


async def test_unflushed_record_is_visible_at_once_with_flush_ms(tmp_path: Path) -> None:
    """The flush setting is flush.ms, the time after which records are fsynced. It limits the
    records that a power loss can remove, and delays no acknowledgement."""
    fs = SlowFiles("t")
    async with serving(tmp_path, {"log.flush.interval.ms": "3600000"}, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fs.kind.may_go.clear()
        try:
            assert (await asked(broker, lambda wire: produce(wire, "t")))["error_code"] == NONE
            assert values_of((await asked(broker, lambda wire: fetch(wire, "t")))["records"])
        finally:
            fs.kind.may_go.set()


def alter_flush_messages(wire: Wire, value: str) -> None:
    config = {"name": "flush.messages", "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    wire.call("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})


async def test_visible_record_stays_visible_when_flush_messages_is_lowered(tmp_path: Path) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, {}, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        await asked(broker, lambda wire: produce(wire, "t", batch(b"0")))
        await asked(broker, lambda wire: alter_flush_messages(wire, "1"))
        fs.kind.may_go.clear()
        late = asyncio.ensure_future(asked(broker, lambda wire: produce(wire, "t", batch(b"1"))))
        await eventually("the append", lambda: log_of(broker, "t").log_end_offset == 2)

        seen = await asked(broker, lambda wire: fetch(wire, "t"))

        assert values_of(seen["records"]) == [b"0"]
        assert not late.done()
        fs.kind.may_go.set()
        assert (await late)["error_code"] == NONE


async def test_record_that_waits_for_its_flush_is_visible_when_flush_messages_is_raised(
    tmp_path: Path,
) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, EACH, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fs.kind.may_go.clear()
        held = asyncio.ensure_future(asked(broker, lambda wire: produce(wire, "t", batch(b"0"))))
        await eventually("the append", lambda: log_of(broker, "t").log_end_offset == 1)
        await asked(broker, lambda wire: alter_flush_messages(wire, "100"))

        late = await asked(broker, lambda wire: produce(wire, "t", batch(b"1")))
        seen = await asked(broker, lambda wire: fetch(wire, "t"))

        assert late["error_code"] == NONE, "two records may wait now, and need no fsync"
        assert values_of(seen["records"]) == [b"0", b"1"]
        assert not held.done(), "it was promised an fsync"
        fs.kind.may_go.set()
        assert (await held)["error_code"] == NONE


async def test_offset_commit_is_visible_only_after_its_flush(tmp_path: Path) -> None:
    """OffsetFetch, ListGroups, DescribeGroups and a Fetch of the offsets topic wait for the
    flush."""
    fs = SlowFiles("__consumer_offsets")
    settings = {**EACH, "offsets.topic.num.partitions": "1"}
    async with serving(tmp_path, settings, fs) as broker:

        def end(wire: Wire) -> int:
            wanted = {"max_wait_ms": 0}
            offset: int = fetch(wire, "__consumer_offsets", **wanted)["high_watermark"]
            return offset

        await asked(broker, lambda wire: create_topic(wire, "t"))
        await asked(broker, lambda wire: wire.call("FindCoordinator", 2, {"key": "g"}))
        assert await asked(broker, lambda wire: commit(wire, 1)) == NONE
        fs.kind.may_go.clear()
        asking = [asyncio.ensure_future(asked(broker, lambda wire: commit(wire, 2)))]
        log = log_of(broker, "__consumer_offsets")
        await eventually("the append", lambda: log.log_end_offset == 2)
        asking += [
            asyncio.ensure_future(asked(broker, work))
            for work in (
                committed,
                lambda wire: wire.call("ListGroups", 4)["error_code"],
                lambda wire: wire.call("DescribeGroups", 5, {"groups": ["g"]})["groups"][0][
                    "error_code"
                ],
            )
        ]
        hosted = broker.groups.hosted_shards[0]
        await eventually("four answers wait", lambda: hosted.partition.waiting == 4)
        assert await asked(broker, end) == 1
        assert not any(answer.done() for answer in asking)

        fs.kind.may_go.set()
        assert await asyncio.gather(*asking) == [NONE, 2, NONE, NONE]
        assert await asked(broker, end) == 2
