"""Tests of an archive with damaged files. These files are moved to `quarantine/` and reported, and
all other files are read."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import PipelineError
from pipeline.model.events import DAMAGED
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.source import TimesAsked
from pipeline.storage.archive import Archive
from pipeline.storage.day_files import TABLES
from pipeline.storage.lock import Lock
from pipeline.storage.manifest import MANIFEST, TopicEnds, load
from pipeline.storage.set_aside import settle
from tests.brokers import CHECKOUT
from tests.cli.running import run
from tests.pipeline.archives import DAY_MS, START_MS, commits, places, rows_of, stretch

Damage = Callable[[Path], object]


def flip(file: Path) -> None:
    """Damages the rows of a Parquet file. The header and the footer stay intact."""
    data = bytearray(file.read_bytes())
    for place in range(40, min(200, len(data) // 3)):
        data[place] ^= 0x5A
    file.write_bytes(data)


def other_columns(file: Path) -> None:
    pq.write_table(pa.table({"log_partition": ["a"], "log_offset": [1], "kind": ["x"]}), file)


def fewer_rows(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.slice(1), file)


SHALLOW: dict[str, tuple[Damage, str]] = {
    "cut": (lambda file: os.truncate(file, file.stat().st_size // 2), "is truncated"),
    "cut in the footer": (lambda file: os.truncate(file, file.stat().st_size - 3), "is truncated"),
    "empty": (lambda file: os.truncate(file, 0), "is empty"),
    "three bytes": (lambda file: file.write_bytes(b"PAR"), "is not a Parquet file"),
    "garbage": (lambda file: file.write_bytes(b"\x07" * 999), "is not a Parquet file"),
    "garbage between": (
        lambda file: file.write_bytes(
            b"PAR1" + b"\x07" * 99 + (90).to_bytes(4, "little") + b"PAR1"
        ),
        "has a damaged footer",
    ),
    "other columns": (other_columns, "has no column log_partition of type int32; another"),
    "fewer rows": (fewer_rows, "has 1999 rows instead of 2000"),
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Returns an archive with events of three days and two partitions, and with stretches of each
    day."""
    where = tmp_path / "archive"
    with Archive.open(str(where), "one") as growing:
        for day in range(3):
            at_ms = START_MS + day * DAY_MS
            growing.append(
                [commits(0, range(2000 * day, 2000 * day + 2000), at_ms)],
                next_offsets={1: 0},
                stretches=[stretch(10 * day, 10 * day + 9, at_ms)],
                topics={"orders": TopicEnds(None, {0: 10 * day + 10}, at_ms)},
                read_until_ms=at_ms + 1,
            )
    return where


