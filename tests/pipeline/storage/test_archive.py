"""Tests of a growing archive: it has no duplicate rows, few files and one writer, and loses no row
after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS
from pipeline.sources.open import open_source
from pipeline.storage.archive import FILES_OF_A_DAY, READERS, Archive, due
from pipeline.storage.lock import Lock
from pipeline.storage.manifest import MANIFEST, TopicEnds, load
from tests.brokers import CHECKOUT
from tests.pipeline import dying
from tests.pipeline.archives import DAY_MS, START_MS, commits, damage, places, rows_of, stretch

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 5")]


def on_disk(folder: Path) -> set[str]:
    """Returns the paths of all Parquet files and of all files with suffix .partial below
    ``folder``."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.endswith((".parquet", ".partial"))
    }


def test_rows_are_stored_by_day_without_duplicates(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path), "a-cluster") as archive:
        first = [commits(0, range(5)), commits(1, range(3), START_MS + DAY_MS)]
        assert archive.append(first, next_offsets={0: 9}, read_until_ms=START_MS).events == 8
        assert archive.append([commits(1, range(1, 5))]).events == 2
        assert archive.append([commits(0, [8, 9])]).events == 1
    manifest = load(tmp_path)
    assert manifest is not None
    assert places(tmp_path) == [*((0, n) for n in range(5)), (0, 9), *((1, n) for n in range(5))]
    assert (manifest.cluster_id, manifest.next_offsets) == ("a-cluster", {0: 10, 1: 5})
    assert manifest.read_until_ms == START_MS
    assert {file.folder for file in manifest.files["events"]} == {
        "events/day=2026-01-01", "events/day=2026-01-02"
    }  # fmt: skip
    assert on_disk(tmp_path) == manifest.live()


def test_archive_stores_rows_without_a_valid_timestamp(tmp_path: Path) -> None:
    odd = commits(0, range(2)).to_pylist()
    odd[0]["written_at"] = None
    wild = commits(0, [2]).to_pylist()[0] | {"written_at": None}
    table = pa.Table.from_pylist([*odd, wild], EVENTS)
    far = pa.array([None, 1 << 61, -(1 << 61)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.schema.get_field_index("written_at"), "written_at", far)
    with Archive.open(str(tmp_path)) as archive:
        archive.append(table.to_batches())
        [file] = archive.files("events")
    kept = pq.read_table(file, partitioning=None)
    assert kept.column("log_offset").to_pylist() == [0, 1, 2]
    assert kept.column("written_at").equals(table.column("written_at"))
    assert [path.name for path in (tmp_path / "events").iterdir()] == [
        "day=__HIVE_DEFAULT_PARTITION__"
    ]


def test_damaged_records_are_quarantined_once_and_intact_copies_are_added_later(
    tmp_path: Path,
) -> None:
    def quarantined() -> list[int]:
        return sorted(row["log_offset"] for row in rows_of(tmp_path, "quarantine"))

    with Archive.open(str(tmp_path)) as archive:
        came = archive.append([commits(0, [0]), damage(0, 1), commits(0, [4]), damage(0, 5)])
        assert (came.events, came.damaged) == (4, 2)
        assert quarantined() == [1, 5]
        assert archive.append([commits(0, [4]), damage(0, 5)]).events == 0
        archive.append([commits(0, [4, 5, 6])])
    assert quarantined() == [1, 5]
    assert places(tmp_path) == [(0, n) for n in (0, 1, 4, 5, 5, 6)]


def test_archive_keeps_few_files_of_a_day_during_polls_and_merges_them_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test makes 1,000 polls in virtual time. Each poll adds rows."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    read = 0
    written = 0
    with Archive.open(str(tmp_path)) as archive:
        for poll in range(1000):
            at_ms = START_MS + poll * 86_000
            before = archive.manifest.live()
            archive.append(
                [commits(0, range(read, read + 1 + poll % 3), at_ms)],
                stretches=[stretch(poll, poll, at_ms)],
                read_until_ms=at_ms,
            )
            read += 1 + poll % 3
            manifest = archive.manifest
            for table in ("events", "stretches"):
                assert len(manifest.files[table]) <= FILES_OF_A_DAY
            written += sum(
                file.rows for file in manifest.files["events"] if file.path not in before
            )
        assert written < 6 * read, "a row is written a few times"
        assert on_disk(tmp_path) == manifest.live()
        archive.append([commits(0, [read], START_MS + DAY_MS)], read_until_ms=START_MS + DAY_MS + 1)
        assert len(archive.files("events")) == 2
        assert len(archive.files("stretches")) == 1
    assert places(tmp_path) == [(0, n) for n in range(read + 1)]


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([1] * 11, 0),
        ([1] * 12, 12),
        ([12] + [1] * 11, 11),
        ([1000, 900, 800, 700, 600, 500, 400, 300, 200, 100, 50, 1], 2),
    ],
)
def test_archive_merges_its_newest_files_until_the_next_older_file_is_larger_than_the_sum(
    rows: list[int], count: int
) -> None:
    assert due(rows) == count


