"""Tests of tables as Parquet, Delta and Iceberg, in folders and in object storage. Other libraries
can read the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.table import StaticTable

from pipeline.engines.duck import DuckEngine
from pipeline.engines.files import LocalFiles
from pipeline.errors import PipelineError
from pipeline.model.tables import COMMITS
from pipeline.run.catalog import JOBS, Job
from pipeline.run.collect import archive_in, collect
from pipeline.run.jobs import Options, Summary, run_job
from pipeline.run.output_location import store_of
from pipeline.sources.open import open_feed, open_source
from pipeline.sources.source import Source
from pipeline.storage import s3
from pipeline.storage.formats import ICEBERG_HINT
from tests.pipeline.given import GivenSource, committed
from tests.pipeline.object_storage import BUCKET, object_storage
from tests.pipeline.relations import stretch
from tests.pipeline.small_logs import small_history

FORMATS = ("parquet", "delta", "iceberg")
KEPT = Job("kept", "tables of each other", ("events", "stretches", "commits"))
A_DAY = 86_400


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with object_storage() as environment:
        yield environment


@pytest.fixture(params=["folder", "object storage"])
def out(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    storage: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Returns the folder or the URL to which the tables are written."""
    if request.param == "folder":
        return str(tmp_path / "out")
    for name, value in storage.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    number = iter(range(100))

    def run(
        source: Source, out: str, form: str | None = None, job: Job = KEPT, **options: Any
    ) -> Summary:
        scratch = tmp_path / f"scratch-{next(number)}"
        scratch.mkdir()
        engine = DuckEngine(str(scratch))
        return run_job(engine, job, source, store_of(out, engine, form), Options(**options))

    return run


