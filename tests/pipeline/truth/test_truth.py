"""Tests that the pipeline's tables of all group types equal the results that clients recorded on
Apache Kafka and Muster.

`truth/scenario.py` runs the groups, and `truth/told.py` stores the recorded results. Each table is
made in three ways: with requests to a broker, from the broker's files, and from stored files of
Apache Kafka.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cli.times import instant
from pipeline.engines.duck import DuckEngine
from pipeline.repairs.restore import as_of
from pipeline.sources.open import open_source
from tests.brokers import Broker, KafkaBroker, running
from tests.cli.running import run
from tests.pipeline.truth import scenario
from tests.pipeline.truth.library_clients import lag_by_tool
from tests.pipeline.truth.made import Made, by, make, ms, place
from tests.pipeline.truth.raw_log import counted
from tests.pipeline.truth.save import FOLDER
from tests.pipeline.truth.scenario import World, play
from tests.pipeline.truth.told import (
    OPEN,
    Commit,
    Deletion,
    Generation,
    Place,
    Told,
    Transaction,
    now_ms,
)

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 11")]

HISTORIES = (
    "kept", "kafka-wire", "kafka-files", "kafka-archive", "muster-wire", "muster-files",
)  # fmt: skip


def living(kind: str, folder: Path) -> Iterator[World]:
    """Yields a running broker of ``kind`` ("kafka" or "muster"), on which the scenario has run."""
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


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Yields an empty dict, to which `played` adds the brokers that it starts, by kind of broker.
    Stops these brokers at the end."""
    started: dict[str, Any] = {}
    yield started
    for _, ending in started.values():
        next(ending, None)


@pytest.fixture(scope="module", params=HISTORIES)
def made(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    worlds: dict[str, Any],
) -> Made:
    """Returns the recorded results of a history, with the tables that DuckDB makes of this
    history."""
    folder = tmp_path_factory.mktemp(request.param)
    kind, _, way = request.param.partition("-")
    if kind == "kept":
        return make(*kept(folder / "kept"), folder / "tables")
    world = played(worlds, kind, tmp_path_factory.mktemp(kind))
    source = str(world.data) if way == "files" else world.bootstrap
    if way == "archive":
        source = archived(source, folder / "archive")
    return replace(make(world.told, source, folder / "tables"), data=world.data)


def archived(source: str, archive: Path) -> str:
    """Reads a broker's history into an archive and returns the archive. A second read must find no
    new record."""
    for _ in range(2):
        ran = run("pipeline", "events", "--source", source, "--out", str(archive))
        assert ran.code == 0, ran.err
    return str(archive)


def played(worlds: dict[str, Any], kind: str, folder: Path) -> World:
    """Returns the broker of ``kind`` on which the scenario has run. The first call runs the
    scenario in ``folder``."""
    if kind not in worlds:
        ending = living(kind, folder)
        worlds[kind] = next(ending), ending
    world: World = worlds[kind][0]
    return world


