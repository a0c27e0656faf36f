"""Tests that both engines read an archive with damaged files, from disk and from object storage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.spark import SparkEngine
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import Options, run_job
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.open import open_source
from pipeline.storage.archive import Archive
from pipeline.storage.manifest import MANIFEST
from pipeline.storage.store import Store
from tests.pipeline.archives import DAY_MS, START_MS, commits
from tests.pipeline.object_storage import BUCKET, object_storage

pytestmark = pytest.mark.pipeline


def archive_in(folder: Path, fault: str) -> Path:
    """Makes an archive with two days of events. The file of the first day has the damage
    ``fault``."""
    with Archive.open(str(folder), "one") as archive:
        for day in range(2):
            offsets = range(2000 * day, 2000 * day + 2000)
            archive.append([commits(0, offsets, START_MS + day * DAY_MS)])
        [file, _] = archive.files("events")
    if fault == "cut":
        os.truncate(file, 99)
    else:
        data = bytearray(file.read_bytes())
        data[40:200] = bytes(160)
        file.write_bytes(data)
    os.utime(file, (0, 0))
    return folder


@pytest.mark.parametrize("fault", ["cut", "rows"])
def test_spark_reads_the_intact_files_of_a_damaged_archive(
    spark: SparkSession, tmp_path: Path, fault: str
) -> None:
    source = open_source(str(archive_in(tmp_path / "archive", fault)))
    store = Store(str(tmp_path / "tables"))

    summary = run_job(SparkEngine(spark), JOBS["commits"], source, store, Options())

    assert isinstance(source, ArchiveSource)
    assert len(source.said) == 1
    assert (summary.tables[0].rows, summary.damaged) == (2000, 1)


def test_reading_a_damaged_archive_leaves_object_storage_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = archive_in(tmp_path / "archive", "cut")
    with object_storage() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        there = fs.S3FileSystem(
            access_key="id", secret_key="secret", region="eu-west-1", scheme="http",
            endpoint_override=environment["AWS_ENDPOINT_URL"].removeprefix("http://"),
        )  # fmt: skip
        fs.copy_files(str(here), f"{BUCKET}/archive", fs.LocalFileSystem(), there)
        every = fs.FileSelector(f"{BUCKET}/archive", recursive=True)
        before = sorted((each.path, each.mtime) for each in there.get_file_info(every))
        source = open_source(f"s3://{BUCKET}/archive")
        (tmp_path / "scratch").mkdir()
        engine = DuckEngine(str(tmp_path / "scratch"))

        summary = run_job(
            engine, JOBS["commits"], source, Store(str(tmp_path / "tables")), Options()
        )

        assert isinstance(source, ArchiveSource)
        [sentence] = source.said
        assert sentence.startswith(f"s3://{BUCKET}/archive/events/day=2026-01-01/")
        assert "the file was not moved, because the source is a copy, and its 2000" in sentence
        assert (summary.tables[0].rows, summary.damaged) == (2000, 1)
        assert before == sorted((each.path, each.mtime) for each in there.get_file_info(every))

        with there.open_output_stream(f"{BUCKET}/archive/{MANIFEST}") as manifest:
            manifest.write(b'{"version": 1, "fi')
        with pytest.raises(Exception, match=rf"s3://{BUCKET}/archive/{MANIFEST} is not the manif"):
            open_source(f"s3://{BUCKET}/archive")
