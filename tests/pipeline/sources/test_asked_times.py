"""Tests of record times from ListOffsets: the results for unusual logs, and the number of
lookups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.sources.source import TimesAsked
from pipeline.sources.wire import times
from pipeline.sources.wire.brokers import Brokers, Reach
from pipeline.sources.wire.listing import EARLIEST, LATEST
from pipeline.sources.wire.times import CLOSE_MS, ask_times
from protocol import errors
from tests.pipeline.fake_brokers import FakeBroker, Value, metadata
from tests.pipeline.small_logs import NOON

TOPIC = "orders"
A_MINUTE, AN_HOUR = 60_000, 3_600_000
NOW = NOON + AN_HOUR


class Log:
    """The record timestamps of a partition, and a fake broker that serves lookups by time."""

    def __init__(self, written_ms: Sequence[int], start: int = 0) -> None:
        self.written_ms = list(written_ms)
        self.start = start
        self.asked_ms: list[int] = []
        self.by_time: Callable[[int], tuple[int, int, int]] = self.first_from

    def first_from(self, at_ms: int) -> tuple[int, int, int]:
        """Returns the error code, the offset and the timestamp of the first record at or after
        ``at_ms``."""
        for offset, written_ms in enumerate(self.written_ms[self.start :], self.start):
            if written_ms >= at_ms:
                return 0, offset, written_ms
        return 0, -1, -1

    def answer(self, _: FakeBroker, asked: Value) -> Value:
        [topic] = asked["topics"]
        [entry] = topic["partitions"]
        at_ms = entry["timestamp"]
        if at_ms in (EARLIEST, LATEST):
            found = (0, self.start if at_ms == EARLIEST else len(self.written_ms), -1)
        else:
            self.asked_ms.append(at_ms)
            found = self.by_time(at_ms)
        code, offset, written_ms = found
        answer = {"partition_index": 0, "error_code": code, "offset": offset}
        return {"topics": [{"name": TOPIC, "partitions": [{**answer, "timestamp": written_ms}]}]}

    def ask(self, *held: int, since_ms: int = NOON - AN_HOUR) -> list[dict[str, Any]]:
        """Returns the stretches that the pipeline computes for the log. ``held`` are the committed
        offsets."""
        answers = {
            "ListOffsets": self.answer,
            "Metadata": lambda *_: metadata(fakes, {0: 1}, TOPIC),
        }
        fakes: dict[int, FakeBroker] = {}
        with FakeBroker(answers) as fake:
            fakes[1] = fake
            with Brokers(Reach((("127.0.0.1", fake.port),), timeout_s=2.0)) as brokers:
                brokers.look(None)
                asked = TimesAsked([TOPIC], NOW, since_ms, {(TOPIC, 0): held})
                rows = ask_times(brokers, asked, lambda: NOW).to_pylist()
        assert rows[-1]["base_offset"] == len(self.written_ms)
        return [row for row in rows if row["last_offset"] >= row["base_offset"]]


def ms_of(at: Any) -> int:
    return round(at.timestamp() * 1000)


def check(log: Log, rows: Sequence[dict[str, Any]]) -> None:
    """Asserts that the stretches are contiguous, and that their times match the timestamps in the
    log."""
    for before, row in itertools.pairwise(rows):
        assert row["base_offset"] == before["last_offset"] + 1
    for row in rows:
        if row["first_at"] is not None:
            assert ms_of(row["first_at"]) == log.written_ms[row["base_offset"]]
            most = max(log.written_ms[row["base_offset"] : row["last_offset"] + 1])
            assert ms_of(row["last_at"]) >= most


def span_of(rows: Sequence[dict[str, Any]], offset: int) -> int:
    """Returns the uncertainty, in milliseconds, of the time of the record at ``offset``."""
    [row] = [each for each in rows if each["base_offset"] <= offset <= each["last_offset"]]
    if row["base_offset"] == offset:
        return 0
    return ms_of(row["last_at"]) - ms_of(row["first_at"])


def test_record_times_are_exact_to_a_minute_and_more_exact_at_committed_offsets() -> None:
    log = Log([NOON + 617 * number for number in range(5_000)])

    rows = log.ask(0, 1_234, 4_999)

    check(log, rows)
    assert (rows[0]["base_offset"], rows[-1]["last_offset"]) == (0, 4_999)
    assert max(span_of(rows, offset) for offset in range(5_000)) <= A_MINUTE
    assert [span_of(rows, offset) <= CLOSE_MS for offset in (0, 1_234, 4_999)] == [True] * 3
    assert len(log.asked_ms) < 150


def test_number_of_offset_lookups_by_time_is_small_when_no_record_arrived_for_a_day() -> None:
    day = 24 * AN_HOUR
    log = Log([NOON - day, NOON - day + 5, NOON, NOON + 7])

    rows = log.ask(3, since_ms=NOON - day)

    check(log, rows)
    assert len(log.asked_ms) < 60
    assert span_of(rows, 3) <= CLOSE_MS


def test_first_stretch_starts_at_the_log_start_offset() -> None:
    log = Log([NOON + 1000 * number for number in range(100)], start=60)

    rows = log.ask(10, 70)

    check(log, rows)
    assert rows[0]["base_offset"] == 60


def test_records_after_a_future_timestamp_have_no_time() -> None:
    written = [NOON + 1000 * number for number in range(100)]
    written[50] = NOW + 1000 * AN_HOUR
    log = Log(written)

    rows = log.ask(10, 70)

    check(log, rows)
    assert [(row["base_offset"], row["last_offset"]) for row in rows[-2:]] == [(50, 50), (51, 99)]
    assert rows[-1]["first_at"] is rows[-1]["last_at"] is None
    assert ms_of(rows[-3]["last_at"]) - written[49] <= CLOSE_MS, "it follows these, not the present"
    assert span_of(rows, 10) <= CLOSE_MS


def test_number_of_offset_lookups_by_time_is_bounded_when_timestamps_are_out_of_order() -> None:
    written = [NOON + (number * 7919 % 5_000) * 100 for number in range(5_000)]
    log = Log(written)

    log.ask(2_500, 4_000)

    assert len(log.asked_ms) < 2 * times.ROUNDS + 200


def test_pipeline_sends_few_list_offsets_requests_when_the_responses_contradict_each_other() -> (
    None
):
    """Contradicting responses occur when a log is truncated between two lookups."""
    log = Log([NOON + 1000 * number for number in range(1_000)])
    log.by_time = lambda at_ms: (0, at_ms % 1_000, NOON + at_ms % 997)

    log.ask(500)

    assert len(log.asked_ms) < 2 * times.ROUNDS + 200


def test_few_list_offsets_requests_are_sent_for_a_small_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log([NOON + 617 * number for number in range(5_000)])
    monkeypatch.setattr(times, "LEAST_BYTES", 1_000)

    rows = log.ask(0, 1_234, 4_999)

    check(log, rows)
    assert rows[-1]["last_offset"] == 4_999
    assert len(log.asked_ms) < 20


def test_no_stretches_are_found_when_the_message_format_of_a_log_has_no_timestamps() -> None:
    log = Log([NOON] * 10)
    log.by_time = lambda _: (errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1, -1)

    assert log.ask(5) == []
