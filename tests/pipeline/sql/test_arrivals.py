"""Tests of the arrival times that the pipeline estimates for records, from files or from a broker.
Each time is correct or unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.pipeline.copied_logs import (
    HOUR,
    MINUTE,
    READ_MS,
    YEAR,
    Log,
    any_log,
    over_the_wire,
)
from tests.pipeline.history import History
from tests.pipeline.relations import EPOCH_S, Relations

pytestmark = pytest.mark.pipeline

SOURCES = ("files", "wire")
LOGS = 200


class Commit(NamedTuple):
    """A commit by a group: time, offset and group."""

    at_ms: int
    offset: int
    group: str = "g"


class Age(NamedTuple):
    lag_s: float | None
    precision_s: float | None


class Case(NamedTuple):
    """A log, and commits of groups that read it. The last commit belongs to group `g`."""

    log: Log
    commits: list[Commit]

    @property
    def true_s(self) -> float:
        """Returns the seconds since the arrival of the first record that `g` has not read."""
        offset, arrived_ms = self.commits[-1].offset, self.log.arrived_ms
        return (READ_MS - arrived_ms[offset]) / 1000 if offset < len(arrived_ms) else 0.0


def ages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *cases: Case) -> list[dict[str, Age]]:
    """Writes the logs of ``cases`` to files, and to a broker. Returns two results for each case,
    one computed from the files and one from the broker: the lag of group `g` in seconds at the read
    time, and the precision of this lag."""
    history, stretches = History(), []
    commits = sorted((each, n) for n, case in enumerate(cases) for each in case.commits)
    for topic in SOURCES:
        for commit, n in commits:
            seconds = commit.at_ms / 1000 - EPOCH_S
            history.commit(seconds, commit.group, commit.offset, topic=topic, partition=n)
    for n, case in enumerate(cases):
        stretches += case.log.in_files("files", n)
    stretches += over_the_wire(
        monkeypatch,
        {("wire", n): case.log for n, case in enumerate(cases)},
        {("wire", n): [case.commits[-1].offset] for n, case in enumerate(cases)},
    )
    made = Relations(tmp_path, history.rows, stretches, as_of=0, since=-120)
    found: list[dict[str, Age]] = [{} for _ in cases]
    columns = ("topic", "partition", "group_id", "lag_s", "lag_precision_s")
    for topic, n, group, *age in made.rows("lag", *columns, by="minute"):
        if group == "g":
            found[n][topic] = Age(*age)
    return found


def any_case(chance: Random) -> Case:
    """Returns a random log. Group `g` is at a random offset. The other groups committed at the log
    end at random times."""
    log = any_log(chance)
    count = len(log.dates_ms)
    commits = [
        Commit(min(log.arrived_ms[last] + chance.randint(0, 10_000), READ_MS), last + 1, "live")
        for last in sorted(chance.sample(range(count), min(count, chance.choice((0, 0, 1, 4)))))
    ]
    offset = chance.choice((0, chance.randint(0, count)))
    since_ms = log.arrived_ms[max(offset - 1, 0)]
    return Case(log, [*commits, Commit(chance.randint(since_ms, READ_MS), offset)])


def test_lag_in_seconds_is_correct_within_its_precision_for_copied_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the precision is null, the lag in seconds is a lower bound. The pipeline cannot detect
    from ListOffsets responses that the clock of a producer was ahead."""
    chance = Random(31)
    cases = [any_case(chance) for _ in range(LOGS)]

    found = ages(tmp_path, monkeypatch, *cases)

    exact = 0
    for n, (case, told) in enumerate(zip(cases, found, strict=True)):
        for source, (lag_s, precision_s) in told.items():
            where = n, source, case.true_s, lag_s, precision_s, case
            off_s = 0.002 + (case.log.ahead_ms / 1000 if source == "wire" else 0)
            if precision_s is None:
                assert lag_s is None or lag_s <= case.true_s + off_s, where
            else:
                assert lag_s is not None
                assert abs(lag_s - case.true_s) <= precision_s + off_s, where
                exact += precision_s <= 1
    assert exact > LOGS / 2, "much is known"


def between(live: int, copied: int) -> Case:
    """Returns a log with live records, then copies of year-old records, then live records. The
    pipeline read the log 14 seconds after its last record arrived. The committed offset is the
    offset of the first copy."""
    log = Log().live(live).copy(copied).live(live).read_after(14_000)
    return Case(log, [Commit(READ_MS - 5_000, live)])


@pytest.mark.parametrize(("live", "copied"), [(50, 100), (20, 2_000)])
def test_lag_in_seconds_ignores_the_timestamps_of_copied_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: int, copied: int
) -> None:
    case = between(live, copied)

    [told] = ages(tmp_path, monkeypatch, case)

    for lag_s, precision_s in told.values():
        assert lag_s == pytest.approx(case.true_s, abs=2.2)
        assert precision_s is not None
        assert abs(case.true_s - lag_s) <= precision_s <= 2.2


