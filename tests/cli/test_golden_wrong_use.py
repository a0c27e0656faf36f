"""Invalid command lines and Ctrl-C: the command prints an error without a traceback, and exits with
the documented code."""

from __future__ import annotations

import io

import pytest

from cli import output
from tests.cli import sessions


def test_invalid_command_lines_print_the_golden_output() -> None:
    sessions.check("wrong_use")


def test_command_group_shows_its_help_when_it_has_no_arguments() -> None:
    shown = sessions.typed("muster groups")
    assert "Usage: muster groups" in shown
    assert shown.endswith("(exit 2)\n")


def interrupted(*_arguments: object, **_more: object) -> None:
    raise KeyboardInterrupt


def test_command_exits_130_on_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.topics.listing.Cluster", interrupted)
    assert sessions.typed("muster topics list") == "(exit 130)\n"


def test_progress_bar_is_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(output.progress(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", shown := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "_PATIENCE_S", 0)
    assert list(output.progress(range(3), "counting")) == [0, 1, 2]
    assert "counting" in shown.getvalue()