@pytest.fixture(autouse=True)
def old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all files count as old. An archive does not quarantine a recently changed file, because
    it can be an unfinished copy."""
    monkeypatch.setattr("pipeline.storage.set_aside.YOUNG_S", -1e9)


def live(where: Path, table: str, nth: int) -> Path:
    manifest = load(where)
    assert manifest is not None
    return where / manifest.files[table][nth].path


def moved(where: Path) -> list[str]:
    return sorted(path.name for path in (where / "quarantine").glob("*.damaged"))


def offsets(where: Path) -> list[int]:
    return [row["log_offset"] for row in rows_of(where, "events") if row["kind"] != DAMAGED]


@pytest.mark.parametrize("kind", SHALLOW)
@pytest.mark.parametrize("opened", [ArchiveSource, Archive.open])
def test_damaged_file_is_quarantined_and_the_other_files_are_read(
    archive: Path, kind: str, opened: Callable[[str], ArchiveSource | Archive]
) -> None:
    damage, fault = SHALLOW[kind]
    file = live(archive, "events", 1)
    path = str(file.relative_to(archive))
    damage(file)
    damaged = file.read_bytes()

    first = opened(str(archive))
    first.close()
    again = opened(str(archive))
    again.close()

    [sentence] = first.said
    assert sentence.startswith(f"{archive}/{path} is damaged (it {fault}")
    assert f"moved to {archive}/quarantine/_{file.name}.damaged, and its 2000 rows" in sentence
    assert again.said == []
    assert moved(archive) == [f"_{file.name}.damaged"]
    assert (archive / "quarantine" / moved(archive)[0]).read_bytes() == damaged
    assert offsets(archive) == [*range(2000), *range(4000, 6000)]


def test_rows_of_a_truncated_file_are_replaced_by_damaged_rows(archive: Path) -> None:
    """For each partition with lost rows, the source returns one row of the kind DAMAGED. The row
    has the offset at which the lost rows may begin: the offset after the last intact row of the
    partition."""
    for table in ("events", "stretches"):
        os.truncate(live(archive, table, 1), 9)

    source = ArchiveSource(str(archive))

    assert len(source.said) == 2
    tables = [pq.read_table(file, partitioning=None) for file in source.event_files()]
    lost = [row for rows in tables for row in rows.to_pylist() if row["kind"] == DAMAGED]
    assert [(row["log_partition"], row["log_offset"]) for row in lost] == [(0, 2000), (1, 0)]
    assert {row["damage"]["reason"] for row in lost} == {"The file is truncated."}
    parts = source.stretch_parts(TimesAsked(["orders"], START_MS))
    found = [row for part in parts for batch in part.read() for row in batch.to_pylist()]
    spans = {(row["base_offset"], row["last_offset"]): row["last_at"] for row in found}
    assert sorted(spans) == [(0, 9), (10, 19), (20, 29), (30, 29)]
    assert spans[10, 19] is None, "when they were written is not known any more"
    quarantine = pq.read_table(archive / "quarantine").to_pylist()
    assert {row["reason"] for row in quarantine} == {"The file is truncated."}
    assert len(quarantine) == 2


@pytest.mark.parametrize("opened", [ArchiveSource, Archive.open])
def test_restored_intact_copy_of_a_damaged_file_is_used_again(
    archive: Path,
    opened: Callable[[str], ArchiveSource | Archive],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = live(archive, "events", 1)
    copy = file.read_bytes()
    before = load(archive)
    os.truncate(file, 9)
    opened(str(archive)).close()
    monkeypatch.setattr("pipeline.storage.set_aside.YOUNG_S", 10.0)
    file.write_bytes(copy[:-1])
    half = opened(str(archive))
    half.close()
    [sentence] = half.said
    assert f"{file} is damaged (it is truncated): the file was not moved, because" in sentence
    assert file.exists(), "it may be on its way"
    assert len(offsets(archive)) == 4000

    file.write_bytes(copy)
    healed = opened(str(archive))
    healed.close()

    assert healed.said == [f"{file} is intact again and will be read"]
    Archive.open(str(archive)).close()
    assert sorted(offsets(archive)) == list(range(6000))
    after = load(archive)
    assert before is not None
    assert after is not None
    assert (after.live(), after.set_aside) == (before.live(), ())
    assert rows_of(archive, "quarantine") == []
    there = {str(path.relative_to(archive)) for path in archive.rglob("*.parquet")}
    assert there == after.live(), "what stood in for it is gone"


def test_recently_changed_file_is_quarantined_later(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recently changed file can be a copy that is still being written."""
    monkeypatch.setattr("pipeline.storage.set_aside.YOUNG_S", 10.0)
    file = live(archive, "events", 1)
    os.truncate(file, 9)

    first = ArchiveSource(str(archive))
    first.close()
    os.utime(file, ns=(0, file.stat().st_mtime_ns - 11 * 10**9))
    Archive.open(str(archive)).close()

    [sentence] = first.said
    assert "not moved, because it has just changed and may not be complete yet" in sentence
    assert len(first.event_files()) == 3
    assert moved(archive) == [f"_{file.name}.damaged"]
    assert len(offsets(archive)) == 4000


@pytest.mark.parametrize("opened", [ArchiveSource, Archive.open])
def test_second_damaged_copy_of_a_file_is_quarantined_under_a_new_name(
    archive: Path, opened: Callable[[str], ArchiveSource | Archive]
) -> None:
    file = live(archive, "events", 1)
    copy = file.read_bytes()
    names = [f"_{file.name}.{end}" for end in ("damaged", "2.damaged", "3.damaged")]
    for nth, name in enumerate(names):
        file.write_bytes(copy[: 900 + nth])
        reader = opened(str(archive))
        reader.close()

        [sentence] = reader.said
        assert sentence.startswith(f"{file} is damaged (it is truncated): the file was moved to")
        assert f"{archive}/quarantine/{name}, and its 2000 rows" in sentence
        assert not file.exists()
    assert moved(archive) == sorted(names)
    sizes = [(archive / "quarantine" / name).stat().st_size for name in names]
    assert sizes == [900, 901, 902]
    assert offsets(archive) == [*range(2000), *range(4000, 6000)]