def test_many_rows_are_appended_in_several_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.storage.archive.ROWS_OF_A_COMMIT", 10)

    def batches() -> Iterable[pa.RecordBatch]:
        for first in range(0, 40, 5):
            yield commits(0, range(first, first + 5))
        raise ConnectionError

    with Archive.open(str(tmp_path)) as archive, pytest.raises(ConnectionError):
        archive.append(batches())
    assert places(tmp_path) == [(0, n) for n in range(40)]
    assert on_disk(tmp_path) == archive.manifest.live()


def test_append_with_forgotten_topics_removes_their_old_stretches_and_end_offsets(
    tmp_path: Path,
) -> None:
    ends = {name: TopicEnds(None, {0: 5}, START_MS) for name in ("orders", "bills")}
    with Archive.open(str(tmp_path)) as archive:
        both = pa.concat_tables([stretch(0, 4), stretch(0, 4, topic="bills")])
        archive.append([], stretches=[both], topics=ends)
        archive.append([], stretches=[stretch(0, 1)], forgotten=["orders"])
    assert sorted((row["topic"], row["last_offset"]) for row in rows_of(tmp_path, "stretches")) == [
        ("bills", 4), ("orders", 1)
    ]  # fmt: skip
    assert set(archive.manifest.topics) == {"bills"}
    assert on_disk(tmp_path) == archive.manifest.live()


def test_replaced_files_of_an_archive_are_kept_while_a_reader_uses_them(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path)) as archive:
        archive.append([commits(0, [0])])
        archive.append([commits(0, [1])])
        reader = Lock.shared(tmp_path / READERS)
        assert reader is not None
        old = archive.files("events")
        archive.compact()
        assert len(archive.files("events")) == 1
        assert all(file.exists() for file in old)
        reader.release()
        archive.append([commits(0, [2])])
    assert on_disk(tmp_path) == archive.manifest.live()


def test_second_writer_of_an_archive_is_rejected_with_the_name_of_the_first_writer(
    tmp_path: Path,
) -> None:
    named = f"being written by process {os.getpid()} on"
    with Archive.open(str(tmp_path)), pytest.raises(PipelineError, match=named):
        Archive.open(str(tmp_path))
    Archive.open(str(tmp_path)).close()


def test_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    holder = (
        "import sys, os, signal; from pipeline.storage.archive import Archive;"
        " a = Archive.open(sys.argv[1]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", holder, str(tmp_path)], cwd=CHECKOUT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert "process" in (tmp_path / ".archive.lock").read_text()
    Archive.open(str(tmp_path)).close()


def test_archive_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    Archive.open(str(tmp_path / "whole"), "one").close()
    with pytest.raises(PipelineError, match=r"archive of cluster one.*source is cluster other"):
        Archive.open(str(tmp_path / "whole"), "other")
    Archive.open(str(tmp_path / "whole"), None).close()


