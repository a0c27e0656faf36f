"""Questions to a user at a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from typer.exceptions import Abort

from cli.errors import USAGE, CommandError

T = TypeVar("T")


def answer(ask: Callable[[], T], instead: str) -> T:
    """The answer to a typer question.

    CommandError if the input ends without one (Ctrl-D); its message ends with ``instead``. Ctrl-C
    raises typer's Abort, as everywhere.
    """
    try:
        return ask()
    except Abort as error:
        if isinstance(error.__context__, EOFError):
            raise CommandError(f"no answer, the input has ended: {instead}", USAGE) from None
        raise
