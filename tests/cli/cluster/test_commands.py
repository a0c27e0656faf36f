"""`muster cluster` rejects options that precede the name of a subcommand."""

from __future__ import annotations

import pytest

from cli.errors import USAGE
from tests.cli.running import run


@pytest.mark.parametrize("option", ["--json", "--wide", "--apis"])
@pytest.mark.parametrize("command", ["describe", "check"])
def test_option_before_the_subcommand_is_rejected(command: str, option: str) -> None:
    ran = run("cluster", option, command)

    assert ran.code == USAGE
    assert ran.err == (
        f"muster: write {option} after `{command}`: options before `{command}` apply only to"
        " `muster cluster` without a subcommand\n"
    )