def test_run_continues_after_it_finds_damage_while_reading(archive: Path, tmp_path: Path) -> None:
    file = live(archive, "events", 1)
    flip(file)
    words = ["pipeline", "commits", "--source", str(archive), "--no-topics", "--json"]

    first = run(*words, "--out", str(tmp_path / "first"))
    again = run(*words, "--out", str(tmp_path / "again"), "--fail-on-damage")

    assert (first.code, again.code) == (0, 4), first.err
    assert first.json["tables"][0]["rows"] == again.json["tables"][0]["rows"] == 4000
    assert first.json["damaged"] == 2, "of each partition of the log"
    assert f"{archive}/{file.relative_to(archive)} is damaged (it has damaged rows (" in first.err
    assert "was moved to" not in again.err
    assert moved(archive) == [f"_{file.name}.damaged"]


def test_compare_and_restore_report_damaged_files_of_the_archive(
    archive: Path, tmp_path: Path
) -> None:
    from datetime import UTC, datetime

    from pipeline.engines.duck import DuckEngine
    from pipeline.repairs.restore import as_of

    flip(live(archive, "events", 1))
    spans = ["--first", "2026-01-01/1d", "--second", "2026-01-03/1d"]
    copy = tmp_path / "copy"
    shutil.copytree(archive, copy)

    compared = run("pipeline", "compare", "--source", str(archive), "--no-topics", *spans)
    source = ArchiveSource(str(copy))
    then = as_of(DuckEngine(str(tmp_path)), source, datetime(2026, 2, 1, tzinfo=UTC))

    assert compared.code == 0, compared.err
    assert "is damaged (it has damaged rows" in compared.err
    [held] = then.values()
    assert (held.position and held.position.offset, held.log_damaged) == (5999, True)
    assert len(moved(archive)) == len(moved(copy)) == len(source.said) == 1


def test_copying_a_damaged_archive_fails_once_and_succeeds_in_the_second_run(
    archive: Path, tmp_path: Path
) -> None:
    flip(live(archive, "events", 1))
    words = ["pipeline", "events", "--source", str(archive), "--out", str(tmp_path / "new")]

    first, again = run(*words), run(*words)

    assert (first.code, again.code) == (1, 0), first.err + again.err
    assert "has damaged files: run the command again; the next run leaves these" in first.err
    assert "is damaged (it has damaged rows" in first.err
    assert (
        len([row for row in rows_of(tmp_path / "new", "events") if row["kind"] == "commit"]) == 4000
    )


def test_writer_quarantines_a_damaged_file_and_continues(archive: Path) -> None:
    with Archive.open(str(archive)) as growing:
        flip(live(archive, "stretches", 2))
        growing.append([commits(0, [6000], START_MS)], forgotten=["orders"])
        flip(live(archive, "events", 0))
        growing.append([commits(0, [6001], START_MS)])
        growing.compact()
        stretches, events = growing.said
    assert "/stretches/" in stretches
    assert "/events/" in events
    assert rows_of(archive, "stretches") == [], "of a topic that was made again"
    assert sorted(offsets(archive)) == [*range(2000, 6002)]


def test_reader_does_not_move_damaged_files_while_a_writer_is_active(archive: Path) -> None:
    file = live(archive, "events", 1)
    with Archive.open(str(archive)) as growing:
        os.truncate(file, 9)
        reader = ArchiveSource(str(archive))
        rows = pa.concat_tables(
            pq.read_table(each, partitioning=None) for each in reader.event_files()
        )
        assert growing.files("events")[1] == file
    [sentence] = reader.said
    assert f"not moved, because {archive} is being written by process {os.getpid()}" in sentence
    assert file.exists()
    kinds = rows["kind"].to_pylist()
    assert (kinds.count("commit"), kinds.count(DAMAGED)) == (4000, 2)
    assert reader.set_aside() is False, "there is no more"


def test_reader_continues_when_another_reader_has_quarantined_a_file(archive: Path) -> None:
    reader = ArchiveSource(str(archive))
    flip(live(archive, "events", 1))
    manifest = load(archive)
    assert manifest is not None
    assert settle(archive, manifest, TABLES) is not None

    assert reader.set_aside()
    assert [Path(file).exists() for file in reader.event_files()] == [True, True, True]
    assert reader.said == []


