"""Tests of `muster pipeline events --follow` on a running broker: growing archives, kills and
failures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from pipeline.model.events import EVENTS
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.open import open_source
from pipeline.storage.manifest import load
from tests.brokers import CHECKOUT, Broker
from tests.chance import chance
from tests.cli.running import Ran, run
from tests.pipeline.archives import is_the_log, logged, place, places, rows_of
from tests.pipeline.killing import killed_at
from tests.pipeline.many_commits import PARTITIONS, TOPIC, commit, prepare
from tests.raw_connection import RawConnection
from tests.waiting import until

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600), pytest.mark.proves("pipeline 5")]

AGAIN = "retrying until a broker answers"


@pytest.fixture
def served(brokers: Callable[..., Broker]) -> Broker:
    broker = brokers({"offsets.topic.num.partitions": "3"})
    prepare(broker)
    return broker


def events(*words: str) -> Ran:
    return run("pipeline", "events", *words)


@contextmanager
def follower(broker: Broker, out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Yields a process that runs `events --follow`. Its output is in the files ``out``.out and
    ``out``.err, and is complete after the block."""
    command = [sys.executable, "-m", "cli.main", "pipeline", "events", "--follow"]
    command += ["--every", "0.2", "--source", broker.bootstrap, "--out", str(out), *words]
    with open(f"{out}.err", "a") as errors, open(f"{out}.out", "a") as said:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=said, stderr=errors, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)


def has(out: Path, group: int) -> bool:
    try:
        rows = rows_of(out, "events")
    except (AssertionError, FileNotFoundError):
        # the file is absent, or was compacted during the read
        return False
    mine = [r for r in rows if r["group_id"] == f"streamed-{group}" and r["kind"] == "commit"]
    return len(mine) >= PARTITIONS


