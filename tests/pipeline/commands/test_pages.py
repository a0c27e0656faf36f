"""Tests that the commands on the pages about the pipeline succeed, and that the pages list every
option and state."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from cli.main import command_of
from cli.pipeline.jobs import JOBS
from cli.usage import commands as walked
from pipeline.report.facts import LISTED, PARTS
from pipeline.report.head import LAG_THRESHOLD_S
from pipeline.report.states import STATES
from pipeline.run.choice import LIGHT_RECORDS
from pipeline.run.failing import STATES as FAIL_STATES
from pipeline.run.options import LAG_THRESHOLD
from pipeline.run.textfile import AS_OF, GAUGES, LEFT_OUT, MEMBERS, PARTITIONS, VERDICT
from tests.brokers import CHECKOUT
from tests.cli.running import run
from tests.pipeline.small_logs import small_history

pytestmark = pytest.mark.pipeline

DOCS = CHECKOUT / "docs"
PAGE = (DOCS / "use" / "pipeline.md").read_text()
COMMANDS_PAGE = (DOCS / "use" / "pipeline-commands.md").read_text()
PICTURES = sorted((DOCS / "images").glob("report*.png"))
BROKER = "127.0.0.1:9092"


def of_pipeline(page: str) -> list[str]:
    """Returns the lines of a documentation page that run `muster pipeline`."""
    return re.findall(r"^ {4}muster (pipeline .*)$", page, re.MULTILINE)


def test_commands_succeed_in_the_order_in_which_the_pipeline_page_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = small_history(tmp_path / "history")
    monkeypatch.chdir(tmp_path)
    lines = of_pipeline(PAGE)
    assert len(lines) >= 3

    for line in lines:
        made = run(*shlex.split(line.replace(BROKER, str(history))))
        assert made.code == 0, (line, made.err)
    assert (tmp_path / "tables" / "report.html").exists()


def test_every_command_on_the_pipeline_page_exists() -> None:
    there = {path[1] for path, _ in walked(command_of()) if path[:1] == ("pipeline",) and path[1:]}
    table = PAGE.split("## What do you want to know?")[1].split("##")[0]
    named = {cell.split()[0] for cell in re.findall(r"\| `([^`]+)`", table)}

    assert named <= there
    assert set(JOBS) - {"events"} <= named | {"all"}


def test_every_option_of_a_job_is_on_the_page_of_commands() -> None:
    named = set(re.findall(r"--[a-z-]+", COMMANDS_PAGE.split("## compare")[0]))
    there = {
        option
        for path, command in walked(command_of())
        if path[:1] == ("pipeline",) and path[1:] and path[1] in {*JOBS, "report"}
        for each in command.params
        for option in each.opts
        if option.startswith("--")
    }

    assert len(there) > 20
    assert there <= named


def test_pipeline_commands_page_lists_every_metric_and_every_state_of_fail_on() -> None:
    series = re.findall(r"^\| `(muster_pipeline_\w+)` \| ([\w, ]+) \|", COMMANDS_PAGE, re.MULTILINE)
    assert {name for name, _ in series} == {*GAUGES, VERDICT, MEMBERS, AS_OF, LEFT_OUT}
    assert f"the {PARTITIONS:,} with the most unread records" in COMMANDS_PAGE

    told = COMMANDS_PAGE.split("### Fail on")[1].split("###")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `(.+?)` \|$", told, re.MULTILINE))
    assert {name.replace("-", " "): verdict for name, verdict in rows.items()} == FAIL_STATES


def test_pipeline_page_has_the_states_and_bounds_of_the_report() -> None:
    told = PAGE.split("## The report")[1]

    rows = dict(re.findall(r"^\| ([a-z ]+) \| (.+?) \|$", told, re.MULTILINE))
    rows.pop("state")
    assert rows == {state.name: state.meaning for state in STATES.values()}
    assert f"The {PARTS} worst groups" in told
    assert f"Up to {LISTED:,} groups" in told
    assert LAG_THRESHOLD.default == f"{LAG_THRESHOLD_S:g}"
    assert f"`--lag-threshold-s`, {LAG_THRESHOLD_S:g}" in told
    assert f"{LIGHT_RECORDS // 1_000_000} million records" in PAGE


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_title_in_the_metadata_of_a_report_picture_names_the_source_of_the_report(
    picture: Path,
) -> None:
    with Image.open(picture) as image:
        about = image.info

    assert about["Title"] == f"Offsets of {about['Source']}"
    assert about["Source"] == BROKER
    assert f"--source {about['Source']} " in (CHECKOUT / "README.md").read_text()
    assert picture.stat().st_size < 200_000
