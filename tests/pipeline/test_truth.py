"""A history of groups of every kind, on Apache Kafka and on Muster, beside what clients were told.

`truth/scenario.py` has the groups, `truth/told.py` the log of what their clients were told. Every
table is made from the wire and from the files of the same broker, and from the files of a Kafka
that were kept.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from tests.brokers import Broker, KafkaBroker, running
from tests.pipeline.truth import scenario
from tests.pipeline.truth.made import Made, by, make, ms, place
from tests.pipeline.truth.save import FOLDER
from tests.pipeline.truth.scenario import World, play
from tests.pipeline.truth.told import (
    OPEN,
    Commit,
    Place,
    Told,
    Transaction,
)

pytestmark = pytest.mark.pipeline

HISTORIES = ("kept", "kafka-wire", "kafka-files", "muster-wire", "muster-files")


def living(kind: str, folder: Path) -> Iterator[World]:
    """A broker of that kind on which the groups live."""
    if kind == "kafka":
        broker: Broker = KafkaBroker(folder / "data", scenario.KAFKA_SETTINGS)
        lives = scenario.KAFKA
    else:
        broker = Broker(folder / "data", scenario.SETTINGS)
        lives = scenario.MUSTER
    with running(broker):
        world = play(broker, lives)
        yield world
        world.close()


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Brokers that were started, by their kind, each with its history."""
    started: dict[str, Any] = {}
    yield started
    for _, ending in started.values():
        next(ending, None)


@pytest.fixture(scope="session", params=HISTORIES)
def made(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    worlds: dict[str, Any],
) -> Made:
    """A history, and its tables by the light engine."""
    folder = tmp_path_factory.mktemp(request.param)
    kind, _, way = request.param.partition("-")
    if kind == "kept":
        told, source = kept(folder / "kept")
    else:
        if kind not in worlds:
            ending = living(kind, tmp_path_factory.mktemp(kind))
            worlds[kind] = next(ending), ending
        world = worlds[kind][0]
        told, source = world.told, world.bootstrap if way == "wire" else str(world.data)
    (folder / "scratch").mkdir()
    return make(DuckEngine(str(folder / "scratch")), told, source, folder / "tables")


