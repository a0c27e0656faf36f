"""docs/use/command-line.md lists all commands and exit codes. Its example of an offsets file is
valid."""

from __future__ import annotations

import re
from pathlib import Path

from cli import errors
from cli.client.group_reads import Committed
from cli.main import command_of
from cli.offsets.files import read
from cli.usage import commands as walked
from cli.usage import runs

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "command-line.md").read_text()
ROWS = re.findall(r"^\| (`muster .*?) \|", PAGE, re.MULTILINE)


def documented() -> set[str]:
    found = set()
    for row in ROWS:
        first, *more = re.findall(r"`(?:muster )?([^`]+)`", row)
        command = first.split()[0]
        found.add(first)
        for other in more:
            found.add(f"{command} {other}" if " " in first else other)
    return found


def commands() -> set[str]:
    return {" ".join(path) for path, each in walked(command_of()) if runs(each)}


def test_command_line_page_lists_exactly_the_existing_commands() -> None:
    assert documented() == commands()


def test_command_line_page_lists_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {
        0,
        errors.REFUSED,
        errors.USAGE,
        errors.UNREACHABLE,
        errors.FOUND,
        errors.GROUPS_FAIL,
        errors.INTERRUPTED,
        errors.TERMINATED,
    }


def test_example_on_the_command_line_page_is_a_valid_offsets_file() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert read(example, "the page", None) == {"billing": {("orders", 0): Committed(42)}}
