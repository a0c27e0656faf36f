"""Tests of repeated reads of a growing history into an archive. The cluster is fake, and the time
is virtual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import PipelineError, Unreachable
from pipeline.run.collect import Collected, collect, follow
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.feed import Growth, Held
from pipeline.sources.source import TimesAsked
from pipeline.storage.archive import FILES_OF_A_DAY, Archive
from pipeline.storage.manifest import TopicEnds
from tests.pipeline.archives import START_MS, commits, places, rows_of, stretch

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 5")]


@dataclass
class Log:
    """A fake cluster with one partition of `__consumer_offsets` and one topic. It implements the
    protocols Feed and News."""

    where: str = "fake:9092"
    cluster_id: str | None = "a-cluster"
    log_id: str | None = "a-log"
    at_ms: int | None = START_MS
    start: int = 0
    end: int = 0
    topic_end: int = 0
    asked: list[Held] = field(default_factory=list)
    away: int = 0
    fails_while_read: bool = False

    def look(self) -> Log:
        if self.away:
            self.away -= 1
            raise Unreachable("nobody answers at fake:9092")
        return self

    @property
    def starts(self) -> Mapping[int, int]:
        return {0: self.start}

    @property
    def ends(self) -> Mapping[int, int]:
        return {0: self.end}

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        first = max(positions.get(0, 0), self.start)
        for begin in range(first, self.end, 4):
            if self.fails_while_read and begin > first:
                self.fails_while_read = False
                raise Unreachable("the broker at fake:9092 did not answer Fetch")
            yield commits(0, range(begin, min(begin + 4, self.end)), self.at_ms or 0)

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        self.asked.append(held)
        assert self.at_ms is not None
        before = known["orders"].ends[0] if "orders" in known else 0
        ends = {"orders": TopicEnds("id", {0: self.topic_end}, self.at_ms)}
        if self.topic_end == before:
            return Growth((), ends)
        return Growth([stretch(before, self.topic_end - 1, self.at_ms)], ends)

    def pass_by(self, seconds: float) -> None:
        assert self.at_ms is not None
        self.at_ms += round(seconds * 1000)


def added(log: Log, out: Path) -> Collected:
    with Archive.open(str(out), log.cluster_id) as archive:
        return collect(log.look(), archive)


def test_repeated_read_appends_and_counts_only_new_records(tmp_path: Path) -> None:
    log = Log(end=6, topic_end=20)
    first = added(log, tmp_path)
    assert (first.events, first.stretches, first.forgotten) == (6, 1, ())
    assert log.asked == [{("orders", 0): {5}}], "what the group committed last"
    again = added(log, tmp_path)
    assert (again.events, again.stretches, again.forgotten) == (0, 0, ())
    log.end, log.topic_end, log.at_ms = 9, 25, START_MS + 10_000
    assert added(log, tmp_path).events == 3
    assert places(tmp_path) == [(0, n) for n in range(9)]
    spans = [(row["base_offset"], row["last_offset"]) for row in rows_of(tmp_path, "stretches")]
    assert sorted(spans) == [(0, 19), (20, 24)]

    source = ArchiveSource(str(tmp_path))
    assert (source.cluster_id, source.end_ms()) == ("a-cluster", START_MS + 10_000)
    assert source.records_estimate() == 9
    parts = source.stretch_parts(TimesAsked(["orders"], START_MS))
    rows = [row for part in parts for batch in part.read() for row in batch.to_pylist()]
    assert {row["base_offset"]: row["last_offset"] for row in rows} == {0: 19, 20: 24, 25: 24}
    source.close()


def test_records_deleted_before_they_were_read_count_as_damage(tmp_path: Path) -> None:
    log = Log(end=5)
    assert added(log, tmp_path).lost == ()
    log.start, log.end = 8, 12
    came = added(log, tmp_path)
    assert came.lost == ("__consumer_offsets:0: offsets 5 to 7 were deleted before they were read",)
    assert came.damaged == 1
    [row] = rows_of(tmp_path, "quarantine")
    assert (row["log_offset"], row["reason"]) == (
        5,
        "offsets 5 to 7 were deleted before they were read",
    )
    assert added(log, tmp_path).damaged == 0
    assert places(tmp_path) == [(0, n) for n in (0, 1, 2, 3, 4, 5, 8, 9, 10, 11)]


def test_first_read_of_a_log_that_starts_above_offset_0_reports_no_loss(tmp_path: Path) -> None:
    assert added(Log(start=100, end=103), tmp_path).lost == ()
    assert places(tmp_path) == [(0, n) for n in (100, 101, 102)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster_id": "other"}, "cluster other.*archive of cluster a-cluster"),
        ({"log_id": "another"}, "was recreated"),
        ({"end": 3}, "ends at offset 3, but .* has read up to offset 5"),
    ],
)
def test_read_of_another_history_is_rejected_and_leaves_the_archive_unchanged(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    log = Log(end=5)
    with Archive.open(str(tmp_path), log.cluster_id) as archive:
        collect(log.look(), archive)
        before = archive.manifest
        for name, value in change.items():
            setattr(log, name, value)
        with pytest.raises(PipelineError, match=said):
            collect(log.look(), archive)
        assert archive.manifest == before


def test_second_run_requests_record_times_when_the_first_run_read_only_the_offsets_topic(
    tmp_path: Path,
) -> None:
    log = Log(end=5)
    with Archive.open(str(tmp_path), log.cluster_id) as archive:
        archive.append(log.events({}))
    log.end = 5
    added(log, tmp_path)
    assert log.asked == [{("orders", 0): {4}}]
    added(log, tmp_path)
    assert log.asked[1] == {}


def test_job_with_option_follow_retries_when_its_first_read_fails(tmp_path: Path) -> None:
    log = Log(end=10, fails_while_read=True)
    told: list[Any] = []

    def sleep(_: float) -> None:
        if len(told) > 2:
            raise Ended

    def looked(came: Collected) -> None:
        told.append(came.events)

    first = log.look()
    log.away = 1
    with Archive.open(str(tmp_path), log.cluster_id) as archive, pytest.raises(Ended):
        follow(log, archive, looked, told.append, news=first, sleep=sleep)
    assert told == ["the broker at fake:9092 did not answer Fetch", None, 10]


class Ended(Exception):
    """Raised when the virtual time has ended."""


def followed(log: Log, out: Path, between: Callable[[int], None], looks: int) -> list[Any]:
    """Runs the function `follow` on a log until it has paused ``looks`` times. Returns its reports,
    and the length of each pause in seconds."""
    told: list[Any] = []
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds))
        log.pass_by(seconds)
        if len(pauses) == looks:
            raise Ended
        between(len(pauses))

    with Archive.open(str(out), log.cluster_id) as archive, pytest.raises(Ended):
        follow(log, archive, lambda came: told.append(came.events), told.append, 10, sleep=sleep)
    return [told, pauses]


def test_unreachable_broker_is_reported_once_and_retried_with_backoff(tmp_path: Path) -> None:
    log = Log(end=2)

    def between(pause: int) -> None:
        if pause == 1:
            log.away = 5

    told, pauses = followed(log, tmp_path, between, 8)
    assert told == [2, "nobody answers at fake:9092", None, 0, 0]
    assert pauses == [10, 10, 20, 40, 60, 60, 10, 10]


def test_no_record_is_lost_or_duplicated_when_a_broker_fails_during_a_read(
    tmp_path: Path,
) -> None:
    log = Log(end=10, fails_while_read=True)
    told, _ = followed(log, tmp_path, lambda pause: None, 3)
    assert told == ["the broker at fake:9092 did not answer Fetch", None, 10, 0]
    assert places(tmp_path) == [(0, n) for n in range(10)]


def test_many_reads_in_a_day_leave_few_archive_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    log = Log(end=1, topic_end=1)

    def between(pause: int) -> None:
        log.end += pause % 3
        log.topic_end += pause % 2

    followed(log, tmp_path, between, 200)
    assert len(list((tmp_path / "events").rglob("*.parquet"))) <= FILES_OF_A_DAY
    assert len(list((tmp_path / "stretches").rglob("*.parquet"))) <= FILES_OF_A_DAY
    assert places(tmp_path) == [(0, n) for n in range(log.end)]
