"""Tests that the report of a run equals its tables, and can be made again from the tables alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.model.events import ABORTED, COMMITTED
from pipeline.report.facts import TABLES
from pipeline.report.head import Thresholds
from pipeline.report.labels import duration, whole
from pipeline.run.as_of import Span
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import Options, Summary, run_job
from pipeline.run.report import NOTE, REPORT, write_report_again
from pipeline.run.selection import Selection
from pipeline.storage.store import Store
from pipeline.times import instant
from tests.cli.running import run
from tests.pipeline.given import GivenSource, table
from tests.pipeline.history import History, member
from tests.pipeline.relations import ms, stretch
from tests.pipeline.report_pages import listed, part

pytestmark = pytest.mark.pipeline

MINUTES = 12
END = 60 * MINUTES


def history() -> GivenSource:
    """Returns a history with four groups that read one topic with ten new records per second.

    One group keeps up, one falls behind and is reset, one has lost its member, and one commits in
    transactions.
    """
    log = History()
    log.generation(0, "drowns", 1, member("slow-1", 0))
    log.generation(0, "left", 1, member("gone-1", 0))
    for minute in range(1, MINUTES):
        at = 60.0 * minute
        log.commit(at, "fine", 600 * minute)
        log.commit(at, "drowns", 100 * minute if minute != 6 else 20)
        if minute == 3:
            log.commit(at, "left", 1500)
            log.generation(at + 5, "left", 2)
        if minute == 8:
            log.generation(at, "drowns", 2, member("slow-1", 0), member("new-2"))
        log.commit(at + 1, "exactly-once", 300 * minute, producer_id=9)
        if minute < MINUTES - 1:
            log.marker(at + 2, 9, ABORTED if minute == 4 else COMMITTED)
    log.commit(END - 1, "fine", 10 * END)
    return GivenSource(log.rows, [stretch(0, 0, 10 * END - 1, last_s=END)])


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], DuckEngine]:
    return lambda: DuckEngine(str(tmp_path_factory.mktemp("engine")))


@pytest.fixture
def made(engine: Callable[[], DuckEngine], tmp_path: Path) -> tuple[Path, Summary]:
    """Runs all jobs. Returns the folder of the tables, and the summary."""
    source, store = history(), Store(str(tmp_path / "tables"))
    options = Options(selection=Selection(span=Span(as_of_ms=ms(END))))
    return tmp_path / "tables", run_job(engine(), JOBS["all"], source, store, options)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return table(folder, name, TABLES[name])


def test_figures_in_the_groups_list_of_a_report_equal_those_in_the_tables(
    made: tuple[Path, Summary],
) -> None:
    folder, summary = made
    page = (folder / REPORT).read_text()
    said = listed(page)

    lag = rows(folder, "lag")
    last = max(row["minute"] for row in lag)
    for name in ("fine", "drowns", "left", "exactly-once"):
        now = [row for row in lag if row["group_id"] == name and row["minute"] == last]
        assert said[name]["unread"] == whole(sum(row["lag_records"] for row in now))
        assert said[name]["oldest"] == duration(max(row["lag_s"] for row in now))
        for column in ("commits", "rewinds"):
            count = sum(row["group_id"] == name for row in rows(folder, column))
            assert said[name][column] == whole(count)
        counted = {row["group_id"]: row["rebalances"] for row in rows(folder, "churn")}
        assert said[name]["rebalances"] == whole(counted.get(name, 0))
    outcomes = Counter(row["outcome"] for row in rows(folder, "transactional_commits"))
    assert said["exactly-once"]["in transactions"] == "9 committed, 1 aborted, 1 open"
    assert outcomes == {"committed": 9, "aborted": 1, "open": 1}
    cards = dict(re.findall(r"<li[^>]*><b>([\d,]+)</b>(.*?)</li>", page))
    assert {label: number for number, label in cards.items()}["commits"] == whole(
        len(rows(folder, "commits"))
    )
    assert summary.report == str(folder / REPORT)


def test_every_link_of_the_report_has_a_target(made: tuple[Path, Summary]) -> None:
    page = (made[0] / REPORT).read_text()

    links, ids = (set(re.findall(rf'{name}="#?(g[^"]*)"', page)) for name in ("href", "id"))
    assert len(links) > 7
    assert links <= ids


def test_report_head_has_source_engine_and_as_of_time(made: tuple[Path, Summary]) -> None:
    folder, summary = made
    page = (folder / REPORT).read_text()

    told = dict(re.findall(r"<dt>(.*?)</dt><dd><bdi>(.*?)</bdi>", page))
    assert told["source"] == "given"
    assert told["engine"] == summary.engine
    assert told["as of"] == instant(summary.as_of_ms) == instant(ms(END))


def test_report_can_be_made_again_from_the_tables(
    made: tuple[Path, Summary], engine: Callable[[], DuckEngine]
) -> None:
    folder, _ = made
    store = Store(str(folder))
    before = (folder / REPORT).read_text()

    with pytest.raises(PipelineError, match=r"already has report.html: replace it with"):
        write_report_again(engine(), store, Thresholds(), overwrite=False)
    assert write_report_again(engine(), store, Thresholds(), overwrite=True) == store.path(REPORT)
    made_at = r"Made by muster pipeline at \S+"
    again = (folder / REPORT).read_text()
    assert re.sub(made_at, "", again) == re.sub(made_at, "", before)

    write_report_again(engine(), store, Thresholds(lag_s=7e9), overwrite=True)
    assert "No group is above the lag threshold of" in (folder / REPORT).read_text()


def test_report_can_be_made_without_the_file_report_json(
    made: tuple[Path, Summary], engine: Callable[[], DuckEngine]
) -> None:
    folder, _ = made
    (folder / NOTE).unlink()

    write_report_again(engine(), Store(str(folder)), Thresholds(), overwrite=True)

    page = (folder / REPORT).read_text()
    told = dict(re.findall(r"<dt>(.*?)</dt><dd><bdi>(.*?)</bdi>", page))
    assert (told["source"], told["engine"]) == (str(folder), "not known")
    assert told["as of"] == instant(ms(END))


def test_report_rejects_a_folder_without_tables_or_with_a_damaged_report_json_file(
    made: tuple[Path, Summary], engine: Callable[[], DuckEngine], tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match="has no tables to report on"):
        write_report_again(engine(), Store(str(tmp_path / "no")), Thresholds(), overwrite=False)

    folder, _ = made
    for text in ("", "[]", json.dumps({"source": "s"})):
        (folder / NOTE).write_text(text)
        with pytest.raises(PipelineError, match=r"_report.json is damaged .*delete"):
            write_report_again(engine(), Store(str(folder)), Thresholds(), overwrite=True)


def test_report_distinguishes_drowning_groups_from_groups_without_members(
    made: tuple[Path, Summary],
) -> None:
    folder, _ = made
    page = (folder / REPORT).read_text()

    states = {name: row["state"] for name, row in listed(page).items()}
    assert states["drowns"] == "drowning"
    assert states["left"] == "nobody runs it"
    assert states["fine"] == "keeps up"
    assert '<a href="#g1-2">' in (drowns := part(page, "drowns"))
    assert ">slow</bdi>" in drowns
    [back] = [row for row in rows(folder, "rewinds") if row["group_id"] == "drowns"]
    assert f'data-label="records">{back["rewound_records"]}<' in drowns.replace("<bdi>", "")
    assert ">generation 1</a></td>" in drowns


def test_command_report_makes_a_report_again_with_other_thresholds(
    made: tuple[Path, Summary],
) -> None:
    folder, _ = made
    words = ["pipeline", "report", "--out", str(folder)]

    refused = run(*words)
    assert (refused.code, refused.out) == (1, "")
    assert "already has report.html: replace it with --overwrite" in refused.err

    told = run(*words, "--overwrite", "--json", "--lag-threshold-s", "5.5",
               "--lag-threshold-records", "3000")  # fmt: skip
    assert told.code == 0, told.err
    assert told.json == {"report": str(folder / REPORT)}
    page = (folder / REPORT).read_text()
    assert "of 5.5 s (oldest unread record) or 3,000 unread records" in page

    for option, value, why in (
        ("--lag-threshold-s", "-1", "the value must be a number of seconds, 0 or more"),
        ("--lag-threshold-s", "soon", "the value must be a number of seconds, 0 or more"),
        ("--lag-threshold-records", "1.5", "the value must be a whole number, 0 or more"),
    ):
        wrong = run(*words, option, value)
        assert (wrong.code, wrong.out) == (2, "")
        assert f"{option} {value}: {why}" in wrong.err
