"""The chapter "Over HTTP" of docs/test/testing-with-muster.md: its examples run, and its tables
agree with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from broker.test_mode.settings import DEFAULTS
from broker.test_mode.verbs.faults import KINDS
from broker.test_mode.verbs.table import VERBS
from tests.absent import program
from tests.brokers import CHECKOUT

TEXT = (CHECKOUT / "docs" / "test" / "testing-with-muster.md").read_text()
PAGE = TEXT.split("\n## Over HTTP\n")[1].split("\n## ")[0]
_MARK = "-- the next command --"


def examples() -> list[tuple[str, str]]:
    """Returns each command of the page with its documented output."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, printed = found[-1]
                found[-1] = (command, printed + line)
    return found


def test_each_example_of_the_over_http_chapter_prints_its_output(tmp_path: Path) -> None:
    shell = program("bash", "bash")
    for each in ("curl", "jq"):
        program(each, each)
    commands = [command for command, _ in examples()]
    assert len(commands) > 20
    # curl does not end its output with a newline.
    script = "".join(
        f"{command}" + (f"echo\necho '{_MARK}'\n" if "curl" in command else f"echo '{_MARK}'\n")
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
        for (command, said), got in zip(examples(), printed, strict=True)
        if not re.fullmatch(".*".join(map(re.escape, said.split("..."))), got, re.DOTALL)
    ]

    assert not wrong, "\n".join(f"{command}printed {got}not {said}" for command, got, said in wrong)


def test_over_http_chapter_has_a_row_for_each_verb() -> None:
    rows = set(re.findall(r"^\| `((?:GET|POST|DELETE) /test\S*)` \|", PAGE, re.MULTILINE))
    verbs = {re.sub(r"{\w+}", "ID", each.shown) for each in VERBS}

    assert verbs - rows == set()


def test_over_http_chapter_lists_the_defaults_of_the_verbs() -> None:
    table = PAGE.split("| setting | value |\n|---|---|\n")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", table, re.MULTILINE))

    assert rows == {name: str(value) for name, value in DEFAULTS.items()}


def test_over_http_chapter_has_a_row_for_each_kind_of_fault() -> None:
    table = PAGE.split("| kind | arguments |")[1].split("\n\n")[0]
    rows = {
        kind: set(re.findall(r"`(\w+)`", arguments))
        for kind, arguments in re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", table, re.MULTILINE)
    }

    assert rows == {kind: {*needed, *taken} for kind, (needed, taken, _) in KINDS.items()}
