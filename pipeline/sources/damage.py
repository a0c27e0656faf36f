"""Sources whose files turn out to be damaged while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pipeline.errors import PipelineError, full_disk
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.source import Source
from pipeline.sources.tables import TablesSource

T = TypeVar("T")


class LeftOut(PipelineError):
    """Damaged files of a source are left out from now on."""


def said_of(source: Source) -> list[str]:
    """Sentences about the damaged files of a source found until now."""
    return source.said if isinstance(source, ArchiveSource) else []


def whole(source: Source, work: Callable[[], T]) -> T:
    """Run a function that reads a source, and return its result.

    If it fails because files of an archive are damaged, they are left out and it runs again.
    PipelineError names a damaged file of tables, which are not read without it.
    """
    while True:
        try:
            with naming_damage(source):
                return work()
        except LeftOut:
            continue


@contextmanager
def naming_damage(source: Source) -> Iterator[None]:
    """If the block fails, read every file of the source completely.

    LeftOut if files of an archive are damaged, PipelineError if a file of tables is.
    """
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        if full_disk(error) is not None:
            raise
        if isinstance(source, TablesSource):
            source.check(deep=True)
        if isinstance(source, ArchiveSource) and source.set_aside():
            raise LeftOut(
                f"{source.where} has damaged files, which are left out from now on: run the"
                " command again"
            ) from error
        raise
