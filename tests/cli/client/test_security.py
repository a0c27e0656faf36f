"""What a file of client properties says in vain is told, and no more of it than a line holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.client.security import security_in
from cli.errors import USAGE
from cli.main import command_of
from cli.usage import commands
from client.security import PLAINTEXT
from tests.cli.running import run


def test_properties_that_mean_nothing_here_are_named_and_many_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"no.such.{number}=1\n" for number in range(7)))

    assert security_in(file) == PLAINTEXT

    assert capsys.readouterr().err == (
        "muster: not used here, of --command-config: no.such.0, no.such.1, no.such.2, no.such.3,"
        " no.such.4 and 2 more\n"
    )


def test_every_command_that_speaks_to_a_cluster_takes_it_behind_its_name(tmp_path: Path) -> None:
    for path, each in commands(command_of()):
        names = {param.name for param in each.params}
        assert "bootstrap" not in names or "command_config" in names, path

    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    for words in (["topics", "list"], ["groups", "why", "g"], ["top"], ["cluster", "check"]):
        ran = run(*words, "--command-config", str(file))
        assert ran.code == USAGE
        assert f"--command-config: {file}: security.protocol=TLS is none" in ran.err