def kept(folder: Path) -> tuple[Told, str]:
    """The history that is kept in tests/data/kafka-groups."""
    with tarfile.open(FOLDER / "data.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Told.read(FOLDER / "told.json"), str(folder)


def test_the_log_of_what_clients_were_told_ends_as_the_broker_does(made: Made) -> None:
    """The log's own rules for transactions give what the broker answers to OffsetFetch."""
    ends: dict[str, dict[str, int]] = {group: {} for group in made.told.committed}
    for (group, topic, partition), commits in made.told.held().items():
        if commits[-1].offset is not None:
            ends.setdefault(group, {})[f"{topic}:{partition}"] = commits[-1].offset
    assert ends == made.told.committed


def test_events_are_the_log_record_by_record(made: Made) -> None:
    """Every acknowledged commit and deletion is there, in its order and time, and nothing else."""
    told, events = made.told, made.of("events")
    for partition, rows in by(events, lambda row: row["log_partition"]).items():
        assert [row["log_offset"] for row in rows] == list(range(len(rows))), partition
    assert (made.summary.events, made.summary.damaged, made.summary.unknown) == (len(events), 0, 0)

    written: dict[Place, list[Commit]] = {}
    for commit in told.of(Commit):
        if commit.offset is not None:
            written.setdefault(commit.place, []).append(commit)
    seen = by([row for row in events if row["kind"] == "commit"], place)
    assert seen.keys() == written.keys()
    for where, commits in written.items():
        rows = seen[where]
        assert [(row["committed_offset"], row["metadata"]) for row in rows] == [
            (commit.offset, commit.metadata) for commit in commits
        ]
        assert [row["producer_id"] is not None for row in rows] == [
            commit.transaction is not None for commit in commits
        ]
        for row, commit in zip(rows, commits, strict=True):
            assert commit.holds(ms(row["written_at"])), (row, commit)

    deleted = Counter(
        place for place, commits in told.held().items() for each in commits if each.offset is None
    )
    assert Counter(place(row) for row in events if row["kind"] == "commit_tombstone") == deleted
    marked = Counter(row["marker"] for row in events if row["kind"] == "transaction_marker")
    ended = Counter(each.outcome for each in told.of(Transaction) if each.outcome != OPEN)
    assert marked == {{"committed": "commit", "aborted": "abort"}[k]: n for k, n in ended.items()}


def test_commits_are_those_that_took_effect_each_with_the_one_before(made: Made) -> None:
    expected = {
        where: [commit for commit in commits if commit.offset is not None]
        for where, commits in made.told.held().items()
    }
    expected = {where: commits for where, commits in expected.items() if commits}
    rows = by(sorted(made.of("commits"), key=effect), place)
    assert rows.keys() == expected.keys()
    for where, commits in expected.items():
        found = rows[where]
        assert [row["committed_offset"] for row in found] == [each.offset for each in commits]
        before = previous(made.told, where)
        assert [(row["previous_offset"], row["advanced_records"]) for row in found] == [
            (was, None if was is None else each.offset - was)
            for was, each in zip(before, commits, strict=True)
        ]
        for row, each in zip(found, commits, strict=True):
            assert each.holds(ms(row["at"])), (row, each)
            assert (row["producer_id"] is None) == (each.transaction is None)
            assert row["metadata"] == each.metadata


def effect(row: dict[str, Any]) -> int:
    """The record of the log from which on a commit held."""
    offset: int = row["log_offset"] if row["marker_offset"] is None else row["marker_offset"]
    return offset


def previous(told: Told, where: Place) -> list[int | None]:
    """For each commit that took effect what was held before it."""
    held = told.held()[where]
    return [
        before.offset if before else None
        for before, commit in zip([None, *held], held, strict=False)
        if commit.offset is not None
    ]


def test_times_of_records_are_theirs_within_the_precision_that_is_told(made: Made) -> None:
    times: dict[tuple[str, int], dict[int, int]] = {}
    for record in made.told.records:
        log = times.setdefault((record.topic, record.partition), {})
        log[record.offset] = record.timestamp_ms
    rows = made.of("commits")
    for row in rows:
        true = times[row["topic"], row["partition"]].get(row["committed_offset"])
        told = ms(row["record_at"])
        if true is None:
            assert told is None, row
        elif row["topic"] == "tomorrow" and made.over_the_wire:
            assert told is None, "ListOffsets tells nothing of records behind a future one"
        else:
            off = abs(told - true)
            assert off <= row["record_at_precision_s"] * 1000 + 1, (off, row)
    assert any(row["record_at_precision_s"] == 0 for row in rows)


def test_what_transactions_wrote_is_told_apart_by_what_became_of_it(made: Made) -> None:
    ends = {each.number: each for each in made.told.of(Transaction)}
    expected: dict[Place, list[tuple[Commit, str]]] = {}
    for commit, outcome in made.told.outcomes():
        expected.setdefault(commit.place, []).append((commit, outcome))
    rows = by(made.of("transactional_commits"), place)
    assert rows.keys() == expected.keys()
    for where, commits in expected.items():
        assert [(row["committed_offset"], row["outcome"]) for row in rows[where]] == [
            (commit.offset, outcome) for commit, outcome in commits
        ]
        for row, (commit, outcome) in zip(rows[where], commits, strict=True):
            assert commit.holds(ms(row["written_at"]))
            end = ends[commit.transaction]
            assert end.producer_id in (None, row["producer_id"])
            if outcome == OPEN:
                assert row["ended_at"] is None
            else:
                assert end.holds(ms(row["ended_at"])), (row, end)


def test_rates_add_up_to_what_was_committed(made: Made) -> None:
    expected: dict[tuple[str, str], list[int]] = {}
    for (group, topic, partition), commits in made.told.held().items():
        advances = previous(made.told, (group, topic, partition))
        offsets = [commit.offset for commit in commits if commit.offset is not None]
        for before, offset in zip(advances, offsets, strict=True):
            sums = expected.setdefault((group, topic), [0, 0, 0])
            moved = 0 if before is None else offset - before
            sums[0] += 1
            sums[1] += max(moved, 0)
            sums[2] += max(-moved, 0)
    sums = {
        key: [
            sum(row[name] for row in rows)
            for name in ("commits", "advanced_records", "rewound_records")
        ]
        for key, rows in by(made.of("rates"), lambda row: (row["group_id"], row["topic"])).items()
    }
    assert sums == expected
