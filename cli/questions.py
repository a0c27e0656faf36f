"""Questions to a user at a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from typer.exceptions import Abort

from cli.errors import USAGE, CommandError

T = TypeVar("T")


def answer(ask: Callable[[], T], instead: str) -> T:
    """Returns the answer to a typer question. If the input ends without an answer (Ctrl-D), raises
    CommandError with a message that ends with ``instead``. Ctrl-C raises typer's Abort."""
    try:
        return ask()
    except Abort as error:
        if isinstance(error.__context__, EOFError):
            raise CommandError(
                f"no answer, because the input has ended: {instead}", USAGE
            ) from None
        raise
