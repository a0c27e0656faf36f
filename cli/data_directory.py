"""The data directory of a stopped broker, for commands that can work without a broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import output
from cli.errors import CommandError

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Use the data directory of a stopped broker."),
]


@contextmanager
def readable(directory: str, *, may_be_new: bool = False) -> Iterator[Any]:
    """Yields the file system of the directory without locking it, so that a broker may be using it.
    Raises CommandError for damaged files and, unless ``may_be_new`` is set, for a folder that is
    not a data directory."""
    from broker.offline import files, found

    with _refusals(directory):
        yield files() if may_be_new else found(directory)


@contextmanager
def changeable(directory: str) -> Iterator[Any]:
    """Yields the file system of the directory, locked against brokers. Raises CommandError if a
    broker uses the directory, and in the cases of `readable`. A missing directory is created with a
    warning, because its name may be a typing error."""
    from broker.offline import held

    is_new = not os.path.isdir(directory)
    with _refusals(directory), held(directory) as fs:
        if is_new:
            output.warn(f"created {directory}, which did not exist")
        yield fs


@contextmanager
def _refusals(directory: str) -> Iterator[None]:
    from broker.broker import BadDirectory, DirectoryLocked

    try:
        yield
    except DirectoryLocked:
        raise CommandError(
            f"a broker is using {directory}: connect to the broker with --bootstrap instead of"
            " --data-dir, or stop the broker first"
        ) from None
    except BadDirectory as error:
        raise CommandError(str(error)) from None
