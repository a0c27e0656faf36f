"""The option --source of all pipeline commands, and the checks of source and output folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.errors import USAGE, CommandError
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.times import datetime_ms
from client.security import Security
from pipeline.errors import unwritable
from pipeline.sources.addresses import addresses_of, bootstrap_of

if TYPE_CHECKING:
    from pipeline.sources.source import Source

SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="HOST:PORT|FOLDER",
        envvar="MUSTER_SOURCE",
        help="A broker, a folder of partition folders, or a folder that contains the table"
        " `events`.",
    ),
]

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_address(where: str) -> bool:
    """Returns True if a source is HOST:PORT of a broker, or several of them separated by commas."""
    with sentences():
        return addresses_of(where) is not None


def check_source(where: str, timeout_s: float, security: Security | None = None) -> None:
    """Raises CommandError if no broker answers at the address, or if the folder does not exist.
    Does not check a remote URL. The pipeline's packages must be installed."""
    needs(*LIGHT)
    from pipeline.sources.segment_files import list_folder

    if not where:
        raise CommandError(
            "name the history's source: --source HOST:PORT (a broker) or --source FOLDER", USAGE
        )
    with sentences():
        addresses = addresses_of(where)
        if addresses is not None:
            Cluster(bootstrap_of(addresses), timeout_s=timeout_s, security=security).close()
        elif not _REMOTE.match(where):
            for folder in where.split(","):
                list_folder(folder)


@contextmanager
def saying(source: Source) -> Iterator[None]:
    """At the end of the `with` block, prints which files of the source are damaged."""
    from pipeline.sources.damage import said_of

    try:
        yield
    finally:
        for sentence in said_of(source):
            output.warn(sentence)


def check_out(out: str) -> None:
    """Raises CommandError if tables can't be written to the folder. Does not check a remote URL."""
    if not out:
        raise CommandError("name a folder for the tables: --out FOLDER", USAGE)
    if _REMOTE.match(out):
        return
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--out {out} is a file: name a folder")
    while not folder.exists():
        folder = folder.parent
    if (why := unwritable(str(folder))) is not None:
        raise CommandError(f"--out {out} can't be written: {why}")


def moment(text: str | None, option: str) -> datetime | None:
    """Parses an ISO 8601 time, the value of ``option``. A time without a zone is in UTC."""
    if text is None:
        return None
    return datetime.fromtimestamp(datetime_ms(text, option) / 1000, UTC)
