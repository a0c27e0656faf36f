"""Tests of the plan of a Spark stream that reads a broker's history. No broker is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipeline.errors import PipelineError
from pipeline.sources.spark_history import HistoryStream, HistoryTask

STARTS = {0: 0, 1: 40, 2: 7}
ENDS = {0: 10, 1: 90, 2: 7}


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> HistoryStream:
    news = SimpleNamespace(starts=STARTS, ends=ENDS, names={"id": "orders"})
    monkeypatch.setattr(HistoryStream, "_look", lambda self: news)
    return HistoryStream({"path": "b:9092"})


def stretches(stream: HistoryStream, start: dict[str, int], end: dict[str, int]) -> list[object]:
    tasks = stream.partitions(start, end)
    assert all(isinstance(task, HistoryTask) for task in tasks)
    return [each for task in tasks for each in task.part.stretches]  # type: ignore[attr-defined]


def test_history_stream_starts_at_the_log_start_and_ends_at_the_log_end_offset(
    stream: HistoryStream,
) -> None:
    assert stream.initialOffset() == {"0": 0, "1": 40, "2": 7}
    assert stream.latestOffset() == {"0": 10, "1": 90, "2": 7}


def test_stream_batch_reads_the_new_offsets_of_each_partition(stream: HistoryStream) -> None:
    start, end = {"0": 4, "1": 60, "2": 7}, {"0": 10, "1": 90, "2": 7}

    assert stretches(stream, start, end) == [(0, 4, 10), (1, 60, 90)]
    assert stretches(stream, end, end) == []


def test_stream_batch_skips_records_below_the_log_start_offset(stream: HistoryStream) -> None:
    assert stretches(stream, {"1": 12}, {"1": 50}) == [(1, 40, 50)]
    assert stretches(stream, {}, {"0": 3}) == [(0, 0, 3)]


def test_stream_reads_only_the_named_partitions(stream: HistoryStream) -> None:
    stream.options = {**stream.options, "partitions": "1-2"}

    assert stream.latestOffset() == {"1": 90, "2": 7}


def test_stream_of_a_folder_is_rejected() -> None:
    with pytest.raises(
        PipelineError, match="/data is not a broker: a stream reads from HOST:PORT only"
    ):
        HistoryStream({"path": "/data"})