def kept(folder: Path) -> tuple[Told, str]:
    """Unpacks the history in tests/data/kafka-groups. Returns the recorded results and the
    folder."""
    with tarfile.open(FOLDER / "data.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Told.read(FOLDER / "told.json"), str(folder)


def test_final_offsets_of_recorded_transactions_equal_the_offset_fetch_response(made: Made) -> None:
    ends: dict[str, dict[str, int]] = {group: {} for group in made.told.committed}
    for (group, topic, partition), commits in made.told.held().items():
        if commits[-1].offset is not None:
            ends.setdefault(group, {})[f"{topic}:{partition}"] = commits[-1].offset
    assert ends == made.told.committed


def test_rows_of_table_events_equal_the_records_of_the_log(made: Made) -> None:
    told, events = made.told, made.of("events")
    for partition, rows in by(events, lambda row: row["log_partition"]).items():
        assert [row["log_offset"] for row in rows] == list(range(len(rows))), partition
    counted = {name: made.summary[name] for name in ("events", "damaged", "unknown")}
    assert counted == {"events": len(events), "damaged": 0, "unknown": 0}

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


def test_table_commits_has_effective_commits_and_previous_offsets(made: Made) -> None:
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
            assert each.holds(ms(row["committed_at"])), (row, each)
            assert (row["producer_id"] is None) == (each.transaction is None)
            assert row["metadata"] == each.metadata


def effect(row: dict[str, Any]) -> int:
    """Returns the log offset at which a commit takes effect: the offset of the commit's record, or
    of the end marker if the commit is transactional."""
    offset: int = row["log_offset"] if row["marker_offset"] is None else row["marker_offset"]
    return offset


def previous(told: Told, where: Place) -> list[int | None]:
    """Returns the previous offset of each effective commit of one group and partition."""
    held = told.held()[where]
    return [
        before.offset if before else None
        for before, commit in zip([None, *held], held, strict=False)
        if commit.offset is not None
    ]


def test_record_times_in_table_commits_are_correct_within_their_precision(made: Made) -> None:
    times: dict[tuple[str, int], dict[int, int]] = {}
    for record in made.told.records:
        log = times.setdefault((record.topic, record.partition), {})
        log[record.offset] = record.timestamp_ms
    rows = made.of("commits")
    for row in rows:
        true = times[row["topic"], row["partition"]].get(row["committed_offset"])
        told = ms(row["record_at"])
        # ListOffsets does not return a record with a lower timestamp than an earlier record,
        if row["topic"] == "copied" and made.by_questions:
            continue
        # or a record after one with a future timestamp.
        if true is None or (row["topic"] == "tomorrow" and made.by_questions):
            assert (told, row["record_at_precision_s"]) == (None, None), row
        else:
            off = abs(told - true)
            assert off <= row["record_at_precision_s"] * 1000 + 1, (off, row)
    assert any(row["record_at_precision_s"] == 0 for row in rows)


@pytest.mark.proves("transactions 42")
def test_transactional_commits_have_the_outcome_of_their_transaction(made: Made) -> None:
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


def test_rows_of_table_rates_add_up_to_the_commits_that_the_clients_recorded(made: Made) -> None:
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


def test_table_generations_equals_the_generations_seen_by_members(made: Made) -> None:
    """The table has each generation that clients saw, with its members and partitions. The only
    other generations in the table are those that clients cannot see (see `unseen`)."""
    told: dict[str, list[Generation]] = {}
    for each in made.told.of(Generation):
        seen = told.setdefault(each.group, [])
        same = [last for last in seen[-1:] if (last.kind, last.number) == (each.kind, each.number)]
        for last in same:  # a static member has returned: the table has its current state
            seen.remove(last)
        seen.append(replace(each, before_ms=min(last.before_ms for last in [*same, each])))
    rows = by(made.of("generations"), lambda row: row["group_id"])
    assert rows.keys() == told.keys()
    for group, generations in told.items():
        found = [row for row in rows[group] if not unseen(row)]
        assert [(row["group_type"], row["generation"]) for row in found] == [
            (each.kind, each.number) for each in generations
        ], group
        for row, each in zip(found, generations, strict=True):
            assert people(row["members"]) == {
                (who.member_id, who.client_id, who.instance) for who in each.members
            }, row
            if each.kind != "streams":  # streams groups have tasks instead of partitions
                assert holdings(row["members"]) == {
                    who.member_id: {topic: sorted(held) for topic, held in who.held.items()}
                    for who in each.members
                }, row
            assert ms(row["began_at"]) <= each.after_ms + 1
            if each.kind == "classic":
                assert each.holds(ms(row["began_at"]))
    lives = {row["group_id"]: row["life"] for row in made.of("generations")}
    deleted = Counter(each.group for each in made.told.of(Deletion))
    again = {group: count for group, count in deleted.items() if group in made.told.listed}
    assert {group: life for group, life in lives.items() if life} == again == {"reborn": 1}


def test_tables_assignments_and_moves_equal_what_the_group_members_recorded(made: Made) -> None:
    """The clients recorded each generation in which every member had its target assignment. The
    tables must have the same assignments at the end of this generation, and the same moves since
    the previous recorded generation."""
    told: dict[str, list[Generation]] = {}
    for each in made.told.of(Generation):
        told.setdefault(each.group, []).append(each)
    seen = {group: each for group, each in told.items() if any(e.kind != "classic" for e in each)}
    assert {row["group_id"] for row in made.tables["assignments"]} == seen.keys()
    for group, generations in seen.items():
        rows = by(made.of("assignments", group), lambda row: row["generation"])
        moved = by(made.of("moves", group), lambda row: row["generation"])
        for before, each in zip([None, *generations], generations, strict=False):
            if each.kind == "classic":
                continue
            last = {row["member_id"]: row for row in rows.get(each.number, [])}
            assert people(list(last.values())) == {
                (who.member_id, who.client_id, who.instance) for who in each.members
            }, (group, each.number)
            assert {(row["state"], row["member_epoch"]) for row in last.values()} <= {
                ("STABLE", each.number)
            }
            if each.kind != "streams":  # the clients did not record their tasks
                held = holdings([{**row, "assignment": row["assigned"]} for row in last.values()])
                assert held == {
                    who.member_id: {topic: sorted(ps) for topic, ps in who.held.items()}
                    for who in each.members
                }
            owners = owners_of(before)
            assert {
                (row["topic"], row["partition"], row["from_member"], row["to_member"])
                for row in moved.get(each.number, [])
            } == {
                (*partition, owners[partition], owner)
                for partition, owner in owners_of(each).items()
                if owners.get(partition, owner) != owner
            }, (group, each.number)
            for row in moved.get(each.number, []):
                assert row["unowned_s"] >= 0
                assert ms(row["acquired_at"]) <= each.after_ms + 1


def owners_of(generation: Generation | None) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): who.member_id
        for who in (generation.members if generation else ())
        for topic, held in who.held.items()
        for partition in held
    }


