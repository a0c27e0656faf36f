"""Help: every option and argument of every command has its text, and none shows Python's types."""

from __future__ import annotations

from typing import Any

import pytest

from cli.main import command_of
from cli.usage import commands
from tests.cli.running import run

COMMANDS = [(" ".join(path), each) for path, each in commands(command_of())]
NAMES = [path or "muster" for path, _ in COMMANDS]
WIDTH = 80


def shown(path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERMINAL_WIDTH", str(WIDTH))
    ran = run(*path.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    return ran.out


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=NAMES)
def test_help_is_whole_and_has_no_types(
    path: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(path, monkeypatch)

    assert command.help, "the command itself has its text"
    assert "<" not in text, "such as <bool> or <list[str]>"
    assert max(map(len, text.splitlines())) <= WIDTH
    for param in command.params:
        assert (param.help or "").endswith((".", ")")), f"{param.opts} has a sentence"
        if param.param_type_name == "argument":
            assert param.metavar.upper() == param.metavar
            assert not param.metavar.startswith("["), "usage adds brackets itself"
            assert not param.metavar.endswith("."), "usage adds dots itself"


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("groups reset", "muster groups reset [OPTIONS] [GROUP]..."),
        ("groups lag", "muster groups lag [OPTIONS] [GROUP]..."),
        ("topics create", "muster topics create [OPTIONS] TOPIC..."),
        ("groups watch", "muster groups watch [OPTIONS] [GROUP]"),
    ],
)
def test_usage_reads_as_in_manuals(path: str, usage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f" Usage: {usage} " in shown(path, monkeypatch)
