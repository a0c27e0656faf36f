"""`muster pipeline events`: the history itself, as an archive that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from cli import output
from cli.errors import FOUND, INTERRUPTED, USAGE, CommandError
from cli.options import seconds
from cli.pipeline.engine import Conf, EngineName, Master, Verbose, means_of
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.jobs import run_job_command
from cli.pipeline.options import takes
from cli.pipeline.source import check_out, is_address
from cli.times import instant
from pipeline.run.options import JOB_OPTIONS, Given

if TYPE_CHECKING:
    from pipeline.run.asked import Asked
    from pipeline.run.collect import Collected
    from pipeline.sources.feed import Feed, News
    from pipeline.storage.archive import Archive

_A_PART = ("group", "since", "until", "as_of", "partitions", "topic", "overwrite")
"""With one of these a table is made, which does not grow."""


@takes(JOB_OPTIONS)
def events(
    given: Given,
    follow: Annotated[
        bool, typer.Option("--follow", help="Add what a broker writes, until Ctrl-C.")
    ] = False,
    until_now: Annotated[
        bool,
        typer.Option("--until-now", help="With --follow: end when all that is there is added."),
    ] = False,
    every: Annotated[
        float, seconds("--every", least=0.1, help="With --follow: how long from look to look.")
    ] = 10.0,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """The history itself, as an archive: run again, or with --follow, it adds what is new.

    A selection of it (--group, --until and so on) is a table instead, which does not grow.
    """
    means = means_of(engine, master, conf, verbose)
    if until_now and not follow:
        raise CommandError("--until-now goes with --follow", USAGE)
    parts = [f"--{name.replace('_', '-')}" for name in _A_PART if given[name]]
    parts += [name for name, value in (("--engine", engine), ("--master", master)) if value]
    if parts and follow:
        raise CommandError(
            f"--follow adds the whole history, without an engine: leave out {', '.join(parts)}",
            USAGE,
        )
    if parts:
        run_job_command("events", given, means)
        return
    needs(*LIGHT)
    with sentences():
        from pipeline.run.asked import asked

        wanted = asked(given)
    check_out(wanted.out)
    if follow and not until_now and not is_address(wanted.source):
        raise CommandError(
            f"{wanted.source} is no broker: name one as HOST:PORT, or add --until-now to add what"
            " is new there once",
            USAGE,
        )
    _show(_added(wanted, every if follow and not until_now else None), wanted)


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


def _added(wanted: Asked, every_s: float | None) -> Added:
    """Add once, or every so many seconds until the user ends it."""
    from pipeline.run.collect import archive_in
    from pipeline.sources.open import open_feed

    came = Added(wanted.out)
    with (
        sentences(None, "the archive is whole"),
        closing(open_feed(wanted.source, timeout_s=wanted.timeout_s)) as feed,
        archive_in(wanted.out, (news := feed.look()).cluster_id) as archive,
    ):
        try:
            with _line() as show:
                _add(wanted, feed, news, archive, every_s, _Told(came, show))
        except KeyboardInterrupt:
            came.interrupted = True
        came.cluster_id = archive.manifest.cluster_id
        came.read_until_ms = archive.manifest.read_until_ms
        came.events = archive.manifest.rows("events")
    return came


def _add(
    wanted: Asked,
    feed: Feed,
    news: News,
    archive: Archive,
    every_s: float | None,
    told: _Told,
) -> None:
    from pipeline.run.collect import collect, follow

    with_topics = wanted.options.with_topics
    told.looked(collect(news, archive, with_topics))
    if every_s is None:
        return
    output.warn(f"following {wanted.source} into {wanted.out}; end with Ctrl-C")
    follow(feed, archive, told.looked, told.away, every_s, with_topics)


class _Told:
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
        for sentence in collected.lost:
            output.warn(sentence)
        for topic in collected.forgotten:
            output.warn(
                f"the topic {topic} was deleted and made again: what was known of the times of its"
                " records is dropped, since its offsets mean other records now"
            )
        at = instant(collected.at_ms) if collected.at_ms is not None else "now"
        self._show(f"{at}: {output.counted(came.added, 'record')} added")

    def away(self, why: str | None) -> None:
        """No broker answers, for a reason; one answers again for None."""
        if why is None:
            output.warn("a broker answers again: going on")
        else:
            output.warn(f"{why}; trying again until one answers")


@contextmanager
def _line() -> Iterator[Callable[[str], None]]:
    """What shows a line that changes: on a terminal, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading the history") as status:
        yield lambda text: status.update(escape(text))


def _show(came: Added, wanted: Asked) -> None:
    if came.damaged:
        output.warn(
            f"{output.counted(came.damaged, 'part')} of the history could not be read;"
            " the table quarantine has them"
        )
    if wanted.json:
        output.show_json(asdict(came))
    else:
        what = output.counted(came.added, "record") if came.added else "nothing new"
        until = f", read until {instant(came.read_until_ms)}" if came.read_until_ms else ""
        has = output.counted(came.events, "record")
        output.say(f"{came.archive}: {what} added; it has {has}{until}")
    if came.interrupted:
        raise typer.Exit(INTERRUPTED)
    if wanted.fail_on_damage and came.damaged:
        raise typer.Exit(FOUND)
