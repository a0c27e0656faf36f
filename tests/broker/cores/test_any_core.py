"""Tests that the runtime can host any core. The core of these tests is a counter that stores its
increments in a topic of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.cores.core import Kind
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import Phase
from broker.cores.observer import Observer
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from log.config import LogConfig
from log.partition_log import PartitionLog
from protocol.buffer import Buffer
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from protocol.now import Now
from protocol.records.batch import BatchHeader, Record, records_of
from protocol.records.section import encode_section
from tests.broker.cores.test_runtime import FullDisk
from tests.broker.edge import eventually
from tests.broker.partitions import partition_for, services_with

TOPIC = "__counters"
PARTITIONS = 2
WAIT_MS = 50


@dataclass
class Increment:
    """A call that increments counter ``name``. The reply is (error code, count)."""

    ticket: Any
    name: str


@dataclass
class Read:
    ticket: Any
    name: str


@dataclass
class Wait:
    """A call that is parked and answered after WAIT_MS."""

    ticket: Any


class Answer:
    """A ticket that stores its replies for the test."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def take(self, reply: Any) -> None:
        self.replies.append(reply)

    async def reply(self) -> Any:
        await eventually(lambda: self.replies)
        (reply,) = self.replies
        return reply


class IncrementRun:
    """The run of one increment: a record with the counter's name as key."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return 1


class CounterCore:
    """A core with counters. The records of its log are its only state."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()
        self.parked: dict[Any, int] = {}
        self.live = False
        self.view = SimpleNamespace(
            counts=self.counts,
            known=lambda: len(self.counts),
            live_records=lambda: sum(self.counts.values()),
        )

    def handle(self, call: Any, now: Now) -> Any:
        assert self.live
        match call:
            case Increment():
                reply = (NONE, self.counts[call.name] + 1)
                return [IncrementRun(call.name)], [(call.ticket, reply)], [f"{call.name} goes up"]
            case Read():
                return (), [(call.ticket, (NONE, self.counts[call.name]))], ()
        self.parked[call.ticket] = now.mono_ms + WAIT_MS
        return (), (), ()

    @property
    def connections(self) -> Collection[Any]:
        return self.parked.keys()

    def connection_closed(self, connection: Any, now: Now) -> Any:
        del self.parked[connection]
        return (), (), ()

    def replay(self, run: IncrementRun, base_offset: int) -> None:
        self.counts[run.name] += 1

    def restore(self, *part: Any) -> None:
        raise AssertionError("there is no snapshot")

    def wake(self, now: Now, budget: int) -> int:
        return 0

    def loaded(self, now: Now) -> Any:
        self.live = True
        return (), (), ()

    def expire(self, now: Now, budget: int) -> Any:
        due = [ticket for ticket, at_ms in self.parked.items() if at_ms <= now.mono_ms]
        for ticket in due:
            del self.parked[ticket]
        return (), [(ticket, (NONE, 0)) for ticket in due], ()

    def next_deadline(self) -> int | None:
        return min(self.parked.values(), default=None)

    def configure(self, config: Any) -> None:
        self.config = config

    def unload(self, error_code: int) -> Any:
        return (), [(ticket, (error_code, 0)) for ticket in self.parked], ()


class CounterReader:
    def __init__(self, core: CounterCore, partition: int, partitions: int, pass_over: Any) -> None:
        self.skipped: Counter[int] = Counter()
        self.replay = core.replay

    def runs(self, data: Buffer, header: BatchHeader) -> Iterator[tuple[int, IncrementRun]]:
        for record in records_of(data, header):
            assert record.key is not None
            yield record.offset, IncrementRun(bytes(record.key).decode())


def encode(run: IncrementRun, first_delta: int) -> bytes:
    section, _ = encode_section([Record(first_delta, 0, run.name.encode(), b"")], 0, 0)
    return section


COUNTERS: Kind[CounterCore] = Kind(
    topic=TOPIC,
    things="counters",
    new_core=CounterCore,
    partition_of=lambda name, partitions: len(name) % partitions,
    reader=CounterReader,
    skip_setting="counters.load.skip.records",
    encode=encode,
    refusal=lambda call, error: (error, 0),
    not_served=lambda call, error: (error, 0),
    loading_error=lambda call: COORDINATOR_LOAD_IN_PROGRESS,
    write_failed=lambda reply: (NOT_COORDINATOR, 0),
    not_stable=lambda reply, error: (NOT_COORDINATOR, 0),
    reads=(Read,),
    needs_no_record=(Read,),
    sets_no_deadline=(Read,),
    counted=Increment,
)


class NoDuties:
    """Implements `Duties` without any effect."""

    def __init__(self, *_: object) -> None:
        pass

    def resume(self, unfinished: Any) -> None:
        pass

    def restarted(self, hosted: Any) -> None:
        pass

    async def before_serving(self, hosted: Any) -> None:
        pass

    def holds_back(self, hosted: Any, call: Any) -> bool:
        return False

    def catch_up(self, hosted: Any) -> None:
        pass


CounterRuntime = Runtime[CounterCore, NoDuties]


def open_logs(
    directory: Path, disk: FullDisk, flush_messages: int = 2**63 - 1
) -> list[PartitionLog]:
    config = LogConfig(cleanup_policy="compact", flush_messages=flush_messages)
    places = [(n, str(directory / f"{TOPIC}-{n}")) for n in range(PARTITIONS)]
    return [PartitionLog.open(disk, place, TOPIC, n, config) for n, place in places]