@contextmanager
def read_only(archive: Path) -> Iterator[Path]:
    """Yields a copy of the archive that this process can read but not write, even as root."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    where = folder / "archive"
    shutil.copytree(archive, where)
    folder.chmod(0o755)
    for path in (where, *where.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield where
    finally:
        if is_root:
            os.seteuid(0)
        for path in (where, *where.rglob("*")):
            path.chmod(0o755)
        shutil.rmtree(folder)


def test_read_only_archive_is_read_and_unchanged(archive: Path) -> None:
    os.truncate(live(archive, "events", 1), 9)
    with read_only(archive) as where:
        before = sorted((str(path), path.stat().st_mtime_ns) for path in where.rglob("*"))

        reader = ArchiveSource(str(where))

        [sentence] = reader.said
        assert f"not moved, because {where} can't be written (Permission denied)" in sentence
        assert len(reader.event_files()) == 3
        assert before == sorted((str(path), path.stat().st_mtime_ns) for path in where.rglob("*"))


def test_damaged_copy_in_a_read_only_archive_is_reported(archive: Path) -> None:
    """A run moved a damaged file to the quarantine. The copy that was then put in its place is
    damaged too."""
    file = live(archive, "events", 1)
    os.truncate(file, 9)
    Archive.open(str(archive)).close()
    file.write_bytes(b"PAR1 and no more")
    os.utime(file, (0, 0))
    with read_only(archive) as where:
        reader = ArchiveSource(str(where))

        [sentence] = reader.said
        assert f"{where / file.relative_to(archive)} is damaged (it is truncated): " in sentence
        assert f"not moved, because {where} can't be written (Permission denied)" in sentence
        assert sentence.endswith("until an intact copy is put back")
        assert reader.event_files()


@pytest.mark.parametrize("opened", [ArchiveSource, Archive.open])
def test_file_without_read_permission_is_not_quarantined(
    archive: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[str], object]
) -> None:
    file = live(archive, "events", 1)
    before = file.stat()
    real = Path.open

    def opens(path: Path, *args: object, **named: object) -> object:
        if path == file:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", opens)
    with pytest.raises(
        PipelineError, match=r"can't be read \(Permission denied\): nothing was mov"
    ):
        opened(str(archive))
    monkeypatch.undo()
    assert (file.stat().st_ino, stat.S_ISREG(file.stat().st_mode)) == (before.st_ino, True)
    assert moved(archive) == []
    assert places(archive)


def test_error_of_an_archive_reader_names_a_missing_file(archive: Path) -> None:
    live(archive, "events", 1).unlink()
    with pytest.raises(PipelineError, match=r"is missing, but _archive.json lists it: restore the"):
        ArchiveSource(str(archive))


def test_reader_releases_the_writer_lock_after_quarantining_files(archive: Path) -> None:
    os.truncate(live(archive, "events", 1), 9)
    reader = ArchiveSource(str(archive))
    Lock.alone(archive / ".archive.lock").release()
    reader.close()


def test_manifest_without_the_list_of_quarantined_files_is_accepted(archive: Path) -> None:
    import json

    said = json.loads((archive / MANIFEST).read_text())
    del said["set_aside"]
    (archive / MANIFEST).write_text(json.dumps(said))
    manifest = load(archive)
    assert manifest is not None
    assert manifest.set_aside == ()


SETTLING = """
import os
import sys
from pathlib import Path
from pipeline.storage import set_aside
from pipeline.storage.archive import Archive
from tests.pipeline import dying
from tests.pipeline.archives import DAY_MS, START_MS, commits, stretch

set_aside.YOUNG_S = -1e9


def settled(folder):
    first = not (Path(folder) / "_archive.json").exists()
    if first:
        with Archive.open(folder, "one") as archive:
            for day in range(2):
                at_ms = START_MS + day * DAY_MS
                archive.append([commits(0, [day], at_ms)], stretches=[stretch(day, day, at_ms)])
    for name in ("events", "stretches"):
        for file in (Path(folder) / name).rglob("archive-*.parquet"):
            ours = "01-01" in str(file) and int(file.name[8:20]) <= 4
            if ours and not (Path(folder) / ".cut" / file.name).exists():
                (Path(folder) / ".cut").mkdir(exist_ok=True)
                (Path(folder) / ".cut" / file.name).touch()
                os.truncate(file, 9)
    Archive.open(folder).close()


dying.everywhere(settled, sys.argv[1])
"""


@pytest.mark.pipeline
def test_archive_is_intact_when_a_process_was_killed_while_it_quarantined_files(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", SETTLING, str(tmp_path)], cwd=CHECKOUT, check=True)
    for folder in sorted(tmp_path.iterdir()):
        Archive.open(str(folder)).close()
        manifest = load(folder)
        assert manifest is not None
        files = {
            str(path.relative_to(folder))
            for path in folder.rglob("*.parquet")
            if path.parent.name != ".cut"
        }
        assert files == manifest.live(), folder