def test_copied_records_at_the_log_start_are_at_least_as_old_as_the_next_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 500 records of the log are copies with old timestamps; 50 new records follow. Each
    case is one committed offset: at the log start, among the copies, or after them."""
    log = Log().copy(500).rest(1_000).live(50).read_after(9_000)
    cases = [Case(log, [Commit(READ_MS - 5_000, offset)]) for offset in (0, 250, 499, 500, 520)]

    found = ages(tmp_path, monkeypatch, *cases)

    known = [(9.05, None), (9.05, None), (9.05, None), (9.05, 0), (9.03, 0)]
    assert [told["files"] for told in found] == known
    assert [told["wire"] for told in found[:4]] == known[:4]
    assert found[4]["wire"].lag_s == 9.03, "within what is close enough"


def test_log_that_contains_only_copied_records_has_unknown_lag_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the log are copied by a mirror. In the first case, it copies all records at
    the same time. In the second case, it copies continuously, and each record is a year old when it
    is copied. The third case is like the second, but another group commits offsets soon after the
    copies arrive."""
    at_once, mirror = Log().copy(500), Log().copy(500, every_ms=60_000)
    cases = [
        Case(log.read_after(9_000), [Commit(READ_MS - 5_000, 300)]) for log in (at_once, mirror)
    ]
    steps = [Commit(mirror.arrived_ms[n] + 50, n + 1, "live") for n in range(0, 500, 10)]
    cases.append(Case(mirror, [*steps, Commit(READ_MS - 5_000, 300)]))

    found = ages(tmp_path, monkeypatch, *cases)

    assert found == [dict.fromkeys(SOURCES, Age(None, None))] * 3


@pytest.mark.parametrize("first", [True, False])
def test_copied_records_arrived_before_the_first_observation_of_a_higher_log_end_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A producer copied old records with their timestamps, so the timestamps do not show when the
    records arrived. The log end offset was observed at the time of the read and 9 s earlier. Both
    times the log already had the records, so they arrived before the earlier observation."""
    log = Log().copy(500, every_ms=1_000).read_after(20_000)
    rows = over_the_wire(monkeypatch, {("wire", 0): log}, {("wire", 0): [300]})
    earlier = dict.fromkeys(rows[0])
    earlier |= {"topic": "wire", "partition": 0, "base_offset": 500, "last_offset": 499}
    earlier["last_at"] = datetime.fromtimestamp(READ_MS / 1000 - 9, UTC)
    history = History()
    history.commit((READ_MS - 5_000) / 1000 - EPOCH_S, "g", 300, topic="wire", partition=0)
    stretches = [earlier, *rows] if first else [*rows, earlier]

    made = Relations(tmp_path, history.rows, stretches, as_of=0, since=-120)

    assert made.rows("lag", "lag_s", "lag_precision_s", by="minute")[-1] == (9.0, None)


def test_lag_of_an_idle_log_is_known_when_a_commit_precedes_the_idle_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log gets no records in the last five hours before it is read. A commit before these hours
    proves that the timestamps of the earlier records are correct. A commit at the end of these
    hours does not prove this."""
    log = Log().live(100, 1_000).read_after(5 * HOUR)
    then_ms = log.arrived_ms[59] + 500
    stopped, late = Commit(then_ms, 60), Commit(READ_MS - MINUTE, 60)
    cases = [
        Case(log, [stopped]),
        Case(log, [late]),
        Case(log, [Commit(then_ms, 60, "other"), late]),
    ]

    found = ages(tmp_path, monkeypatch, *cases)

    known = dict.fromkeys(SOURCES, Age(cases[0].true_s, 0))
    assert found == [known, dict.fromkeys(SOURCES, Age(None, None)), known]


def test_arrival_time_of_a_batch_is_its_newest_timestamp_when_other_timestamps_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log().live(10, 1_000).read_after(20_000)
    log.dates_ms[:9] = [READ_MS - YEAR] * 9
    log.batches = [0]
    case = Case(log, [Commit(READ_MS - 5_000, 3)])

    [told] = ages(tmp_path, monkeypatch, case)

    assert told["files"] == (20.001, 0)


def test_lag_error_is_within_lag_precision_when_copied_records_lie_between_live_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records with old timestamps are copied into the topic. They arrive ten seconds after the
    first live records. The next live records arrive twenty seconds after the copies."""
    log = Log().live(50).rest(10_000).copy(100).rest(20_000).live(5).read_after(1_000)
    case = Case(log, [Commit(READ_MS - 500, 50)])

    [told] = ages(tmp_path, monkeypatch, case)

    for lag_s, precision_s in told.values():
        assert lag_s is not None
        assert precision_s is not None
        assert abs(lag_s - case.true_s) <= precision_s <= 31
