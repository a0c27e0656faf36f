"""Options before the name of the command, such as `muster --bootstrap X topics list`."""

from __future__ import annotations

from typing import Any

import pytest

from cli.errors import UNREACHABLE, USAGE
from cli.main import command_of
from cli.options import OF_EVERY_COMMAND
from cli.usage import commands
from tests.cli.running import run


@pytest.mark.parametrize(
    ("words", "port"),
    [
        ("--bootstrap 127.0.0.1:1 topics list", 1),
        ("-b 127.0.0.1:1 topics list", 1),
        ("--bootstrap=127.0.0.1:1 groups list", 1),
        ("topics list", 2),
        ("topics list -b 127.0.0.1:3", 3),
        ("-b 127.0.0.1:1 topics list -b 127.0.0.1:3", 3),
    ],
)
def test_last_bootstrap_option_overrides_earlier_options_and_muster_bootstrap(
    monkeypatch: pytest.MonkeyPatch, words: str, port: int
) -> None:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", "127.0.0.1:2")

    ran = run(*words.split(), "--timeout", "0.2")

    assert ran.code == UNREACHABLE
    assert f"no broker answers at 127.0.0.1:{port} " in ran.err


def test_every_command_accepts_common_options_before_its_name() -> None:
    root = command_of()
    value = "127.0.0.1:1"
    for path, each in commands(root):
        for param in each.params:
            if path and set(param.opts) & set(OF_EVERY_COMMAND) and path != ("serve",):
                assert param.callback(Context({param.name: value}), param, "") == value, path


class Context:
    """A fake typer context of a command line in which all options precede the command."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def find_root(self) -> Context:
        return self

    def get_parameter_source(self, _: str) -> None:
        pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-b x:1", "Missing command; see muster --help"),
        ("-b x:1 topics lst", "No such command 'lst'. Did you mean 'list'? See muster topics"),
        ("-b x:1 topics alter", "`muster topics alter` does not exist: "),
        ("--http=x:1 groups kick", "`muster groups kick` does not exist: "),
        (
            "topics --bootstrap x:1 list",
            "muster topics does not accept --bootstrap: write the option before `topics` or after"
            " the subcommand",
        ),
        ("-b x:1 serve", "write options of serve after `serve`; see muster serve --help"),
    ],
)
def test_invalid_command_after_an_option_prints_one_error_line(words: str, said: str) -> None:
    ran = run(*words.split())

    assert (ran.code, ran.err.count("\n")) == (USAGE, 1)
    assert ran.err.startswith(f"muster: {said}")


def test_version_is_printed_after_another_option() -> None:
    ran = run("-b", "x:1", "--version")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("muster ")
