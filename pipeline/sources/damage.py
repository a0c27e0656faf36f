"""Handles damaged files that are found while a source is read. The source then omits them."""

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
    """Raised if a source has found damaged files. The source ignores these files from now on, so
    that the failed read can be repeated."""


def said_of(source: Source) -> list[str]:
    """Returns one sentence for each damaged file that has been found in a source so far."""
    return source.said if isinstance(source, ArchiveSource) else []


def whole(source: Source, work: Callable[[], T]) -> T:
    """Runs a function that reads a source, and returns its result.

    If the function fails because files of an archive are damaged, the source leaves these files out
    and the function runs again. If the source is a folder of tables, a damaged file can't be left
    out, and PipelineError names the file.
    """
    while True:
        try:
            with naming_damage(source):
                return work()
        except LeftOut:
            continue


@contextmanager
def naming_damage(source: Source) -> Iterator[None]:
    """If the block fails, checks whether damaged files are the cause: reads every file of the
    source completely.

    Raises LeftOut if files of an archive are damaged, and PipelineError if a file of a table is
    damaged. Otherwise raises the error of the block.
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
                f"{source.where} has damaged files: run the command again; the next run leaves"
                " these files out"
            ) from error
        raise
