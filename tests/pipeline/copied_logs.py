"""Simulated logs with live records and with copies of old records, for tests of estimated arrival
times.

A log knows the arrival time of each record. Tests read it as batches from files, or as the
ListOffsets responses of a broker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from random import Random
from typing import Any, Final, cast

import pytest

from pipeline.sources.source import TimesAsked
from pipeline.sources.wire import times
from pipeline.sources.wire.brokers import Brokers, Partition
from pipeline.sources.wire.listing import EARLIEST, LATEST, Found
from tests.pipeline.relations import ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
YEAR: Final = 365 * DAY
READ_MS: Final = ms(0)
"""The time in ms at which a test reads all logs."""


@dataclass
class Log:
    """The arrival time and the timestamp of each record, in the order of offsets."""

    arrived_ms: list[int] = field(default_factory=list)
    dates_ms: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    """The base offset of each batch."""
    now_ms: int = READ_MS - 3 * DAY
    ahead_ms: int = 0
    """The maximum time in ms by which the clock of a producer is ahead."""

    def live(self, count: int, every_ms: int = 1, ahead_ms: int = 0) -> Log:
        """Appends ``count`` records that arrive every ``every_ms``. Their timestamps are
        ``ahead_ms`` after their arrival, because the producer's clock is ahead."""
        return self._add([self.now_ms + n * every_ms for n in range(count)], ahead_ms, 1)

    def copy(self, count: int, old_ms: int = YEAR, every_ms: int = 1, together: int = 1) -> Log:
        """Appends records whose timestamps are ``old_ms`` before their arrival. Each batch has
        ``together`` records."""
        first = self.now_ms
        return self._add(
            [first + n // together * every_ms for n in range(count)], -old_ms, together
        )

    def rest(self, rest_ms: int) -> Log:
        self.now_ms += rest_ms
        return self

    def read_after(self, later_ms: int) -> Log:
        """Shifts all times of the log by the same amount, so that the last record arrives
        ``later_ms`` before READ_MS, the time of the read."""
        moved_ms = READ_MS - later_ms - self.now_ms
        self.now_ms += moved_ms
        self.arrived_ms = [each + moved_ms for each in self.arrived_ms]
        self.dates_ms = [each + moved_ms for each in self.dates_ms]
        return self

    def _add(self, arrived_ms: Sequence[int], date_ms: int, together: int) -> Log:
        for nth, at_ms in enumerate(arrived_ms):
            if nth % together == 0:
                self.batches.append(len(self.dates_ms))
            self.arrived_ms.append(at_ms)
            self.dates_ms.append(at_ms + date_ms + nth % together)
            self.now_ms = at_ms + 1
        return self

    def in_files(self, topic: str, partition: int) -> list[dict[str, Any]]:
        """Returns the batches of the log as rows of STRETCHES."""
        ends = [*self.batches[1:], len(self.dates_ms)]
        return [
            _row(topic, partition, base, end - 1, self.dates_ms[base], max(self.dates_ms[base:end]),
                 size_bytes=100)
            for base, end in zip(self.batches, ends, strict=True)
        ]  # fmt: skip


def _row(
    topic: str, partition: int, base: int, last: int, first_ms: int, last_ms: int, **columns: Any
) -> dict[str, Any]:
    row = {"topic": topic, "partition": partition, "base_offset": base, "last_offset": last}
    return {**row, "first_at": _time(first_ms), "last_at": _time(last_ms), **columns}


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class _Broker:
    """A broker with the given logs that answers lookups of offsets by time."""

    moved_bytes = 0

    def __init__(self, logs: dict[Partition, Log]) -> None:
        self._most = {key: list(accumulate(log.dates_ms, max)) for key, log in logs.items()}

    def answer(self, partition: Partition, at_ms: int) -> Found:
        """Returns the first record whose timestamp is at or after ``at_ms``, as ListOffsets
        does."""
        most = self._most[partition]
        if at_ms in (EARLIEST, LATEST):
            return Found(0 if at_ms == EARLIEST else len(most), -1)
        found = bisect_left(most, at_ms)
        return Found(found, most[found]) if found < len(most) else Found(-1, -1)


def over_the_wire(
    monkeypatch: pytest.MonkeyPatch,
    logs: dict[Partition, Log],
    held: dict[Partition, Sequence[int]],
    since_ms: int | None = None,
) -> list[dict[str, Any]]:
    """Makes the pipeline read a fake broker that has the logs ``logs``. Returns the resulting rows
    of STRETCHES. ``held`` has the offsets whose timestamps the pipeline requests."""
    broker = _Broker(logs)
    monkeypatch.setattr(
        times, "list_known", lambda _, asks: [broker.answer(*each) for each in asks]
    )
    asked = TimesAsked({topic for topic, _ in logs}, READ_MS, since_ms, held, moved_bytes=1 << 30)
    return times.ask_times(cast(Brokers, broker), asked, lambda: READ_MS).to_pylist()


def any_log(chance: Random) -> Log:
    """Returns a random log of live records, pauses, and copies of old records. The log is read some
    time after its last record.

    A copy has a timestamp that is at least two hours before its arrival, and before the timestamps
    of all live records. If the clock of a producer is ahead, its records are followed by records of
    a producer with a correct clock, so that the timestamps reveal the wrong clock.
    """
    log, live_ms = Log(), 0
    for _ in range(chance.randint(1, 6)):
        count = chance.randint(1, 30)
        match chance.choice(("live", "live", "live", "at once", "ahead", "copy", "copy", "rest")):
            case "live":
                log.live(count, chance.choice((20, 1_000, 30_000)))
            case "at once":
                log.live(count, 0)
            case "ahead":
                ahead_ms = chance.randint(3, 55) * MINUTE
                log.ahead_ms = max(log.ahead_ms, ahead_ms)
                log.live(chance.randint(1, 3), 100, ahead_ms)
                log.live(chance.randint(1, 5), 500)
            case "copy":
                old_ms = 2 * HOUR + chance.choice((0, HOUR, DAY, YEAR))
                if live_ms:
                    old_ms += log.now_ms - live_ms
                log.copy(count, old_ms, chance.choice((0, 5, 1_000)), chance.randint(1, 9))
                continue
            case "rest":
                log.rest(chance.choice((5 * MINUTE, 3 * HOUR, 16 * HOUR)))
                continue
        live_ms = log.now_ms
    if not log.dates_ms:
        log.live(1)
    if chance.random() < 0.2:
        log.live(chance.randint(1, 5), 1, ahead_ms=chance.choice((5 * DAY, 50 * YEAR)))
    return log.read_after(chance.choice((5_000, 20 * MINUTE, 3 * HOUR, 20 * HOUR)))
