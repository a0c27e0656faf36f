"""The data directory of a Muster that is stopped, for commands that can do without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.errors import CommandError

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="The data directory of a stopped Muster, not a broker."
    ),
]


@contextmanager
def readable(directory: str) -> Iterator[Any]:
    """Its file system; a broker may run. CommandError for files that are damaged."""
    from broker.offline import files

    with _refusals(directory):
        yield files()


@contextmanager
def changeable(directory: str) -> Iterator[Any]:
    """Its file system, while no broker runs on it. CommandError where one does, as `readable`."""
    from broker.offline import held

    with _refusals(directory), held(directory) as fs:
        yield fs


@contextmanager
def _refusals(directory: str) -> Iterator[None]:
    from broker.broker import BadDirectory, DirectoryLocked

    try:
        yield
    except DirectoryLocked:
        raise CommandError(
            f"a broker runs on {directory}: leave --data-dir out and name it by --bootstrap, or"
            " stop it first"
        ) from None
    except BadDirectory as error:
        raise CommandError(str(error)) from None
