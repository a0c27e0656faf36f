"""An archive that a command adds to: opened, told of while it grows, and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.markup import escape

from cli import output
from cli.client.security import told as security_told
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
    """What a command added to an archive."""

    archive: str
    cluster_id: str | None = None
    read_until_ms: int | None = None
    events: int = 0
    """That the archive has now."""
    added: int = 0
    """Events; the other figures are what was added too."""
    stretches: int = 0
    damaged: int = 0
    lost: int = 0
    """Stretches of records that were gone before they were read."""
    interrupted: bool = False

    def take(self, before: Manifest, manifest: Manifest) -> None:
        """How the archive was, and is now: a look that was cut short may have added rows."""
        self.added = manifest.rows("events") - before.rows("events")
        self.cluster_id = manifest.cluster_id
        self.read_until_ms = manifest.read_until_ms
        self.events = manifest.rows("events")

    def __str__(self) -> str:
        """As people read it."""
        what = output.counted(self.added, "new record") if self.added else "nothing new"
        until = f", read until {instant(self.read_until_ms)}" if self.read_until_ms else ""
        has = output.counted(self.events, "record")
        return f"{self.archive}: {what}; the archive has {has}{until}"


class Growing(NamedTuple):
    """An archive that a command adds to, and where what is new comes from."""

    feed: BrokerFeed | StoredFeed
    news: News
    """The first look."""
    archive: Archive


@contextmanager
def growing(wanted: JobOptions, interrupted: str) -> Iterator[Growing]:
    """The archive that is asked for, which nobody else writes until the block ends.

    A `CommandError` for whatever the block raises; ``interrupted`` says what a Ctrl-C leaves.
    """
    from pipeline.run.collect import archive_in
    from pipeline.sources.open import open_feed

    security = security_told(wanted.settings)
    with (
        sentences(None, interrupted),
        closing(open_feed(wanted.source, security, wanted.timeout_s)) as feed,
        _saying(feed),
        archive_in(wanted.out, (news := feed.look()).cluster_id) as archive,
    ):
        yield Growing(feed, news, archive)


@contextmanager
def _saying(feed: BrokerFeed | StoredFeed) -> Iterator[None]:
    """Say which files of a source are damaged, once what reads them has ended."""
    try:
        yield
    finally:
        for sentence in feed.said:
            output.warn(sentence)


class Told:
    """What happens while an archive is added to."""

    def __init__(self, came: Added, show: Callable[[str], None]) -> None:
        self._came = came
        self._show = show

    def looked(self, collected: Collected) -> None:
        """A look added this."""
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
                f"topic {topic} was recreated: the timestamps of its old records are dropped,"
                " since its offsets now belong to other records"
            )
        if collected.damaged > len(collected.lost):
            output.warn(
                f"{output.counted(collected.damaged, 'part')} of the history could not be read:"
                " see the table quarantine"
            )
        at = "now" if collected.at_ms is None else instant(collected.at_ms)
        self._show(f"{at}: {output.counted(came.added, 'new record')}")

    def away(self, why: str | None) -> None:
        """No broker answers, for a reason; one answers again for None."""
        if why is None:
            output.warn("a broker answers again: continuing")
        else:
            output.warn(f"{why}; retrying until a broker answers")


@contextmanager
def line() -> Iterator[Callable[[str], None]]:
    """What shows a line that changes: on a terminal, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading the history") as status:
        yield lambda text: status.update(escape(text))
