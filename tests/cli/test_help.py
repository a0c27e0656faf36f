"""Help: each option and argument has a help text, and the help shows no Python types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import command_of
from cli.usage import commands
from tests.brokers import CHECKOUT
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


@pytest.mark.campaign
@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=NAMES)
def test_help_describes_each_option_and_shows_no_python_types(
    path: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(path, monkeypatch)

    assert command.help, "the command has a help text"
    assert "<" not in text, "such as <bool> or <list[str]>"
    assert max(map(len, text.splitlines())) <= WIDTH
    for param in command.params:
        assert (param.help or "").endswith((".", ")")), f"{param.opts} has a sentence"
        if param.param_type_name == "argument":
            assert param.metavar.upper() == param.metavar
            assert not param.metavar.startswith("["), "usage adds brackets itself"
            assert not param.metavar.endswith("."), "usage adds dots itself"


WITHOUT_EXTRAS = """
import sys

for name in "cryptography deltalake duckdb numpy pandas pyarrow pyiceberg pyspark".split():
    sys.modules[name] = None
from cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], 0, "muster "),
        (["--help"], 0, "pipeline"),
        (["pipeline", "--help"], 0, "restore"),
        (["pipeline", "lag", "--help"], 0, "--source"),
        (["topics", "lst"], 2, "list"),
        (["pipeline", "lag", "--source", ".", "--out", "x"], 1, "needs duckdb, pyarrow, numpy: "),
    ],
)
def test_only_pipeline_commands_need_the_optional_packages(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert ran.returncode == code, ran.stderr
    assert said in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("groups reset", "muster groups reset [OPTIONS] [GROUP]..."),
        ("groups lag", "muster groups lag [OPTIONS] [GROUP]..."),
        ("topics create", "muster topics create [OPTIONS] TOPIC..."),
        ("groups watch", "muster groups watch [OPTIONS] [GROUP]"),
    ],
)
def test_usage_line_shows_arguments_as_in_a_man_page(
    path: str, usage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f" Usage: {usage} " in shown(path, monkeypatch)
