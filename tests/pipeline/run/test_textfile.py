"""Tests of the text file with lags for Prometheus: it has every row of `catch_up`, and is replaced
atomically."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.engines.duck import DuckEngine
from pipeline.errors import NotInstalled, PipelineError, WrongUse
from pipeline.model.tables import CATCH_UP
from pipeline.run import textfile
from pipeline.run.textfile import AS_OF, LEFT_OUT, MEMBERS, VERDICT, check_textfile, write_textfile
from tests.pipeline.relations import ms, rows_of

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 14")]

HOSTILE = 'a "name"\\ of\ntwo lines'
Series = dict[tuple[str, ...], float]


def row(group: str, partition: int = 0, **columns: Any) -> dict[str, Any]:
    place = {"group_id": group, "topic": "orders", "partition": partition}
    return {**place, "verdict": "stopped", "member_count": 1, "lag_records": 7, **columns}


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    engine = DuckEngine(str(tmp_path_factory.mktemp("engine")))
    yield engine
    engine.close()


def written(engine: DuckEngine, folder: Path, *rows: dict[str, Any]) -> dict[str, Series]:
    """Writes the text file and returns its series by metric name. A series maps tuples of label
    values to a value."""
    engine.read("catch_up", [rows_of(CATCH_UP, rows)], CATCH_UP)
    file = folder / "lag.prom"
    assert write_textfile(engine, str(file), "b:9092", ms(600)) == str(file)
    assert list(folder.iterdir()) == [file]
    return read(file)


def read(file: Path) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(file.read_text()):
        assert (family.type, bool(family.documentation)) == ("gauge", True), family.name
        series = found.setdefault(family.name, {})
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in series
            series[labels] = sample.value
    return found


def test_textfile_has_a_series_for_each_known_value(engine: DuckEngine, tmp_path: Path) -> None:
    known = {"lag_s": 1.5, "lost_records": 2, "consumed_per_s": 3.25, "produced_per_s": 4.0}
    found = written(
        engine,
        tmp_path,
        row("billing", **known, catch_up_s=60.0, verdict="catching up"),
        row("billing", 1),
        row(HOSTILE, lag_records=-5, member_count=None, verdict="out of range"),
    )

    # The values have the order of the label names: consumergroup, partition, source, topic,
    # verdict.
    place = ("billing", "0", "b:9092", "orders")
    assert found == {
        AS_OF: {("b:9092",): ms(600) / 1000},
        LEFT_OUT: {("b:9092",): 0},
        "muster_pipeline_lag_records": {
            place: 7, ("billing", "1", "b:9092", "orders"): 7,
            (HOSTILE, "0", "b:9092", "orders"): -5,
        },
        "muster_pipeline_lag_seconds": {place: 1.5},
        "muster_pipeline_lost_records": {place: 2},
        "muster_pipeline_read_records_per_second": {place: 3.25},
        "muster_pipeline_written_records_per_second": {place: 4},
        "muster_pipeline_catch_up_seconds": {place: 60},
        VERDICT: {
            (*place, "catching up"): 1, ("billing", "1", "b:9092", "orders", "stopped"): 1,
            (HOSTILE, "0", "b:9092", "orders", "out of range"): 1,
        },
        MEMBERS: {("billing", "b:9092"): 1},
    }  # fmt: skip


def test_textfile_is_valid_utf8_when_the_source_name_is_invalid_utf8(
    engine: DuckEngine, tmp_path: Path
) -> None:
    engine.read("catch_up", [], CATCH_UP)

    write_textfile(engine, str(tmp_path / "lag.prom"), "fol\udcffder", ms(0))

    assert read(tmp_path / "lag.prom")[AS_OF] == {("fol?der",): ms(0) / 1000}


def test_textfile_above_its_limit_omits_the_partitions_with_the_least_lag(
    engine: DuckEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textfile, "PARTITIONS", 2)

    found = written(engine, tmp_path, *[row("g", nth, lag_records=nth) for nth in range(5)])

    assert sorted(found["muster_pipeline_lag_records"].values()) == [3, 4]
    assert found[LEFT_OUT] == {("b:9092",): 3}


def test_previous_textfile_is_kept_when_the_next_write_fails(
    engine: DuckEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(engine, tmp_path, row("g"))

    monkeypatch.setattr(engine, "ask", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        write_textfile(engine, str(tmp_path / "lag.prom"), "b:9092", 0)
    assert read(tmp_path / "lag.prom") == before
    assert [each.name for each in tmp_path.iterdir()] == ["lag.prom"]

    with pytest.raises(PipelineError, match=r"--textfile \S+ can't be written: No such file"):
        write_textfile(engine, str(tmp_path / "gone" / "lag.prom"), "b:9092", 0)


def test_unusable_textfile_path_is_rejected_before_the_job_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "lag.prom")
    check_textfile(file)
    with pytest.raises(WrongUse, match=r"reads only files that end in \.prom"):
        check_textfile(str(tmp_path / "lag.txt"))
    with pytest.raises(PipelineError, match=f"the folder {tmp_path}/gone does not exist"):
        check_textfile(str(tmp_path / "gone" / "lag.prom"))
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(PipelineError, match="is a folder"):
        check_textfile(str(tmp_path / "folder.prom"))
    # root passes all permission checks
    monkeypatch.setattr(textfile.os, "access", lambda *_: False)
    with pytest.raises(PipelineError, match=f"check the permissions of {tmp_path}"):
        check_textfile(file)
    monkeypatch.undo()
    monkeypatch.setattr(textfile.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotInstalled, match="--textfile needs prometheus_client"):
        check_textfile(file)
