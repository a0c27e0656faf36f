"""Retention, checkpoints and flushes of topics, on working and on failing disks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from structlog.testing import capture_logs

from broker.topics.maintenance import level
from log.checkpoint import RECOVERY_POINT, read_offsets
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from log.partition_log import PartitionLog
from log.producers.producer_table import SPREAD_ABOVE
from log.values import Marker
from protocol.errors import COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, NONE
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.config.test_offsets_topic_settings import commit
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of, partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.slow_disk import SlowFiles
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.wire import Wire, batch

HOUR_MS = 3_600_000


async def test_retention_ms_deletes_old_segments_and_their_files(tmp_path: Path) -> None:
    time = MockTime()
    configs = {"retention.ms": str(HOUR_MS), "segment.bytes": "100", "file.delete.delay.ms": "0"}
    async with serving(tmp_path, time=time) as broker:

        def fill(wire: Wire) -> None:
            create_topic(wire, "t", configs=configs)
            for age_ms in (3 * HOUR_MS, 2 * HOUR_MS, 0):
                produce(wire, "t", batch(b"x" * 20, timestamp=time.wall_ms - age_ms))

        await asked(broker, fill)
        await broker.maintenance.run_retention()

        assert (await asked(broker, lambda wire: list_offset(wire, "t", -2)))["offset"] == 2
        await broker.maintenance.run_retention()
        names = sorted(path.name for path in (tmp_path / "t-0").glob("*.log*"))
        assert names == ["00000000000000000002.log"]


async def test_retention_ms_keeps_old_segments_after_a_segment_with_future_timestamp(
    tmp_path: Path,
) -> None:
    """As in Kafka, retention deletes segments in order and stops at the first segment whose newest
    record is not old."""
    time, year_ms = MockTime(), 365 * 24 * HOUR_MS
    configs = {"retention.ms": str(HOUR_MS), "segment.bytes": "100"}
    async with serving(tmp_path, time=time) as broker:

        def fill(wire: Wire) -> None:
            create_topic(wire, "t", configs=configs)
            for ahead_ms in (-2 * HOUR_MS, year_ms, -2 * HOUR_MS, 0):
                produce(wire, "t", batch(b"x" * 20, timestamp=time.wall_ms + ahead_ms))

        async def starts_at() -> int:
            await broker.maintenance.run_retention()
            offset: int = (await asked(broker, lambda wire: list_offset(wire, "t", -2)))["offset"]
            return offset

        await asked(broker, fill)

        assert await starts_at() == 1
        time.move(2 * HOUR_MS)
        assert await starts_at() == 1
        time.move(year_ms)
        assert await starts_at() == 4


async def test_retention_bytes_deletes_segments_with_future_timestamps(tmp_path: Path) -> None:
    time = MockTime()
    configs = {"retention.bytes": "100", "segment.bytes": "100"}
    async with serving(tmp_path, time=time) as broker:

        def fill(wire: Wire) -> None:
            create_topic(wire, "t", configs=configs)
            for _ in range(5):
                produce(wire, "t", batch(b"x" * 20, timestamp=time.wall_ms + 365 * 24 * HOUR_MS))

        await asked(broker, fill)
        await broker.maintenance.run_retention()

        assert 100 <= log_of(broker, "t").size_bytes < 200


async def test_retention_bytes_deletes_segments_above_the_limit(tmp_path: Path) -> None:
    configs = {"retention.bytes": "100", "segment.bytes": "100"}
    async with serving(tmp_path) as broker:

        def fill(wire: Wire) -> None:
            create_topic(wire, "t", configs=configs)
            for _ in range(5):
                produce(wire, "t", batch(b"x" * 20, timestamp=-1))

        await asked(broker, fill)
        await broker.maintenance.run_retention()

        log = log_of(broker, "t")
        assert 100 <= log.size_bytes < 200


async def test_retention_runs_at_its_interval(tmp_path: Path) -> None:
    settings = {"log.retention.check.interval.ms": "10"}
    async with serving(tmp_path, settings) as broker:
        await eventually("two runs", lambda: broker.maintenance.retention_runs >= 2)


async def test_checkpoints_are_written_at_their_interval(tmp_path: Path) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "1000"}
    async with serving(tmp_path, settings) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), produce(wire, "t")))
        log = log_of(broker, "t")
        await asyncio.to_thread(log.flush)
        seen = broker.maintenance.checkpoints_written

        await eventually("another", lambda: broker.maintenance.checkpoints_written > seen)

        path = str(tmp_path / RECOVERY_POINT)
        assert read_offsets(OsFileSystem(), path) == {("t", 0): 1}


async def test_records_older_than_flush_ms_are_flushed(tmp_path: Path) -> None:
    time = MockTime()
    async with serving(tmp_path, {"log.flush.interval.ms": "50"}, time=time) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), produce(wire, "t")))
        log = log_of(broker, "t")
        await broker.maintenance.flush_overdue()
        assert log.recovery_point == 0

        time.move(50)
        await broker.maintenance.flush_overdue()

        await eventually("the flush", lambda: log.recovery_point == 1)


async def test_broker_flushes_records_after_flush_ms_of_their_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        configs = {"flush.ms": "20"}
        await asked(broker, lambda wire: create_topic(wire, "t", configs=configs))
        await asked(broker, lambda wire: produce(wire, "t"))
        log = log_of(broker, "t")

        await eventually("the flush", lambda: log.recovery_point == 1)


async def test_produce_waits_for_the_flush_with_flush_messages_1(tmp_path: Path) -> None:
    """A Produce to another topic does not wait. Records that are appended during a flush share the
    next flush."""
    fs = SlowFiles("t")
    async with serving(tmp_path, {"log.flush.interval.messages": "1"}, fs) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), create_topic(wire, "u")))
        fs.kind.may_go.clear()

        held = [
            asyncio.ensure_future(asked(broker, lambda wire: produce(wire, "t"))) for _ in range(5)
        ]
        log = log_of(broker, "t")
        await eventually("five appends", lambda: log.log_end_offset == 5)
        other = await asked(broker, lambda wire: produce(wire, "u"))
        assert other["error_code"] == NONE
        assert not any(answer.done() for answer in held)

        before = fs.kind.syncs
        fs.kind.may_go.set()
        answers = await asyncio.gather(*held)

        assert [answer["error_code"] for answer in answers] == [NONE] * 5
        assert sorted(answer["base_offset"] for answer in answers) == [0, 1, 2, 3, 4]
        assert fs.kind.syncs - before <= 3


async def test_failed_flush_stops_the_broker(tmp_path: Path) -> None:
    fs = SlowFiles("t")
    async with serving(tmp_path, {"log.flush.interval.messages": "1"}, fs) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fs.kind.fails = True

        answer = await asked(broker, lambda wire: produce(wire, "t"))

        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        assert broker.stopped.is_set()
        assert broker.fatal is not None
        assert "t-0 can no longer be written safely" in broker.fatal
        assert broker.health()["state"] == "poisoned"
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


class FullFile(OsFile):
    """A file whose writes fail while ``full`` is set."""

    full = False

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        if type(self).full:
            super().write(position, memoryview(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left", self.path)
        super().write(position, data)


class FullFiles(OsFileSystem):
    """A file system on which the segments of one topic are `FullFile` objects."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.kind = type("Full", (FullFile,), {})

    def open(self, path: str, create: bool = False) -> OsFile:
        full = f"/{self.topic}-" in path and path.endswith(".log")
        return self.kind(path, create) if full else OsFile(path, create)