@pytest.mark.parametrize(
    ("file", "archived", "said"),
    [
        ("events/batch=0/log_partition=3/part-0.parquet", False, "earlier version.*--source .*NEW"),
        ("events/part-00000.parquet", False, "which is not part of an archive"),
        ("quarantine/part-00000.parquet", False, "which is not part of an archive"),
        ("events/part-00000.parquet", True, "which is not part of the archive"),
        ("events/batch=7/part-0.parquet", True, "which is not part of the archive"),
        (
            "events/day=2026-01-01/archive-000000000001.parquet",
            False,
            "which is not part of an archive",
        ),
    ],
)
def test_archive_refuses_a_folder_with_other_files_and_keeps_these_files(
    tmp_path: Path, file: str, archived: bool, said: str
) -> None:
    if archived:
        Archive.open(str(tmp_path)).close()
    (tmp_path / file).parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([commits(0, range(3))]), tmp_path / file)
    with pytest.raises(PipelineError, match=said):
        Archive.open(str(tmp_path))
    assert (tmp_path / file).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not the manifest of an archive"),
        ("[]", "not the manifest of an archive"),
        ('{"version": 1}', "not the manifest of an archive"),
        ('{"version": 9}', "a later version of Muster wrote"),
    ],
)
def test_invalid_manifest_is_rejected(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(PipelineError, match=said):
        Archive.open(str(tmp_path))


def test_archive_with_files_of_other_programs_is_readable_but_not_writable(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path)) as archive:
        archive.append([commits(0, range(3))])
    pq.write_table(pa.Table.from_batches([commits(0, range(9))]), tmp_path / "events" / "x.parquet")
    with pytest.raises(PipelineError, match="which is not part of the archive"):
        Archive.open(str(tmp_path))
    source = open_source(str(tmp_path))
    assert source.records_estimate() == 3
    assert source.event_files() == [str(file) for file in archive.files("events")]


def test_error_names_the_missing_file_of_an_archive(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path)) as archive:
        archive.append([commits(0, [0])])
        [file] = archive.files("events")
    file.unlink()
    with pytest.raises(PipelineError, match=f"{file.name} is missing"):
        Archive.open(str(tmp_path))


def test_error_names_the_unwritable_archive_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="can't be written"):
        Archive.open(str(tmp_path / "file"))


GROWING = """
import sys
from pathlib import Path
from pipeline.storage import archive as store
from pipeline.storage.archive import Archive
from tests.pipeline import dying
from tests.pipeline.archives import DAY_MS, START_MS, commits, damage, stretch

store.FILES_OF_A_DAY = 3


def grow(folder):
    with Archive.open(folder, "a-cluster") as archive:
        while (done := archive.manifest.next_offsets.get(0, 0)) < 5:
            at_ms = START_MS + (DAY_MS if done >= 4 else 0)
            batches = [commits(1, [done], at_ms), commits(0, [done], at_ms)]
            if done == 2:
                batches.insert(0, damage(2, 2, at_ms))
            archive.append(
                batches,
                stretches=[stretch(done, done, at_ms)],
                forgotten=["orders"] if done == 3 else (),
                read_until_ms=at_ms,
            )


dying.everywhere(grow, sys.argv[1])
"""


def test_archive_is_complete_after_a_restart_when_killed_at_any_step(tmp_path: Path) -> None:
    """The test kills a child process with SIGKILL before each of its changes to the disk, and then
    restarts the process."""
    subprocess.run([sys.executable, "-c", GROWING, str(tmp_path)], cwd=CHECKOUT, check=True)
    [whole, *killed] = sorted(tmp_path.iterdir())
    assert len(killed) > 60, "killed at many places"
    tables = {table: rows_of(whole, table) for table in ("events", "stretches", "quarantine")}
    assert len(tables["events"]) == 11
    assert len(tables["stretches"]) == 2
    for folder in killed:
        for table, rows in tables.items():
            assert sorted(map(json_of, rows_of(folder, table))) == sorted(map(json_of, rows))
        manifest = load(folder)
        assert manifest is not None
        assert on_disk(folder) == manifest.live(), folder
        assert dying.died(folder) > 0


def json_of(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)
