"""Questions on a terminal: the end of the input is an error, and Ctrl-C is an interrupt."""

from __future__ import annotations

import io
from typing import NoReturn

import pytest
import typer

from cli import main
from cli.errors import INTERRUPTED, USAGE, CommandError
from cli.plans import Plan
from cli.users import commands
from tests.cli.running import run


class ATerminal(io.StringIO):
    """A fake terminal whose input has ended."""

    def isatty(self) -> bool:
        return True


class Interrupted(ATerminal):
    """A fake terminal on which the user presses Ctrl-C."""

    def readline(self, size: int | None = -1) -> str:
        raise KeyboardInterrupt


def ask() -> None:
    Plan(dry_run=False, execute=False, json=False).goes_on("Change 1 offset?")


def fail() -> NoReturn:
    raise EOFError("no more bytes")


def at_a(terminal: ATerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stdout", ATerminal())


def test_error_names_the_option_to_use_when_input_ends_at_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_a(ATerminal(), monkeypatch)
    with pytest.raises(
        CommandError, match="the input has ended: nothing was changed; add --exec"
    ) as said:
        ask()
    assert said.value.exit_code == USAGE

    monkeypatch.setattr("getpass.getpass", lambda *_: fail())
    with pytest.raises(CommandError, match=r"the input has ended: .* --password-file FILE reads"):
        commands._password("alice", None)


@pytest.mark.parametrize("command", [ask, fail])
def test_ctrl_c_exits_with_code_130_but_an_eof_error_in_a_command_is_raised(
    command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    monkeypatch.setattr(main, "command_of", lambda *_: typer.main.get_command(app))
    if command is fail:
        with pytest.raises(EOFError, match="no more bytes"):
            run()
        return
    at_a(Interrupted(), monkeypatch)
    assert main.run_client([]) == INTERRUPTED