def history(*offsets: int) -> GivenSource:
    """Returns a history with one commit per offset, on two days."""
    return GivenSource(
        [committed(number * A_DAY // 2, "g", offset) for number, offset in enumerate(offsets)],
        [stretch(0, 0, 100), stretch(A_DAY, 101, 200)],
    )


def read_back(form: str, place: str) -> pa.Table:
    """Reads a table with the reference library of its format."""
    if form == "delta":
        options = s3.Settings.of_environment().delta_options() if s3.is_s3(place) else None
        return DeltaTable(place, storage_options=options).to_pyarrow_table()
    if form == "iceberg":
        properties = s3.Settings.of_environment().iceberg_properties() if s3.is_s3(place) else {}
        return StaticTable.from_metadata(place, properties).scan().to_arrow()
    storage = s3.Settings.of_environment().file_system() if s3.is_s3(place) else None
    return ds.dataset(
        s3.key_of(place),
        pa.schema(list(COMMITS)),
        filesystem=storage,
        format="parquet",
        partitioning="hive",
    ).to_table()


def offsets_in(commits: pa.Table) -> list[int]:
    found = duckdb.sql("SELECT committed_offset FROM commits ORDER BY log_offset").fetchall()
    return [row[0] for row in found]


@pytest.mark.campaign
@pytest.mark.parametrize("form", FORMATS)
def test_tables_are_readable_by_the_library_of_their_format(run: Any, out: str, form: str) -> None:
    summary = run(history(10, 40, 30), out, form)

    assert {made.name: made.rows for made in summary.tables} == {
        "events": 3, "stretches": 2, "commits": 3
    }  # fmt: skip
    commits = read_back(form, f"{out}/commits")
    assert offsets_in(commits) == [10, 40, 30]
    assert set(commits.schema.names) == set(COMMITS.names)
    assert len(set(commits["day"].to_pylist())) == 2
    assert commits.schema.field("committed_at").type == pa.timestamp("us", "UTC")


@pytest.mark.campaign
@pytest.mark.parametrize("form", FORMATS)
def test_table_is_replaced_only_with_overwrite(run: Any, out: str, form: str) -> None:
    run(history(10, 40), out, form)
    with pytest.raises(PipelineError, match="already has events, stretches, commits"):
        run(history(7), out, form)
    assert offsets_in(read_back(form, f"{out}/commits")) == [10, 40]

    run(history(7, 8, 9), out, form, overwrite=True)
    assert offsets_in(read_back(form, f"{out}/commits")) == [7, 8, 9]


@pytest.mark.campaign
def test_previous_versions_are_kept_in_delta_and_iceberg(run: Any, tmp_path: Path) -> None:
    out = str(tmp_path)
    for offsets in ((10, 40), (7,)):
        run(history(*offsets), f"{out}/delta", "delta", overwrite=True)
        run(history(*offsets), f"{out}/iceberg", "iceberg", overwrite=True)

    delta = DeltaTable(f"{out}/delta/commits")
    assert delta.version() == 1
    delta.load_as_version(0)
    assert offsets_in(delta.to_pyarrow_table()) == [10, 40]
    iceberg = StaticTable.from_metadata(f"{out}/iceberg/commits")
    first = iceberg.snapshots()[0].snapshot_id
    assert offsets_in(iceberg.scan(snapshot_id=first).to_arrow()) == [10, 40]
    assert offsets_in(iceberg.scan().to_arrow()) == [7]


@pytest.mark.campaign
@pytest.mark.parametrize("form", FORMATS)
def test_written_tables_are_accepted_as_source(
    run: Any, out: str, form: str, tmp_path: Path
) -> None:
    run(history(10, 40, 30), out, form)

    summary = run(open_source(out), str(tmp_path / "again"), job=JOBS["commits"])

    assert summary.events == 3
    commits = read_back("parquet", str(tmp_path / "again" / "commits"))
    assert offsets_in(commits) == [10, 40, 30]
    assert commits["advanced_s"].null_count < 3, "the topic's own times were read too"


@pytest.mark.campaign
@pytest.mark.parametrize("form", FORMATS)
def test_empty_history_makes_empty_tables(run: Any, out: str, form: str) -> None:
    run(GivenSource([], []), out, form)
    assert read_back(form, f"{out}/commits").num_rows == 0
    assert run(open_source(out), f"{out}/again", form, JOBS["commits"]).events == 0


def test_existing_table_format_is_kept_and_another_format_is_rejected(
    run: Any, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    run(history(10), out, "delta")
    run(history(20), out, overwrite=True)
    assert offsets_in(read_back("delta", f"{out}/commits")) == [20]
    for form in ("parquet", "iceberg"):
        with pytest.raises(PipelineError, match="has the format delta, not"):
            run(history(30), out, form, overwrite=True)
        with pytest.raises(
            PipelineError, match=f"the format delta, not {form}: leave out --format"
        ):
            # views.sql has the tables of one format only
            run(history(30), out, form, JOBS["rates"])
    assert not (tmp_path / "out" / "rates").exists()
    assert offsets_in(read_back("delta", f"{out}/commits")) == [20]


@pytest.mark.campaign
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_run_killed_before_publishing_leaves_tables_unchanged(
    run: Any, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    run(history(10, 40), out, form)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def killed_at_the_hint(files: LocalFiles, path: str, text: str) -> None:
        if path.endswith(ICEBERG_HINT):
            raise KeyboardInterrupt
        write_text(files, path, text)

    write_text = LocalFiles.write_text
    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "write_text", killed_at_the_hint)
        patched.setattr("pipeline.storage.delta.write_deltalake", killed)
        with pytest.raises(KeyboardInterrupt):
            run(history(7), out, form, overwrite=True)
    assert offsets_in(read_back(form, f"{out}/commits")) == [10, 40]

    run(history(7), out, form)  # the unfinished run left a mark, so this run may replace its tables
    assert offsets_in(read_back(form, f"{out}/commits")) == [7]


@pytest.mark.campaign
def test_previous_table_in_object_storage_is_intact_when_its_replacement_is_interrupted(
    run: Any, tmp_path: Path, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in storage.items():
        monkeypatch.setenv(name, value)
    out = f"s3://{BUCKET}/{tmp_path.name}"
    run(history(10, 40), out, "parquet")
    sent: list[str] = []
    send = "pipeline.storage.s3_parquet._send"

    def killed(path: str, *more: Any) -> None:
        if sent:
            raise KeyboardInterrupt
        sent.append(path)
        original(path, *more)

    original = __import__("pipeline.storage.s3_parquet").storage.s3_parquet._send
    with monkeypatch.context() as patched:
        patched.setattr(send, killed)
        with pytest.raises(KeyboardInterrupt):
            run(history(7), out, overwrite=True, job=JOBS["commits"])
    assert run(open_source(out), str(tmp_path / "again"), job=JOBS["commits"]).events == 2

    run(history(7), out, overwrite=True)
    objects = s3.Settings.of_environment().file_system()
    left = objects.get_file_info(fs.FileSelector(f"{s3.key_of(out)}/commits", recursive=True))
    assert len([each for each in left if each.path.endswith(".parquet")]) == 1


def test_archive_in_object_storage_is_accepted_as_source(
    run: Any, tmp_path: Path, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in storage.items():
        monkeypatch.setenv(name, value)
    archive, url = tmp_path / "archive", f"s3://{BUCKET}/{tmp_path.name}"
    with pytest.raises(PipelineError, match="has no table events and is not an archive"):
        open_source(url)
    log = str(small_history(tmp_path / "log"))
    with closing(open_feed(log)) as feed, archive_in(str(archive), "one") as growing:
        collect(feed.look(), growing)
    (archive / "events" / "left-over.parquet").write_bytes(b"no manifest names it")
    fs.copy_files(
        str(archive),
        s3.key_of(url),
        source_filesystem=fs.LocalFileSystem(),
        destination_filesystem=s3.Settings.of_environment().file_system(),
    )

    source = open_source(url)

    assert (source.where, source.cluster_id, source.records_estimate()) == (url, "one", 2)
    assert run(source, str(tmp_path / "out"), job=JOBS["commits"]).events == 2
    assert offsets_in(read_back("parquet", str(tmp_path / "out" / "commits"))) == [10, 40]


def test_object_storage_endpoint_without_scheme_is_rejected() -> None:
    with pytest.raises(
        PipelineError, match="AWS_ENDPOINT_URL=here:9000: the URL must begin with http"
    ):
        s3.Settings.of_environment({"AWS_ENDPOINT_URL": "here:9000"})
    settings = s3.Settings.of_environment(
        {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "https://b"}
    )
    assert settings.endpoint == "https://b"


def test_unreachable_object_storage_is_reported(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(PipelineError, match=r"reached; check AWS_ENDPOINT_URL.*Could not connect"):
        run(history(7), "s3://bucket/there")
