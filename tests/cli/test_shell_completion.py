"""Shell completion: the scripts that `--show-completion` prints, and what they are told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.brokers import CHECKOUT


def muster(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    return muster(
        _MUSTER_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    ).split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("muster gro", ["groups"]),
        ("muster groups re", ["reset"]),
        ("muster groups reset g --to-", ["--to-earliest", "--to-latest", "--to-current"]),
        ("muster serve --c", ["--config"]),
        ("muster offsets i", ["import"]),
    ],
)
def test_bash_is_offered_what_fits(line: str, offered: list[str]) -> None:
    assert completed(line)[: len(offered)] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_that_a_shell_loads(shell: str) -> None:
    script = muster("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert f"_MUSTER_COMPLETE=complete_{shell}" in script
    if shell == "bash":
        loaded = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
        assert loaded.returncode == 0