@asynccontextmanager
async def counting(
    directory: Path,
    disk: FullDisk | None = None,
    hooks: Hooks | None = None,
    flush_messages: int = 2**63 - 1,
    fatal: list[str] | None = None,
) -> AsyncIterator[CounterRuntime]:
    logs = open_logs(directory, disk or FullDisk(), flush_messages)
    time = Time()
    settings = RuntimeSettings(SimpleNamespace(max_record_bytes=1 << 20))
    runtime = Runtime(COUNTERS, NoDuties, settings, time, Slicer(time), hooks=hooks or Hooks())
    runtime.start([partition_for(log, services_with(fatal=fatal)) for log in logs])
    try:
        yield runtime
    finally:
        await runtime.stop()
        for log in logs:
            log.close(True)


async def increment(runtime: CounterRuntime, name: str) -> Any:
    answer = Answer()
    runtime.submit(name, Increment(answer, name))
    return await answer.reply()


async def count(runtime: CounterRuntime, name: str) -> Any:
    answer = Answer()
    runtime.submit(name, Read(answer, name))
    return await answer.reply()


async def test_calls_of_a_turn_share_one_append_and_survive_a_restart(
    tmp_path: Path,
) -> None:
    disk = FullDisk()
    facts: list[Any] = []
    observer = Observer(Time(), InternalErrors(), [lambda fact, _: facts.append(fact)])
    async with counting(tmp_path, disk, Hooks(observer)) as runtime:
        answers = [Answer() for _ in range(100)]
        for answer in answers:
            runtime.submit("ab", Increment(answer, "ab"))
        assert not any(answer.replies for answer in answers), "nothing leaves before it is written"
        replies = [await answer.reply() for answer in answers]
        assert replies == [(NONE, number) for number in range(1, 101)]
        assert len(disk.writes) == 1
        assert await increment(runtime, "a") == (NONE, 1)
        assert [hosted.appended for hosted in runtime.hosted_shards] == [100, 1]
        assert runtime.counted == len(facts) == 101
    async with counting(tmp_path) as again:
        assert error_at_once(again) == COORDINATOR_LOAD_IN_PROGRESS
        await eventually(lambda: not again.life.loading)
        assert await count(again, "ab") == (NONE, 100)
        assert again.view_of("ab").counts == {"ab": 100}
        assert [hosted.loaded_records for hosted in again.hosted_shards] == [100, 1]


def error_at_once(runtime: CounterRuntime) -> int:
    """Submits a read. Returns the error code of its immediate reply."""
    answer = Answer()
    runtime.submit("ab", Read(answer, "ab"))
    ((error, _),) = answer.replies
    return int(error)


async def test_failed_append_reloads_the_core_and_fails_calls_that_depend_on_it(
    tmp_path: Path,
) -> None:
    """Calls whose write failed get the error codes that the test's core defines. Other partitions
    are not affected."""
    disk = FullDisk()
    async with counting(tmp_path, disk) as runtime:
        assert await increment(runtime, "ab") == await increment(runtime, "a") == (NONE, 1)
        waiting = Answer()
        runtime.submit("ab", Wait(waiting))
        disk.full = True
        assert await increment(runtime, "ab") == (NOT_COORDINATOR, 0)
        assert await waiting.reply() == (NOT_COORDINATOR, 0), "parked calls are answered"
        hosted = runtime.hosted_for("ab")
        assert hosted is not None
        await eventually(lambda: hosted.phase is Phase.UNWRITABLE)
        assert await count(runtime, "ab") == (NONE, 1), "what was acknowledged, not what failed"
        assert await increment(runtime, "ab") == (COORDINATOR_NOT_AVAILABLE, 0)
        assert await count(runtime, "a") == (NONE, 1)
        disk.full = False
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert await increment(runtime, "ab") == (NONE, 2)


async def test_failed_fsync_is_reported_as_a_fatal_error(tmp_path: Path) -> None:
    disk = FullDisk()
    reasons: list[str] = []
    async with counting(tmp_path, disk, None, 1, reasons) as runtime:
        assert await increment(runtime, "ab") == (NONE, 1)
        disk.broken = True
        assert await increment(runtime, "ab") == (NOT_COORDINATOR, 0)
        await eventually(lambda: reasons)
        assert reasons[0].startswith(f"{TOPIC}-0 can no longer be written safely")
        disk.broken = False


async def test_parked_calls_are_answered_by_a_timer_or_when_the_core_is_unloaded(
    tmp_path: Path,
) -> None:
    waiting = Answer()
    async with counting(tmp_path) as runtime:
        due = Answer()
        runtime.submit("ab", Wait(due))
        assert await due.reply() == (NONE, 0)
        gone = Answer()
        runtime.submit("ab", Wait(gone))
        runtime.connection_closed(Answer())
        runtime.connection_closed(gone)
        runtime.submit("ab", Wait(waiting))
    assert (gone.replies, waiting.replies) == ([], [(NOT_COORDINATOR, 0)])


async def test_core_is_reloaded_after_an_exception(tmp_path: Path) -> None:
    async with counting(tmp_path) as runtime:
        assert await increment(runtime, "ab") == (NONE, 1)
        assert await increment(runtime, "ab") == (NONE, 2)
        hosted = runtime.hosted_for("ab")
        assert hosted is not None
        broken = hosted.core
        del broken.counts
        answer = Answer()
        runtime.submit("ab", Increment(answer, "ab"))
        await answer.reply()
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert hosted.core is not broken
        assert await increment(runtime, "ab") == (NONE, 3)
        assert runtime.errors.counts["shard"] == 1
