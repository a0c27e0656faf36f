"""What a job says when it cannot go on, and the exit codes that scripts can use."""

from __future__ import annotations

from typing import Final

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
DAMAGE_FOUND: Final = 4
"""Exit codes, as every command of `muster` has them; 0 is fine."""


class PipelineError(Exception):
    """A sentence that says what happened, to what, and what to do; the command line prints it."""

    exit_code = REFUSED


class WrongUse(PipelineError):
    """Options that can't be understood, or not together."""

    exit_code = USAGE


class NotInstalled(PipelineError):
    """A package that is not here. ``str`` says how pip brings it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: pip install 'musterd[{extra}]' brings it")
        self.what = what
        self.package = package


class Unreachable(PipelineError):
    """Nobody answers at an address."""

    exit_code = UNREACHABLE