async def test_produce_is_refused_while_the_disk_is_full(tmp_path: Path) -> None:
    fs = FullFiles("t")
    async with serving(tmp_path, fs=fs) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), produce(wire, "t")))
        fs.kind.full = True

        refused = await asked(broker, lambda wire: produce(wire, "t", batch(b"y" * 100)))
        read = await asked(broker, lambda wire: fetch(wire, "t"))

        assert (refused["error_code"], refused["base_offset"]) == (KAFKA_STORAGE_ERROR, -1)
        assert (read["error_code"], read["high_watermark"]) == (NONE, 1)
        health = broker.health()
        assert (health["state"], health["logs"]) == ("poisoned", ["t-0"])

        fs.kind.full = False
        log = log_of(broker, "t")
        await eventually("the log takes writes again", lambda: not log.poisoned)
        again = await asked(broker, lambda wire: produce(wire, "t", batch(b"z")))

        assert (again["error_code"], again["base_offset"]) == (NONE, 1)
        assert broker.health()["state"] == "ready"


async def test_stop_on_a_full_disk_does_not_log_that_writes_succeed_again(
    tmp_path: Path,
) -> None:
    fs = FullFiles("t")
    with capture_logs() as lines:
        async with serving(tmp_path, fs=fs) as broker:
            await asked(broker, lambda wire: create_topic(wire, "t"))
            fs.kind.full = True
            await asked(broker, lambda wire: produce(wire, "t", batch(b"y" * 100)))
        assert not partition_of(broker, "t").is_probing
    events = [line["event"] for line in lines]
    assert "log can't be written, retrying" in events
    assert "log can be written again" not in events


