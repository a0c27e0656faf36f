"""Tests that each command and option that a string of the source recommends exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cli import errors
from cli.main import command_of
from cli.usage import commands
from protocol.errors import NAMES
from tests.brokers import CHECKOUT

TREE = {" ".join(path): each for path, each in commands(command_of())}
NAMED = re.compile(r"`muster ([^`{]+)[`{]")
FILES = [*sorted((CHECKOUT / "cli").rglob("*.py")), *sorted((CHECKOUT / "verdicts").glob("*.py"))]

FOREIGN = {"`muster topics alter`"}
"""Commands that error texts name although Muster does not have them. The check allows these
commands, because such an error is about a command of another tool, and also names Muster's own
command."""


def named_in(text: str) -> list[str]:
    """Returns the `muster` commands that a source text names. A command may extend over two string
    literals."""
    joined = re.sub(r'"\s*\n\s*f?"', "", text)
    return [" ".join(line.split()) for line in NAMED.findall(joined)]


def wrong_with(line: str) -> str | None:
    """Returns the error in a command line without its first word `muster`, or None if the command
    and its options exist."""
    words = line.split()
    path = ""
    while words and f"{path} {words[0]}".strip() in TREE:
        path = f"{path} {words.pop(0)}".strip()
    if not path:
        return None if words[0].isupper() or words[0].startswith("-") else f"no command {words[0]}"
    command: Any = TREE[path]
    if hasattr(command, "commands") and words and not words[0].isupper() and words[0][0] != "-":
        return f"{path} has no command {words[0]}"
    known = {name for param in command.params for name in param.opts} | {"--help"}
    absent = [
        word for word in words if word.startswith("--") and word.partition("=")[0] not in known
    ]
    return f"{path} has no option {absent[0]}" if absent else None


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(CHECKOUT)) for path in FILES])
def test_every_command_recommended_by_a_hint_exists(path: Path) -> None:
    text = path.read_text()
    wrong = {line: wrong_with(line) for line in named_in(text) if f"`muster {line}`" not in FOREIGN}
    assert not {line: what for line, what in wrong.items() if what}


def test_every_error_code_that_has_a_hint_exists() -> None:
    assert errors._HINTS.keys() <= set(NAMES.values())
    assert any(named_in(hint) for hint in errors._HINTS.values())


@pytest.mark.planted("hints of the command line")
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("groups list", None),
        ("topics describe {topic}", None),
        ("groups explain", "groups has no command explain"),
        ("nothing", "no command nothing"),
        ("configs get --everything", "configs get has no option --everything"),
    ],
)
def test_check_of_recommended_commands_finds_a_command_that_does_not_exist(
    line: str, wrong: str | None
) -> None:
    assert wrong_with(line) == wrong
