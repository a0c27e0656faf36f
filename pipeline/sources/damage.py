"""Handles damaged files of a source that are detected while the source is read."""

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
    """Damaged files were found: the source leaves these files out from now on."""


def said_of(source: Source) -> list[str]:
    """Return sentences about the damaged files of a source that were found so far."""
    return source.said if isinstance(source, ArchiveSource) else []


def whole(source: Source, work: Callable[[], T]) -> T:
    """Run a function that reads a source, and return its result.

    If the function fails because files of an archive are damaged, the source leaves these files out
    and the function runs again. PipelineError names a damaged file of tables, which can't be left
    out.
    """
    while True:
        try:
            with naming_damage(source):
                return work()
        except LeftOut:
            continue


@contextmanager
def naming_damage(source: Source) -> Iterator[None]:
    """If the block fails, read every file of the source completely to find damaged files.

    Raise LeftOut if files of an archive are damaged, and PipelineError if a file of tables is
    damaged.
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
                f"{source.where} has damaged files: run the command again, which leaves these files"
                " out"
            ) from error
        raise
