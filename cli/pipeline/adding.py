"""Appends to an archive: opens it, reports its growth, and summarizes the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.markup import escape

from cli import output
from cli.client.security import security_of
from cli.pipeline.extra import sentences
from cli.times import instant

if TYPE_CHECKING:
    from pipeline.run.collect import Collected
    from pipeline.run.job_options import JobOptions
    from pipeline.sources.feed import News
    from pipeline.sources.stored import StoredFeed
    from pipeline.sources.wire.feed import BrokerFeed
    from pipeline.storage.archive import Archive
    from pipeline.storage.manifest import Manifest


@dataclass
class Added:
    """Counts the events that a command appended to an archive."""

    archive: str
    cluster_id: str | None = None
    read_until_ms: int | None = None
    events: int = 0
    """The number of events in the archive at the end of the command."""
    added: int = 0
    stretches: int = 0
    damaged: int = 0
    lost: int = 0
    """The number of ranges of records that were deleted from the log before the command could read
    them."""
    interrupted: bool = False

    def take(self, before: Manifest, manifest: Manifest) -> None:
        """Computes the fields of this object from the manifests before and after the command. The
        numbers in `GrowthReport` are not used, because they lack events that an interrupted read
        has appended."""
        self.added = manifest.rows("events") - before.rows("events")
        self.cluster_id = manifest.cluster_id
        self.read_until_ms = manifest.read_until_ms
        self.events = manifest.rows("events")

    def __str__(self) -> str:
        what = output.counted(self.added, "new record") if self.added else "nothing new"
        until = (
            f"; the source was read until {instant(self.read_until_ms)}"
            if self.read_until_ms
            else ""
        )
        has = output.counted(self.events, "record")
        return f"{self.archive}: {what}; the archive has {has}{until}"


class Growing(NamedTuple):
    """An archive to which a command appends, and the source of new events."""

    feed: BrokerFeed | StoredFeed
    news: News
    """The records that the first read of the source has found."""
    archive: Archive


@contextmanager
def growing(wanted: JobOptions, interrupted: str) -> Iterator[Growing]:
    """Yields the requested archive, locked against other writers until the block ends. Errors in
    the block become CommandErrors. After Ctrl-C the error text ends with ``interrupted``."""
    from pipeline.run.collect import archive_in
    from pipeline.sources.open import open_feed

    security = security_of(wanted.settings)
    with (
        sentences(None, interrupted),
        closing(open_feed(wanted.source, security, wanted.timeout_s)) as feed,
        _saying(feed),
        archive_in(wanted.out, (news := feed.look()).cluster_id) as archive,
    ):
        yield Growing(feed, news, archive)


@contextmanager
def _saying(feed: BrokerFeed | StoredFeed) -> Iterator[None]:
    """When the block ends, warns about each damaged file of the source."""
    try:
        yield
    finally:
        for sentence in feed.said:
            output.warn(sentence)


class GrowthReport:
    """Reports how an archive grows."""

    def __init__(self, came: Added, show: Callable[[str], None]) -> None:
        self._came = came
        self._show = show

    def looked(self, collected: Collected) -> None:
        came = self._came
        came.added += collected.events
        came.stretches += collected.stretches
        came.damaged += collected.damaged
        came.lost += len(collected.lost)
        came.damaged += len(collected.set_aside)
        for sentence in (*collected.set_aside, *collected.lost):
            output.warn(sentence)
        for topic in collected.forgotten:
            output.warn(
                f"topic {topic} was recreated, and its offsets now belong to other records: the"
                " timestamps of the old records are dropped"
            )
        if collected.damaged > len(collected.lost):
            output.warn(
                f"{output.counted(collected.damaged, 'part')} of the history could not be read:"
                " see table quarantine of the archive"
            )
        at = "now" if collected.at_ms is None else instant(collected.at_ms)
        self._show(f"{at}: {output.counted(came.added, 'new record')}")

    def away(self, why: str | None) -> None:
        """Reports ``why``, the reason that no broker answers. If ``why`` is None, reports that a
        broker answers again."""
        if why is None:
            output.warn("a broker answers again: continuing")
        else:
            output.warn(f"{why}; retrying until a broker answers")


@contextmanager
def line() -> Iterator[Callable[[str], None]]:
    """Yields a function that replaces the text of a status line. The line is shown only if standard
    error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading the history") as status:
        yield lambda text: status.update(escape(text))
