"""The chapters "Over HTTP" of docs/test/testing-with-muster.md and docs/test/clusters.md. Their
examples run, and their tables agree with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker.test_mode.settings import DEFAULTS
from broker.test_mode.verbs.faults import KINDS
from broker.test_mode.verbs.table import OF_BROKER, OF_CLUSTER, VERBS
from broker.test_mode.verbs.verb import Verb
from tests.absent import program
from tests.brokers import CHECKOUT


def chapter(page: str) -> str:
    """Returns the chapter "Over HTTP" of a page in docs/test."""
    text = (CHECKOUT / "docs" / "test" / page).read_text()
    return text.split("\n## Over HTTP\n")[1].split("\n## ")[0]


PAGE = chapter("testing-with-muster.md")
CLUSTERS = chapter("clusters.md")
_MARK = "-- the next command --"


def examples(page: str) -> list[tuple[str, str]]:
    """Returns each command of a chapter with its documented output."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, printed = found[-1]
                found[-1] = (command, printed + line)
    return found


@pytest.mark.parametrize(("page", "least"), [(PAGE, 20), (CLUSTERS, 10)], ids=["one", "cluster"])
def test_each_example_on_the_testing_over_http_page_prints_its_output(
    page: str, least: int, tmp_path: Path
) -> None:
    shell = program("bash", "bash")
    for each in ("curl", "jq"):
        program(each, each)
    commands = [command for command, _ in examples(page)]
    assert len(commands) > least
    # The output of curl has no newline at its end; the output of jq has one.
    script = "".join(
        f"{command}" + (f"echo\necho '{_MARK}'\n" if _is_raw(command) else f"echo '{_MARK}'\n")
        for command in commands
    )
    ran = subprocess.run(
        [shell, "-c", f"trap 'kill %1; wait' EXIT\n{script}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    printed = ran.stdout.split(f"{_MARK}\n")[:-1]
    wrong = [
        (command, got, said)
        for (command, said), got in zip(examples(page), printed, strict=True)
        if not re.fullmatch(".*".join(map(re.escape, said.split("..."))), got, re.DOTALL)
    ]

    assert not wrong, "\n".join(f"{command}printed {got}not {said}" for command, got, said in wrong)


def _is_raw(command: str) -> bool:
    return "curl" in command and not command.rstrip().startswith("HTTP") and "jq" not in command


@pytest.mark.parametrize(
    ("page", "table"),
    [(PAGE, VERBS), (CLUSTERS, (*OF_CLUSTER, *OF_BROKER))],
    ids=["one", "cluster"],
)
def test_testing_over_http_page_has_a_row_for_each_verb(page: str, table: tuple[Verb, ...]) -> None:
    rows = set(re.findall(r"^\| `((?:GET|POST|DELETE) /test\S*)` \|", page, re.MULTILINE))
    verbs = {re.sub(r"{\w+}", "ID", each.shown) for each in table}

    assert verbs - rows == set()


def test_testing_over_http_page_lists_the_default_settings_of_test_mode() -> None:
    table = PAGE.split("| setting | value |\n|---|---|\n")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", table, re.MULTILINE))

    assert rows == {name: str(value) for name, value in DEFAULTS.items()}


def test_testing_over_http_page_has_a_row_for_each_kind_of_fault() -> None:
    table = PAGE.split("| kind | arguments |")[1].split("\n\n")[0]
    rows = {
        kind: set(re.findall(r"`(\w+)`", arguments))
        for kind, arguments in re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", table, re.MULTILINE)
    }

    assert rows == {kind: {*needed, *taken} for kind, (needed, taken, _) in KINDS.items()}