class LacksOnce(PartitionLog):
    """A log whose next flush raises MemoryError. Later flushes succeed."""

    def flush(self) -> int:
        self.__class__ = PartitionLog
        raise MemoryError


async def test_memory_error_of_a_flush_fails_only_the_produce_that_waits_for_it(
    tmp_path: Path,
) -> None:
    """In an earlier version, the Produce request got no response, and all later requests waited for
    this response."""
    async with serving(tmp_path, {"log.flush.interval.messages": "1"}) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        log = log_of(broker, "t")
        log.__class__ = LacksOnce

        first = await asyncio.wait_for(asked(broker, lambda wire: produce(wire, "t")), 30)
        second = await asyncio.wait_for(asked(broker, lambda wire: produce(wire, "t")), 30)

        assert [first["error_code"], second["error_code"]] == [KAFKA_STORAGE_ERROR, NONE]
        assert log.recovery_point == 2
        assert broker.health()["state"] == "ready"


async def test_memory_error_of_a_flush_fails_only_the_commit_that_waits_for_it(
    tmp_path: Path,
) -> None:
    settings = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
    async with serving(tmp_path, settings) as broker:
        assert await asked(broker, lambda wire: commit(wire, "g", 1)) == NONE
        broker.groups.hosted_shards[0].log.__class__ = LacksOnce

        first = await asyncio.wait_for(asked(broker, lambda wire: commit(wire, "g", 2)), 30)
        second = await asyncio.wait_for(asked(broker, lambda wire: commit(wire, "g", 3)), 30)

        assert [first, second] == [COORDINATOR_NOT_AVAILABLE, NONE]
        assert not broker.stopped.is_set()


async def test_retention_of_other_logs_runs_when_retention_of_one_log_fails(
    tmp_path: Path,
) -> None:
    time = MockTime()
    configs = {"retention.ms": str(HOUR_MS), "segment.bytes": "100"}
    async with serving(tmp_path, time=time) as broker:

        def fill(wire: Wire) -> None:
            for topic in ("a", "b"):
                create_topic(wire, topic, configs=configs)
                for age_ms in (3 * HOUR_MS, 0):
                    produce(wire, topic, batch(b"x" * 20, timestamp=time.wall_ms - age_ms))

        await asked(broker, fill)
        first, second = log_of(broker, "a"), log_of(broker, "b")

        class Broken(PartitionLog):
            def apply_retention(self, now_ms: int, max_offset: int | None = None) -> list[int]:
                raise OSError(errno.EIO, "the disk is gone")

        first.__class__ = Broken
        await broker.maintenance.run_retention()

        assert (first.log_start_offset, second.log_start_offset) == (0, 1)


