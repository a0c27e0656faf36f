"""Tests that an unreadable record of the offsets topic makes only the groups of its partition
unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.config.config import BadConfig
from broker.cores import shard_lifecycle as life
from broker.cores.groups.kind import IMAGE
from broker.cores.hosted_shard import Phase
from coordinator.shard import GroupShard
from offsets.partitioner import partition_for
from offsets.record_values import group_key, offset_key_head, offset_value
from protocol.errors import KAFKA_STORAGE_ERROR, NONE, NOT_COORDINATOR
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.mock_time import MockTime
from tests.broker.partitions import write_records
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, produce
from tests.wire import Wire

TOPIC = "__consumer_offsets"
PARTITIONS = 3
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS)}
GROUPS = [
    next(f"g{n}" for n in range(100) if partition_for(f"g{n}", PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
ILL = 1
ILL_GROUP = GROUPS[ILL]
KEY = offset_key_head(ILL_GROUP, "t") + bytes(4)
VALUE = offset_value(41, -1, "", 1, -1)


def commit(wire: Wire, group_id: str, offset: int) -> int:
    partition = {"partition_index": 0, "committed_offset": offset}
    topics = [{"name": "t", "partitions": [partition]}]
    answer = wire.call("OffsetCommit", 8, {"group_id": group_id, "topics": topics})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def committed(wire: Wire, group_id: str) -> int:
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = wire.call("OffsetFetch", 7, {"group_id": group_id, "topics": topics})
    offset: int = -1000 - answer["error_code"]
    return answer["topics"][0]["partitions"][0]["committed_offset"] if offset == -1000 else offset


async def all_committed(broker: Broker) -> list[int]:
    await eventually("the load", lambda: not broker.groups.life.loading)
    return await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])


async def filled(directory: Path) -> None:
    """Commits offset 5 for each group. The commit is record 0 of the group's partition."""
    async with serving(directory, SETTINGS) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        await asked(broker, lambda wire: wire.call("FindCoordinator", 2, {"key": "g"}))
        codes = await asked(broker, lambda wire: [commit(wire, group, 5) for group in GROUPS])
        assert codes == [NONE] * PARTITIONS


def write(directory: Path, *pairs: tuple[bytes | None, bytes | None]) -> None:
    write_records(directory, TOPIC, ILL, *pairs)


def everything_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / f"{TOPIC}-{ILL}").iterdir()}


STRANGER = next(f"x{n}" for n in range(9) if partition_for(f"x{n}", PARTITIONS) != ILL)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"", VALUE, "the key is missing, or too short to contain a type"),
        (KEY, b"", "a value of 0 bytes is too short to contain a version"),
        (KEY, b"\0\5" + VALUE[2:], "value version 5 is unknown"),
        (group_key(STRANGER), None, f"group '{STRANGER}' belongs to partition"),
    ],
)
async def test_unreadable_offsets_record_makes_only_its_partition_unavailable(
    tmp_path: Path, key: bytes, value: bytes | None, why: str
) -> None:
    await filled(tmp_path)
    write(tmp_path, (KEY, VALUE), (key, value))
    async with serving(tmp_path, SETTINGS) as broker:
        healthy = [5] * PARTITIONS
        healthy[ILL] = -1000 - NOT_COORDINATOR
        assert await all_committed(broker) == healthy
        before = everything_in(tmp_path)
        codes = await asked(broker, lambda wire: [commit(wire, group, 6) for group in GROUPS])
        assert codes == [NONE, NOT_COORDINATOR, NONE]

        health = broker.health()
        assert health["state"] == "ready"
        assert list(health["unreadable"]) == [f"{TOPIC}-{ILL}"]
        reason = health["unreadable"][f"{TOPIC}-{ILL}"]
        assert why in reason
        assert f"offsets.load.skip.records={TOPIC}-{ILL}:2 " in reason

        listed = await asked(broker, lambda wire: wire.call("ListGroups", 4))
        assert listed["error_code"] == NONE, "the others are listed"
        assert {group["group_id"] for group in listed["groups"]} == {GROUPS[0], GROUPS[2]}
        data = encode_batch([Record(0, 1, KEY, VALUE)])
        refused = await asked(
            broker, lambda wire: produce(wire, TOPIC, data, ILL), "__admin_client"
        )
        assert refused["error_code"] == KAFKA_STORAGE_ERROR
        assert why in refused["error_message"]
        assert broker.groups.life.snapshots is not None
        await broker.groups.life.snapshots.write_all(broker.groups.hosted_shards)
        await broker.cleaning.clean_owned()
        await broker.maintenance.run_retention()
        assert everything_in(tmp_path) == before, "nothing is done to its log"
        assert not broker.stopped.is_set()


