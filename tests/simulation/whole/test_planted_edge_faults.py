"""Tests of the checkers: each fault that is planted into the code around the broker's core must be
detected by the simulation.

As in `tests/simulation/test_planted_faults.py`, a function named after the fault replaces correct
code with `monkeypatch`. A test fails if none of `MOST_SEEDS` simulations detects its fault.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from broker.cores.groups.dropped_offsets import DroppedOffsets
from broker.net.connection import Connection
from broker.net.request import Request
from broker.time import Time
from broker.topics.long_poll import LongPolls
from broker.topics.partition import Partition
from log.partition_log import PartitionLog
from protocol.framing import Framer
from tests.simulated_files import SimulatedFile
from tests.simulation.whole.runs import PLAYED_S_MAX, find_fault
from tests.simulation.whole.world import World
from tests.tiers import sampled

MOST_SEEDS = 8
SECONDS = 100

Plant = Callable[[pytest.MonkeyPatch], None]


def answers_overtake_each_other(patch: pytest.MonkeyPatch) -> None:
    def answered(self: Connection, request: Request) -> None:
        if self.closed:
            return
        self._slots.remove(request)
        self._append(request.reply or b"")
        if self._parked is request:
            self._parked = None
        self.server.writes.touch(self)

    patch.setattr(Connection, "answered", answered)


def an_answer_is_written_twice(patch: pytest.MonkeyPatch) -> None:
    real, numbers = Connection._append, count()

    def append(self: Connection, reply: Any) -> None:
        real(self, reply)
        if next(numbers) % 50 == 49:
            real(self, reply)

    patch.setattr(Connection, "_append", append)


def _nothing_is_sent(request: Any, reply: Any) -> None:
    """Replaces the encoder of a response, so that no response is sent."""


def a_connection_that_ends_takes_its_neighbours_answers_along(patch: pytest.MonkeyPatch) -> None:
    real = Connection.connection_lost

    def connection_lost(self: Connection, exc: Exception | None) -> None:
        real(self, exc)
        for other in self.server.connections:
            for request in other._slots:
                if request.reply is None:
                    request.encode = _nothing_is_sent

    patch.setattr(Connection, "connection_lost", connection_lost)


def the_beginning_of_a_torn_request_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = Connection._receive

    def receive(self: Connection, data: bytes) -> None:
        if self._framer.partial:
            self._framer = Framer(self.server.limits.request_bytes)
        real(self, data)

    patch.setattr(Connection, "_receive", receive)


def requests_behind_a_parked_one_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = Connection._queue

    def queue(self: Connection, frames: list[bytes]) -> None:
        real(self, frames[:-1] if self._blocked() else frames)

    patch.setattr(Connection, "_queue", queue)


def who_reads_slowly_is_never_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "resume_writing", lambda self: None)


def a_pause_counts_against_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Time, "loop_lives", lambda self: None)


def a_flush_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "flush_due", property(lambda self: False))


def an_acknowledgement_does_not_wait_for_its_flush(patch: pytest.MonkeyPatch) -> None:
    def appended(self: Partition, size_bytes: int) -> None:
        self.high_watermark = self.log.log_end_offset
        self._services.long_polls.appended(self.topic, self.index, size_bytes)

    patch.setattr(Partition, "appended", appended)


def a_flush_wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "_release", lambda self: None)


def the_high_watermark_is_one_too_high(patch: pytest.MonkeyPatch) -> None:
    real = Partition.appended

    def appended(self: Partition, size_bytes: int) -> None:
        real(self, size_bytes)
        self.high_watermark += 1

    patch.setattr(Partition, "appended", appended)


def a_fetch_that_waits_is_never_answered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LongPolls, "_wake_soon", lambda self, waiter: None)
    patch.setattr(LongPolls, "_time_passed", lambda self: None)


def the_offsets_of_a_deleted_topic_stay(patch: pytest.MonkeyPatch) -> None:
    async def drop(self: DroppedOffsets, topics: Any, slices: Any) -> None:
        slices.end()

    patch.setattr(DroppedOffsets, "drop", drop)


def a_write_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: every fortieth write to a file loses its last bytes."""
    real, numbers = SimulatedFile.write, count()

    def write(self: SimulatedFile, position: int, data: Any) -> None:
        lost = self.path.endswith(".log") and next(numbers) % 40 == 39
        real(self, position, bytes(data)[:-1] + b"\x00" if lost else data)

    patch.setattr(SimulatedFile, "write", write)


PLANTS = [
    answers_overtake_each_other,
    an_answer_is_written_twice,
    a_connection_that_ends_takes_its_neighbours_answers_along,
    the_beginning_of_a_torn_request_is_lost,
    requests_behind_a_parked_one_are_forgotten,
    who_reads_slowly_is_never_read_again,
    a_pause_counts_against_members,
    a_flush_is_not_waited_for,
    an_acknowledgement_does_not_wait_for_its_flush,
    a_flush_wakes_nobody,
    the_high_watermark_is_one_too_high,
    a_fetch_that_waits_is_never_answered,
    the_offsets_of_a_deleted_topic_stay,
    a_write_is_lost,
]


FOUND_SOON = set(PLANTS) - {
    a_pause_counts_against_members,
    a_write_is_lost,
    a_flush_is_not_waited_for,
    who_reads_slowly_is_never_read_again,
}
"""The planted faults that are detected within a second. `make campaign` tests the other faults."""


@pytest.mark.planted("simulated broker")
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulation_of_the_whole_broker_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(World, range(MOST_SEEDS), SECONDS)