def produce(broker: Broker, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(records):
        producer.produce(TOPIC, str(number), partition=0)
    assert producer.flush(30) == 0


def test_followed_archive_grows_and_is_complete_after_ctrl_c(
    served: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    commit(served, range(3))
    with follower(served, out) as process:
        until("what was there is added", lambda: has(out, 2), within_s=120)
        commit(served, range(3, 5))
        until("new commits are added", lambda: has(out, 4), within_s=60)
    assert process.returncode == 130
    errors = Path(f"{out}.err").read_text()
    assert (
        errors == f"muster: following {served.bootstrap} into {out}; stop with Ctrl-C or SIGTERM\n"
    )
    said = Path(f"{out}.out").read_text()
    total = len(rows_of(out, "events"))
    assert said.startswith(
        f"{out}: {total} new records; the archive has {total} records; the source was read until 20"
    )
    is_the_log(served, out)


def test_repeated_events_command_appends_only_new_records(served: Broker, tmp_path: Path) -> None:
    words = ["--source", served.bootstrap, "--out", str(tmp_path)]
    commit(served, range(2))
    first = events(*words, "--json")
    assert (first.code, first.err) == (0, "")
    assert first.json["added"] == first.json["events"] >= 2 * PARTITIONS
    assert first.json["cluster_id"] == open_source(served.bootstrap).cluster_id
    again = events(*words)
    assert f"{tmp_path}: nothing new; the archive has {first.json['events']} records" in again.out
    commit(served, range(2, 3))
    third = events(*words, "--follow", "--until-now", "--json")
    assert third.json["added"] >= PARTITIONS
    is_the_log(served, tmp_path)


def test_job_with_option_follow_loses_and_duplicates_no_record_when_killed_at_random(
    served: Broker, tmp_path: Path
) -> None:
    """The process is killed with SIGKILL as soon as a randomly chosen file of the archive
    exists."""
    random, out = chance(), tmp_path / "out"
    killed = 0
    for turn in range(4):
        commit(served, range(turn * 3, turn * 3 + 3))
        produce(served, 5)
        moment = out / "events"
        if (there := load(out)) and {"events", "stretches"} <= set(there.files):
            step, table = random.choice([(0, "events"), (1, "stretches")])
            [day] = {file.folder for file in there.files[table]}
            moment = out / day / f"archive-{there.next_file + step:012d}.parquet"
        with follower(served, out) as process:
            killed += killed_at(moment, process, within_s=60)
    assert killed
    assert events("--source", served.bootstrap, "--out", str(out)).code == 0
    is_the_log(served, out)


def test_archive_has_the_times_but_not_the_content_of_topic_records(
    served: Broker, tmp_path: Path
) -> None:
    words = ["--source", served.bootstrap, "--out", str(tmp_path)]
    produce(served, 30)
    commit(served, range(1))
    events(*words)
    produce(served, 12)
    assert events(*words, "--json").json["stretches"] > 0
    rows = [row for row in rows_of(tmp_path, "stretches") if row["partition"] == 0]
    spans = sorted((r["base_offset"], r["last_offset"]) for r in rows)
    assert (30, 41) in spans
    assert max(last for _, last in spans) == 41
    covered = {n for base, last in spans for n in range(base, last + 1)}
    assert covered == set(range(42))
    grown = next(row for row in rows if row["base_offset"] == 30 and row["last_offset"] == 41)
    assert grown["first_at"] <= grown["last_at"]

    source = ArchiveSource(str(tmp_path))
    assert list(source.topics()) == [TOPIC]
    end_ms = source.end_ms()
    assert end_ms is not None
    assert grown["last_at"].timestamp() * 1000 <= end_ms
    source.close()


def test_recreated_topic_starts_at_offset_0_in_the_archive(served: Broker, tmp_path: Path) -> None:
    words = ["--source", served.bootstrap, "--out", str(tmp_path)]
    produce(served, 30)
    commit(served, range(1))
    events(*words)
    with RawConnection(served.port) as connection:
        connection.call("DeleteTopics", 4, topic_names=[TOPIC], timeout_ms=10_000)
    prepare(served)
    produce(served, 4)
    again = events(*words)
    assert again.code == 0
    assert f"topic {TOPIC} was recreated" in again.err
    rows = [row for row in rows_of(tmp_path, "stretches") if row["partition"] == 0]
    assert max(row["last_offset"] for row in rows) == 3


def test_job_with_option_follow_waits_for_an_unreachable_broker(
    served: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    commit(served, range(1))
    with follower(served, out, "--timeout", "5") as process:
        until("what was there is added", lambda: has(out, 0), within_s=60)
        served.stop()
        until(
            "it says that nobody answers",
            lambda: process.poll() is not None or AGAIN in Path(f"{out}.err").read_text(),
            within_s=60,
        )
        assert process.poll() is None, Path(f"{out}.err").read_text()
        served.start()
        commit(served, range(1, 2))
        until("it goes on", lambda: has(out, 1), within_s=120)
        until("it says so", lambda: "continuing" in Path(f"{out}.err").read_text())
    lines = Path(f"{out}.err").read_text().splitlines()
    assert (
        lines[0] == f"muster: following {served.bootstrap} into {out}; stop with Ctrl-C or SIGTERM"
    )
    # A slow machine can answer late: each failure is reported, and then each recovery.
    assert len(lines) % 2 == 1
    assert all(AGAIN in line for line in lines[1::2])
    assert set(lines[2::2]) == {"muster: a broker answers again: continuing"}
    is_the_log(served, out)


def test_option_follow_rejects_an_unreachable_broker_another_cluster_and_a_concurrent_run(
    served: Broker, brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    nobody = events("--follow", "--source", "127.0.0.1:1", "--out", str(tmp_path))
    assert (nobody.code, "no broker answers" in nobody.err) == (3, True)
    assert events("--source", served.bootstrap, "--out", str(tmp_path)).code == 0
    other = brokers({"offsets.topic.num.partitions": "3"})
    prepare(other)
    refused = events("--source", other.bootstrap, "--out", str(tmp_path))
    assert refused.code == 1
    assert "is an archive of cluster" in refused.err
    with follower(served, tmp_path):
        said = Path(f"{tmp_path}.err")
        until("it follows", lambda: "stop with Ctrl-C" in said.read_text(), within_s=60)
        locked = events("--source", served.bootstrap, "--out", str(tmp_path))
    assert "is being written by process" in locked.err


def old_store(folder: Path, rows: pa.Table) -> None:
    """Writes the files of `--follow` in an earlier version of Muster: one folder per batch, and a
    checkpoint."""
    (folder / "_events_checkpoint" / "commits").mkdir(parents=True)
    (folder / "_events_checkpoint" / "commits" / "0").write_text("v1")
    old = rows.drop_columns(["producer_id", "producer_epoch", "marker", "member_id", "details"])
    for number, first in enumerate(range(0, rows.num_rows, 40)):
        some = old.slice(first, 40)
        for partition in set(some["log_partition"].to_pylist()):
            place = folder / "events" / f"batch={number}" / f"log_partition={partition}"
            place.mkdir(parents=True)
            mask = pa.array([p == partition for p in some["log_partition"].to_pylist()])
            part = some.filter(mask).drop_columns(["log_partition"])
            pq.write_table(part, place / "part-0.snappy.parquet")


def test_table_of_events_in_the_old_layout_is_converted_to_an_archive(
    served: Broker, tmp_path: Path
) -> None:
    """An earlier version wrote the events as a table that is not an archive. `--follow` rejects
    this table, and its error names the command that converts the table to an archive. `--source`
    accepts the table."""
    commit(served, range(4))
    old, new = tmp_path / "old", tmp_path / "new"
    old_store(old, pa.Table.from_pylist(logged(served), EVENTS))
    refused = events("--follow", "--source", served.bootstrap, "--out", str(old))
    assert refused.code == 1
    assert f"--source {old} --out NEW" in refused.err
    assert not (old / "_archive.json").exists()

    read = run("pipeline", "rates", "--source", str(old), "--out", str(tmp_path / "r"), "--json")
    assert read.code == 0, read.err
    assert read.json["events"] == len(logged(served))

    taken = events("--source", str(old), "--out", str(new), "--json")
    assert (taken.code, taken.json["added"]) == (0, len(logged(served)))
    commit(served, range(4, 5))
    assert (
        events("--follow", "--until-now", "--source", served.bootstrap, "--out", str(new)).code == 0
    )
    is_the_log(served, new)


def test_overwrite_is_rejected_for_an_archive(served: Broker, tmp_path: Path) -> None:
    """In an earlier version, `all --overwrite` with Spark kept only 15 of an archive's 4,912
    records, and exited with 0."""
    words = ["--source", served.bootstrap, "--out", str(tmp_path)]
    commit(served, range(2))
    assert events(*words).code == 0
    before = places(tmp_path)
    for job in ("all", "events"):
        over = run("pipeline", job, *words, "--overwrite")
        assert over.code == 1, over.out
        assert "can't replace" in over.err
    commit(served, range(2, 3))
    assert events(*words).code == 0
    assert set(before) < set(places(tmp_path))
    is_the_log(served, tmp_path)


def test_option_follow_rejects_a_source_of_files_unless_option_until_now_is_set(
    served: Broker, tmp_path: Path
) -> None:
    commit(served, range(2))
    words = ["--source", str(served.data), "--out", str(tmp_path / "out")]
    endless = events(*words, "--follow")
    assert (endless.code, "is not a broker" in endless.err) == (2, True)
    assert events(*words, "--follow", "--until-now").code == 0
    commit(served, range(2, 3))
    more = events(*words, "--json")
    assert more.json["added"] >= PARTITIONS
    assert json.loads(more.out)["damaged"] == 0
    assert sorted(rows_of(tmp_path / "out", "events"), key=place) == logged(served)