def failing_load(error: Exception) -> Callable[..., Coroutine[None, None, None]]:
    real = life.load

    async def load(hosted: Any, *more: Any) -> None:
        await real(hosted, *more)
        if hosted.index == ILL:
            raise error

    return load


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), UnicodeDecodeError("utf-8", b"", 0, 1, "no"), OSError(5, "Input/output error")],
)
async def test_exception_during_the_load_of_a_partition_makes_only_this_partition_unavailable(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    monkeypatch.setattr(life, "load", failing_load(error))
    async with serving(tmp_path, SETTINGS) as broker:
        assert await all_committed(broker) == [5, -1000 - NOT_COORDINATOR, 5]
        assert broker.groups.hosted_shards[ILL].phase is Phase.FAILED
        assert str(error) in broker.groups.life.unreadable()[f"{TOPIC}-{ILL}"]
        assert not broker.groups.hosted_shards[ILL].core.view.groups, "nothing half loaded is shown"


async def test_log_line_of_a_failed_replay_names_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    replay = GroupShard.replay

    def fails(self: GroupShard, run: Any, base_offset: int) -> None:
        if run.group_id == ILL_GROUP:
            raise IndexError("no such column")
        replay(self, run, base_offset)

    monkeypatch.setattr(GroupShard, "replay", fails)
    async with serving(tmp_path, SETTINGS) as broker:
        await eventually("the load", lambda: not broker.groups.life.loading)
        reason = broker.groups.life.unreadable()[f"{TOPIC}-{ILL}"]
        assert "offset 0 of the offsets log: the record can't be replayed: IndexError" in reason


async def test_damaged_log_byte_makes_only_its_partition_unavailable(tmp_path: Path) -> None:
    await filled(tmp_path)
    write(tmp_path, (KEY, VALUE))
    segment = tmp_path / f"{TOPIC}-{ILL}" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 0xFF  # A start after a clean stop compares no checksums, but a load does.
    segment.write_bytes(data)
    async with serving(tmp_path, SETTINGS) as broker:
        assert await all_committed(broker) == [5, -1000 - NOT_COORDINATOR, 5]
        reason = broker.groups.life.unreadable()[f"{TOPIC}-{ILL}"]
        assert f"log.recovery.truncate={TOPIC}-{ILL} " in reason
    async with serving(tmp_path, {**SETTINGS, "log.recovery.truncate": f"{TOPIC}-{ILL}"}) as broker:
        assert await all_committed(broker) == [5, 5, 5]


async def test_unreadable_record_at_a_configured_offset_is_skipped(tmp_path: Path) -> None:
    """The load skips only the record that the setting names, and logs it. After the next snapshot
    the setting is no longer necessary."""
    await filled(tmp_path)
    write(tmp_path, (KEY, offset_value(6, -1, "", 1, -1)), (KEY, b"\0\5later"), (KEY, VALUE))
    told = {**SETTINGS, "offsets.load.skip.records": f"{TOPIC}-{ILL}:2"}
    with capture_logs() as lines:
        async with serving(tmp_path, told) as broker:
            assert await all_committed(broker) == [5, 41, 5]
            assert not broker.groups.life.unreadable()
            assert await asked(broker, lambda wire: commit(wire, ILL_GROUP, 42)) == NONE, (
                "and the shard goes on"
            )
    [passed] = [line for line in lines if line["event"] == "record skipped by setting"]
    assert (passed["partition"], passed["offset"], passed["value_bytes"]) == (ILL, 2, 7)
    assert (passed["key"], passed["value"]) == (repr(KEY)[2:-1], r"\x00\x05later")
    [done] = [each for each in lines if each["event"].startswith("snapshot written after")]
    assert done["partition"] == ILL

    async with serving(tmp_path, SETTINGS) as broker:
        assert await all_committed(broker) == [5, 42, 5], "it is needed no more"
    (tmp_path / f"{TOPIC}-{ILL}" / IMAGE).unlink()
    async with serving(tmp_path, SETTINGS) as broker:
        assert (await all_committed(broker))[ILL] == -1000 - NOT_COORDINATOR, "but without it"


async def test_snapshot_is_written_after_the_load_when_a_record_was_skipped(tmp_path: Path) -> None:
    await filled(tmp_path)
    write(tmp_path, (KEY, b""), (KEY, VALUE))
    told = {**SETTINGS, "offsets.load.skip.records": f"{TOPIC}-{ILL}:1"}
    time = MockTime()
    async with serving(tmp_path, told, time=time) as broker:
        await eventually("the load", lambda: not broker.groups.life.loading)
        time.move(life.SETTLING_MS)
        image = tmp_path / f"{TOPIC}-{ILL}" / IMAGE
        await eventually("the snapshot", image.exists)


async def test_partition_stays_unavailable_when_not_the_unreadable_but_another_record_is_skipped(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    write(tmp_path, (KEY, b""), (KEY, b""))
    told = {**SETTINGS, "offsets.load.skip.records": f"{TOPIC}-{ILL}:1,{TOPIC}-0:2"}
    async with serving(tmp_path, told) as broker:
        assert await all_committed(broker) == [5, -1000 - NOT_COORDINATOR, 5]
        assert "record at offset 2 " in broker.groups.life.unreadable()[f"{TOPIC}-{ILL}"]


@pytest.mark.parametrize("words", ["t-0:1", f"{TOPIC}-0", f"{TOPIC}-0:x", f"{TOPIC}:1"])
async def test_setting_offsets_load_skip_records_rejects_invalid_values(
    tmp_path: Path, words: str
) -> None:
    with pytest.raises(BadConfig, match=r"it must be __consumer_offsets-PARTITION:OFFSET,\.\.\."):
        async with serving(tmp_path, {"offsets.load.skip.records": words}):
            pass


async def test_shard_with_an_unreadable_record_is_not_loaded_again(tmp_path: Path) -> None:
    """No load, probe or snapshot starts automatically, because the record remains unreadable."""
    await filled(tmp_path)
    write(tmp_path, (KEY, b""))
    async with serving(tmp_path, SETTINGS) as broker:
        await eventually("the load", lambda: not broker.groups.life.loading)
        hosted = broker.groups.hosted_shards[ILL]
        loaded = hosted.loaded_to
        assert hosted.phase is Phase.FAILED
        await eventually("nothing runs", lambda: len(broker.groups.life._loads) <= 1)
        [snapshots] = broker.groups.life._loads
        assert not snapshots.done()
        broker.groups.duties.catch_up(hosted)
        broker.groups.tick()
        await asyncio.sleep(0)
        assert (hosted.phase, hosted.loaded_to) == (Phase.FAILED, loaded)
