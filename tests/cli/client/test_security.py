"""What a file of client properties says in vain is told, and no more of it than a line holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.client.security import security_in
from client.security import PLAINTEXT


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