async def test_idle_producers_expire_at_the_check_interval(tmp_path: Path) -> None:
    settings = {
        "producer.id.expiration.check.interval.ms": "20",
        "producer.id.expiration.ms": "1",
    }
    async with serving(tmp_path, settings) as broker:

        def fill(wire: Wire) -> None:
            create_topic(wire, "t")
            produce(wire, "t", batch(b"x", timestamp=1))

        await asked(broker, fill)
        log = log_of(broker, "t")
        log.append_marker(Marker(7, 0, 0, True), 0, 1)
        idle = encode_batch(
            [Record(0, 1, None, b"v")],
            producer_id=8,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        log.append(idle, 0, 1)
        await eventually("the idle one has gone", lambda: log.producers.get(7) is None)
        assert log.producers.get(8) is not None, "its transaction is open"


async def test_longest_idle_producers_are_removed_from_the_partition_with_most_producers(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {"producer.ids.remembered.max": "60"}) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t", partitions=2))
        full, other = log_of(broker, "t", 0), log_of(broker, "t", 1)
        now_ms = broker.time.now().wall_ms
        with capture_logs() as lines:
            for number in range(90):
                record = Record(0, now_ms - number, None, b"v")
                data = encode_batch([record], producer_id=number, producer_epoch=0, base_sequence=0)
                (other if number < 10 else full).append(data, 0, now_ms)
            await broker.maintenance.tend_crowds()

        assert sorted(full.producers.ids()) == list(range(10, 57))
        assert sorted(other.producers.ids()) == list(range(10))
        assert [line for line in lines if "too many" in line["event"]] == [
            {
                "event": "too many producer ids, the ids that were idle for longest are removed",
                "log_level": "warning",
                "producers": 90,
                "limit": 60,
                "forgotten": 33,
                "fullest": "t-0",
            }
        ]


async def test_producer_snapshot_of_many_producers_is_written_after_a_segment_roll(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        log = log_of(broker, "t")
        now_ms = broker.time.now().wall_ms
        count = 2 * SPREAD_ABOVE
        for number in range(count):
            record = Record(0, now_ms, None, b"v")
            data = encode_batch([record], producer_id=number, producer_epoch=0, base_sequence=0)
            log.append(data, 0, now_ms)
        log.roll()
        path = tmp_path / "t-0" / f"{count:020}.snapshot"

        await eventually("the snapshot", path.exists)
        await eventually("the end of it", lambda: log.image is None)
        assert path.stat().st_size == 10 + 46 * count


async def test_failed_write_of_a_large_producer_snapshot_is_logged(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        log = log_of(broker, "t")
        now_ms = broker.time.now().wall_ms
        with capture_logs() as lines:
            for number in range(SPREAD_ABOVE + 1):
                record = Record(0, now_ms, None, b"v")
                data = encode_batch([record], producer_id=number, producer_epoch=0, base_sequence=0)
                log.append(data, 0, now_ms)
            (tmp_path / "t-0" / f"{SPREAD_ABOVE + 1:020}.snapshot").mkdir()
            log.roll()
            await broker.maintenance.tend_crowds()

        assert log.image is None
        said = [line for line in lines if line["event"].startswith("snapshot of producers")]
        assert [line["partition"] for line in said] == ["t-0"]


def test_function_level_returns_the_largest_cap_with_which_the_sum_stays_within_the_limit() -> None:
    assert level([5, 1, 9], 10) == 4
    assert level([5, 1, 9], 11) == 5
    assert level([5, 1, 9], 15) == 9
    assert level([3, 3, 3], 2) == 0
    assert level([], 2) == 0
