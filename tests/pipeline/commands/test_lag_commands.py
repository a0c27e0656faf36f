"""`muster pipeline lag` and `all`: the text file for Prometheus, and the exit code with
`--fail-on`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.engines.duck import DuckEngine
from pipeline.model.tables import CATCH_UP
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import run_job
from pipeline.storage.store import Store
from tests.cli.running import Ran, run
from tests.pipeline.given import GivenSource, table
from tests.pipeline.history import History, member
from tests.pipeline.relations import stretch

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 14")]

END_S = 720
SPAN = ["--as-of", "2026-01-01T00:12:00Z", "--offsets-retention", "5m"]
Lag = Callable[..., Ran]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a history with one group in each state of the lag report. Producers write ten records
    per second."""
    history = History()
    for name in ("drowns", "stuck", "left", "above"):
        history.generation(0, name, 1, member("m-1", 0))
    history.commit(1, "stuck", 50).commit(2, "above", 99_999).commit(3, "left", 1500)
    history.generation(4, "expired", 1).commit(5, "expired", 5)
    for minute in range(1, 12):
        history.commit(60.0 * minute, "drowns", 100 * minute)
    history.generation(700, "left", 2).commit(719, "fine", 10 * END_S)
    source = GivenSource(history.rows, [stretch(0, 0, 10 * END_S - 1, last_s=END_S)])
    folder = tmp_path_factory.mktemp("archive")
    run_job(DuckEngine(str(folder)), JOBS["all"], source, Store(str(folder / "tables")))
    return folder / "tables"


@pytest.fixture
def lag(archive: Path, out: Path) -> Lag:

    def ran(*words: str, job: str = "lag") -> Ran:
        return run("pipeline", job, "--source", str(archive), "--out", str(out), *SPAN, *words)

    return ran


def test_prometheus_textfile_has_the_same_lag_as_each_row_of_the_table_catch_up(
    lag: Lag, archive: Path, out: Path, tmp_path: Path
) -> None:
    file = tmp_path / "lag.prom"

    told = lag("--textfile", str(file))

    assert told.code == 0, told.err
    assert f"The lag for Prometheus is in {file}" in told.out
    rows = table(out, "catch_up", CATCH_UP)
    families = {each.name: each for each in text_string_to_metric_families(file.read_text())}
    for name, column in (
        ("muster_pipeline_lag_records", "lag_records"),
        ("muster_pipeline_lag_seconds", "lag_s"),
    ):
        assert places(families[name]) == {
            (row["group_id"], row["topic"], str(row["partition"]), str(archive)): row[column]
            for row in rows
            if row[column] is not None
        }
    assert len(rows) == 6
    [as_of] = families["muster_pipeline_as_of_timestamp_seconds"].samples
    assert as_of.value == rows[0]["as_of"].timestamp()

    again = lag("--textfile", str(file), "--overwrite", "--json", "--group", "stuck")
    assert again.json["textfile"] == str(file)
    families = {each.name: each for each in text_string_to_metric_families(file.read_text())}
    assert [place[0] for place in places(families["muster_pipeline_lag_records"])] == ["stuck"]


def places(family: Any) -> dict[tuple[str, ...], float]:
    labels = ("consumergroup", "topic", "partition", "source")
    return {tuple(each.labels[name] for name in labels): each.value for each in family.samples}


def test_command_exits_with_5_when_a_group_has_a_state_in_option_fail_on(lag: Lag) -> None:
    told = lag("--fail-on", "stuck,drowning")
    assert told.code == 5
    assert told.err == (
        "muster: stuck: stuck (1 partition, 7,150 unread records)\n"
        "muster: drowning: drowns (1 partition, 6,100 unread records)\n"
    )
    assert told.out.startswith("lag: read ")

    fine = lag("--fail-on", "stuck", "--group", "fine", "--overwrite")
    assert (fine.code, fine.err) == (0, "")

    both = lag("--fail-on", "out-of-range,nobody-runs-it", "--overwrite", "--json")
    assert both.code == 5
    assert [(each["state"], each["group_id"]) for each in both.json["failing"]] == [
        ("out of range", "above"), ("nobody runs it", "expired"), ("nobody runs it", "left"),
    ]  # fmt: skip


def test_option_fail_on_ignores_dead_groups_in_job_all(lag: Lag) -> None:
    told = lag("--fail-on", "nobody-runs-it", job="all")

    assert told.code == 5
    assert told.err == "muster: nobody runs it: left (1 partition, 5,700 unread records)\n"


def test_incremental_run_accepts_options_fail_on_and_textfile(
    archive: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "grown", tmp_path / "lag.prom"

    told = run("pipeline", "all", "--incremental", "--source", str(archive), "--out", str(out),
               *SPAN, "--fail-on", "drowning", "--textfile", str(file))  # fmt: skip

    assert told.code == 5, told.err
    assert "muster: drowning: drowns (1 partition" in told.err
    assert f'source="{archive}"' in file.read_text()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--fail-on", "sad"], 2, "--fail-on sad: unknown state 'sad': choose from drowning,"),
        (["--fail-on", "stuck", "--no-topics"], 2, "--fail-on needs the lag, which --no-topics"),
        (["--textfile", "x.prom", "--no-topics"], 2, "--textfile needs the lag"),
        (["--textfile", "lag.txt"], 2, "--textfile lag.txt: node_exporter reads only files"),
        (["--textfile", "gone/lag.prom"], 1, "gone does not exist"),
    ],
)
def test_invalid_option_of_pipeline_lag_is_rejected_before_the_job_starts(
    lag: Lag, out: Path, words: list[str], code: int, says: str
) -> None:
    told = lag(*words)

    assert (told.code, told.out, told.err.count("\n")) == (code, "", 1)
    assert says in told.err
    assert not out.exists()
