"""The option --command-config, its environment variable, and client properties that commands
ignore."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.client.security import security_in
from cli.errors import USAGE
from cli.main import command_of
from cli.usage import commands
from client.security import PLAINTEXT
from tests.cli.running import run


def test_warning_about_ignored_properties_names_five_and_counts_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"no.such.{number}=1\n" for number in range(7)))

    assert security_in(file) == PLAINTEXT

    assert capsys.readouterr().err == (
        "muster: --command-config: ignored properties: no.such.0, no.such.1, no.such.2, no.such.3,"
        " no.such.4 and 2 more\n"
    )


def test_every_command_with_bootstrap_accepts_command_config(tmp_path: Path) -> None:
    for path, each in commands(command_of()):
        names = {param.name for param in each.params}
        assert "bootstrap" not in names or "command_config" in names, path

    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    for words in (["topics", "list"], ["groups", "why", "g"], ["top"], ["cluster", "check"]):
        ran = run(*words, "--command-config", str(file))
        assert ran.code == USAGE
        assert (
            f"--command-config: {file}: unknown security.protocol=TLS: choose one of PLAINTEXT"
            in ran.err
        )


@pytest.mark.parametrize("words", [["logs", "dump"], ["config", "check"]])
def test_command_that_uses_no_broker_ignores_muster_command_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("MUSTER_COMMAND_CONFIG", "/no/such")
    file = tmp_path / "00000000000000000000.log"
    file.write_text("")

    ran = run(*words, str(file))

    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("words", [["topics", "list"], ["groups", "why", "g"]])
def test_error_about_an_unreadable_file_names_the_variable_muster_command_config(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("MUSTER_COMMAND_CONFIG", "/no/such")

    ran = run(*words)

    assert ran.code == USAGE
    assert ran.err.startswith("muster: MUSTER_COMMAND_CONFIG: /no/such can't be read")
    assert "[env var: MUSTER_COMMAND_CONFIG]" in " ".join(run(*words[:2], "--help").out.split())


def test_command_config_option_overrides_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUSTER_COMMAND_CONFIG", "/no/such")

    for words in (["--command-config", "/x", "topics", "list"],
                  ["topics", "list", "--command-config", "/x"]):  # fmt: skip
        assert run(*words).err.startswith("muster: --command-config: /x can't be read")