def unseen(row: dict[str, Any]) -> bool:
    """Returns True if clients cannot see the generation in a row of the table `generations`.

    There are three such cases: generation 0, which Kafka 4 writes when it creates a group; an epoch
    that converts a group to another type; and an epoch of a share group without partitions.
    """
    return (
        row["generation"] == 0
        or row["change"].startswith("converted")
        or (row["group_type"] == "share" and row["assigned_partitions"] == 0)
    )


def people(members: list[dict[str, Any]]) -> set[tuple[str, str, str | None]]:
    return {(who["member_id"], who["client_id"], who["group_instance_id"]) for who in members}


def holdings(members: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    return {
        who["member_id"]: {each["topic"]: sorted(each["partitions"]) for each in who["assignment"]}
        for who in members
    }


def test_churn_counts_members_that_joined_and_left(made: Made) -> None:
    came: dict[str, Counter[str]] = {}
    for group, changes in changed(made.told).items():
        came[group] = Counter(
            what
            for joined, left in changes
            for what in ["joined"] * len(joined) + ["left"] * len(left)
        )
    rows = {row["group_id"]: row for row in made.of("churn")}
    assert rows.keys() == came.keys()
    for group, changes in came.items():
        row = rows[group]
        assert (row["members_joined"], row["members_left"]) == (changes["joined"], changes["left"])
        assert row["lives"] == (2 if group == "reborn" else 1)
        assert row["rebalances_per_hour"] is None, "some seconds do not make a rate"
        states = [row["life"] for row in made.of("generations", group) if row["generation"] > 0]
        assert row["rebalances"] == len(states) - len(set(states)), group
    restless = Counter(
        (group, client, instance)
        for group, changes in changed(made.told).items()
        for joined, left in changes
        for client, instance in joined | left
    )
    assert {
        (row["group_id"], row["client_id"], row["group_instance_id"]): row["rebalances"]
        for row in made.of("restless_members")
    } == restless


def changed(told: Told) -> dict[str, list[tuple[set[Any], set[Any]]]]:
    """Returns, for each generation of each group, the set of clients that joined and the set of
    clients that left. A client is a client id with an instance id."""
    found: dict[str, list[tuple[set[Any], set[Any]]]] = {}
    before: dict[str, set[Any]] = {}
    for fact in told.facts:
        if isinstance(fact, Deletion):
            before.pop(fact.group, None)
        if not isinstance(fact, Generation):
            continue
        now = {(who.client_id, who.instance) for who in fact.members}
        was = before.get(fact.group, set())
        found.setdefault(fact.group, []).append((now - was, was - now))
        before[fact.group] = now
    return found


def test_rewinds_have_the_partition_owner_at_the_time_of_the_rewind(made: Made) -> None:
    expected = {}
    for where, commits in made.told.held().items():
        for before, commit in pairwise(commits):
            if None not in (before.offset, commit.offset) and commit.offset < before.offset:
                members = {who.client_id for who in made.told.members_at(commit)}
                expected[where, before.offset, commit.offset] = commit.by, members
    found = {
        (place(row), row["previous_offset"], row["committed_offset"]): (
            row["owner"] and row["owner"]["client_id"],
            {who["client_id"] for who in row["members"] or ()},
        )
        for row in made.of("rewinds")
    }
    assert found == expected
    assert {where[0] for where, _, _ in found} >= {"steady", "reset"}


def test_table_expiring_offsets_has_the_expiry_rule_of_each_offset(made: Made) -> None:
    told = made.told
    pending = {commit.place for commit, outcome in told.outcomes() if outcome == OPEN}
    rows = {place(row): row for row in made.of("expiring_offsets")}
    assert {where: row["committed_offset"] for where, row in rows.items()} == {
        (group, *split(where)): offset
        for group, offsets in told.committed.items()
        for where, offset in offsets.items()
    }
    for where, row in rows.items():
        group = where[0]
        if where in pending:
            assert row["rule"] == "kept: an open transaction has a pending commit for it"
        elif told.listed[group] == "Stable":
            assert row["rule"] == "kept: a member subscribes to the topic"
        else:
            since = last_left(told, group) or written_last(told, where)
            assert since.holds(ms(row["since"]))
            assert row["expires_at"] - row["since"] == timedelta(days=7)
        assert row["expired"] is False


def written_last(told: Told, where: Place) -> Commit:
    """Returns the commit that stored the current offset of a partition. Its time is the time at
    which the client sent it, even if its transaction ended later: offsets expire a certain time
    after the commit."""
    held = told.held()[where][-1]
    [*_, sent] = [
        each
        for each in told.of(Commit)
        if (each.place, each.offset, each.transaction) == (where, held.offset, held.transaction)
    ]
    return sent


def last_left(told: Told, group: str) -> Generation | None:
    """Returns the last generation of a group, or None if the group has no recorded generation."""
    generations = told.of(Generation, group)
    return generations[-1] if generations else None


def test_table_dead_groups_lists_deleted_groups_and_empty_groups_without_offsets(
    made: Made,
) -> None:
    deleted = {each.group: "deleted" for each in made.told.of(Deletion)}
    expected = {g: why for g, why in deleted.items() if g not in made.told.listed}
    expected["idle"] = "empty and has no committed offsets"
    assert {row["group_id"]: row["reason"] for row in made.of("dead_groups")} == expected


def test_counts_in_table_compaction_equal_the_counts_of_the_segment_files(made: Made) -> None:
    for row in made.of("compaction"):
        expected = counted(made.data / f"__consumer_offsets-{row['log_partition']}")
        size = expected.pop("bytes_estimate")
        assert {name: row[name] for name in expected} == expected
        assert row["bytes_estimate"] == pytest.approx(size, rel=0.2)


def test_groups_with_expired_offsets_are_dead_unless_they_are_stable(tmp_path: Path) -> None:
    """The tables are computed for a time eight days after the end of the scenario. Offsets of
    groups without members have then expired."""
    told, source = kept(tmp_path / "kept")
    later = instant(told.until_ms + 8 * 86_400_000)
    made = make(told, source, tmp_path / "tables", "--as-of", later)
    dead = {row["group_id"]: row["reason"] for row in made.of("dead_groups")}
    assert {group for group, reason in dead.items() if "expired" in reason} == {
        "transacted", "between", "reset", "future", "simple",
    }  # fmt: skip
    assert not {group for group, state in told.listed.items() if state == "Stable"} & dead.keys()


def test_lag_is_exact_in_records_and_within_its_precision_in_seconds(
    made: Made,
) -> None:
    told, as_of_ms = made.told, made.summary["as_of_ms"]
    dates = {(each.topic, each.partition, each.offset): each for each in told.records}
    last = {place(row): row for row in sorted(made.of("lag"), key=lambda row: row["minute"])}
    expected = {
        (group, *split(where)): (offset, told.ends[where])
        for group, offsets in told.committed.items()
        for where, offset in offsets.items()
    }
    assert {
        where: (row["committed_offset"], row["end_offset"], row["lag_records"])
        for where, row in last.items()
    } == {where: (offset, end, end - offset) for where, (offset, end) in expected.items()}
    for (_, topic, partition), row in last.items():
        assert ms(row["as_of"]) == as_of_ms
        first = dates.get((topic, partition, row["committed_offset"]))
        if first is None:  # the committed offset is after the log end
            assert (row["unread_at"], row["lag_s"]) == (None, None)
        elif topic == "copied":
            least, most = (as_of_ms - first.after_ms) / 1000, (as_of_ms - first.before_ms) / 1000
            if row["partition"] == 0:  # the copies are among live records
                assert row["lag_precision_s"] <= 5
                assert row["lag_s"] >= least - row["lag_precision_s"] - 0.002
                assert row["lag_s"] <= most + row["lag_precision_s"] + 0.002
            else:  # the arrival of the copies is unknown
                assert row["lag_precision_s"] is None
                assert (row["lag_s"] or 0) <= most + 0.002
                # The first run of an archive saw the log end: the copies had arrived by then.
                in_archive = made.source.endswith("archive")
                assert (row["lag_s"] is None) == (row["partition"] > 1 and not in_archive)
        elif first.timestamp_ms > as_of_ms:
            # the arrival of a record with a future timestamp is unknown
            assert (row["lag_records"], row["lag_s"]) == (7, None)
        else:
            true = (as_of_ms - first.timestamp_ms) / 1000
            assert abs(row["lag_s"] - true) <= row["lag_precision_s"] + 0.002, (true, row)


def test_as_of_time_is_the_end_of_the_source(made: Made) -> None:
    as_of_ms, written = (
        made.summary["as_of_ms"],
        [ms(row["written_at"]) for row in made.of("events")],
    )
    if made.by_questions:
        assert made.told.until_ms <= as_of_ms <= now_ms()
    else:
        assert as_of_ms == max(written)


def split(where: str) -> tuple[str, int]:
    topic, _, partition = where.rpartition(":")
    return topic, int(partition)


def test_groups_with_unread_records_are_not_caught_up(made: Made) -> None:
    rows = {place(row): row for row in made.of("catch_up")}
    past_the_end = ("simple", "payments", 0)
    assert {where for where, row in rows.items() if row["verdict"] == "caught up"} == set()
    assert {where for where, row in rows.items() if row["verdict"] == "out of range"} == {
        past_the_end
    }
    assert rows["future", "tomorrow", 0]["lag_records"] == 7
    assert len(rows) == sum(map(len, made.told.committed.values()))


def test_restore_finds_the_recorded_offsets_at_every_marked_time(
    made: Made, tmp_path: Path
) -> None:
    """The clients recorded times at which none of them was active (marks). A restore to a mark must
    find the offsets that were committed at this time."""
    held = made.told.held()
    engine = DuckEngine(str(tmp_path))
    for moment in made.told.marks.values():
        then = as_of(engine, open_source(made.source), datetime.fromtimestamp(moment / 1000, UTC))
        found = {
            tuple(key): None if was.position is None else was.position.offset
            for key, was in then.items()
        }
        expected = dict.fromkeys(held)
        for where, commits in held.items():
            before = [each for each in commits if each.after_ms < moment]
            expected[where] = before[-1].offset if before else None
        assert found == expected, moment
    engine.close()


def test_lag_in_records_equals_the_lag_that_kafka_consumer_groups_prints(made: Made) -> None:
    """Apache's kafka-consumer-groups runs after the pipeline, when no client reads or produces."""
    if not made.over_the_wire:
        return
    last = {place(row): row for row in sorted(made.of("lag"), key=lambda row: row["minute"])}
    assert {where: row["lag_records"] for where, row in last.items()} == lag_by_tool(made.source)


def test_pipeline_reads_at_most_twice_the_bytes_of_the_offsets_topic(made: Made) -> None:
    """The limit includes a few lookups of record times."""
    log, topic = (
        sum(file.stat().st_size for file in made.data.glob(f"{name}-*/*.log"))
        for name in ("__consumer_offsets", "orders")
    )
    moved = made.summary["moved_bytes"]
    questions = 64 << 10
    assert topic > 2 * log + questions
    assert log < moved <= 2 * log + questions if made.over_the_wire else moved == 0


def test_restore_of_a_transactional_group_on_kafka_plans_committed_offsets(
    worlds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four transactions wrote 10 (committed), 150 (aborted), 20 (committed) and 5 (aborted). A
    restore to a time after 10 or after 150 plans offset 10. A restore to the end plans no
    change."""
    world = played(worlds, "kafka", tmp_path)
    monkeypatch.chdir(tmp_path)
    for source in (world.bootstrap, str(world.data)):
        for mark, after in (("10 committed", 10), ("150 aborted", 10), ("5 aborted", None)):
            words = ["--at", instant(world.told.marks[mark], to_the_ms=True), "--source", source]
            where = ["-b", world.bootstrap, "--dry-run", "--json"]
            ran = run("pipeline", "restore", "transacted", *words, *where)
            assert ran.code == 0, ran.err
            planned = [(each["before"], each["after"]) for each in ran.json["changes"]]
            assert planned == ([] if after is None else [(20, after)]), (source, mark)


@pytest.mark.parametrize("option", ["--until", "--as-of"])
@pytest.mark.parametrize("mark", ["150 aborted", "after modern", "after reborn"])
def test_tables_as_of_a_past_time_ignore_later_commits_and_deletions(
    tmp_path: Path, mark: str, option: str
) -> None:
    """For a past as-of time, inactivity after this time does not make a group dead."""
    told, source = kept(tmp_path / "kept")
    moment = told.marks[mark]
    made = make(told, source, tmp_path / "tables", option, instant(moment, to_the_ms=True))
    by_then = replace(told, facts=[each for each in told.facts if each.after_ms < moment])
    held = by_then.held()
    assert {where: len(rows) for where, rows in by(made.of("commits"), place).items()} == {
        where: len(rows)
        for where, commits in held.items()
        if (rows := [each for each in commits if each.offset is not None])
    }
    assert {place(row): row["committed_offset"] for row in made.of("expiring_offsets")} == {
        where: commits[-1].offset
        for where, commits in held.items()
        if commits[-1].offset is not None
    }
    outcomes = Counter(row["outcome"] for row in made.of("transactional_commits"))
    assert outcomes == Counter(outcome for _, outcome in by_then.outcomes())
    assert not made.of("dead_groups")


def test_tables_of_selected_groups_equal_the_rows_of_these_groups_in_full_tables(
    tmp_path: Path,
) -> None:
    """The end marker of a transaction names no group, so a job that selects groups must still read
    all markers."""
    told, source = kept(tmp_path / "kept")
    whole = make(told, source, tmp_path / "whole")
    groups = ("between", "modern", "transacted")
    chosen = [word for group in groups for word in ("--group", group)]
    part = make(told, source, tmp_path / "part", *chosen)
    for name in ("commits", "transactional_commits", "rewinds", "generations", "lag", "churn"):
        rows = [row for row in whole.of(name) if row["group_id"] in groups]
        assert sorted(part.tables[name], key=str) == sorted(rows, key=str), name


def test_duckdb_and_spark_make_the_same_tables_of_the_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    told, source = kept(tmp_path / "kept")
    light = make(told, source, tmp_path / "light")
    heavy = make(told, source, tmp_path / "heavy", "--engine", "spark")
    assert heavy.summary["engine"].startswith("Spark")
    for name, rows in light.tables.items():
        assert sorted(rows, key=str) == sorted(heavy.tables[name], key=str), name
