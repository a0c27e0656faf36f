"""The time that a run's answers hold for.

A past window is judged as of its end, and an archive as of its own: what happened later is not
known, and how long nothing has happened since is no news.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError, WrongUse
from pipeline.model.params import OFFSETS_RETENTION, Params
from pipeline.times import instant

_END: Final = "SELECT max(unix_millis(written_at)) AS events_ms FROM events"
_TOPICS_END: Final = """
    SELECT max(last_ms) AS topics_ms FROM (SELECT unix_millis(last_at) AS last_ms FROM stretches)
        AS dated WHERE last_ms <= {now_ms}
"""


@dataclass(frozen=True)
class Span:
    """What was asked for, in milliseconds; None is not."""

    since_ms: int | None = None
    until_ms: int | None = None
    as_of_ms: int | None = None

    def __post_init__(self) -> None:
        """WrongUse for a span in which nothing can be."""
        end = self.as_of_ms if self.until_ms is None else self.until_ms
        if self.since_ms is not None and end is not None and self.since_ms >= end:
            word = "--as-of" if self.until_ms is None else "--until"
            raise WrongUse(
                f"--since {instant(self.since_ms)} is not before {word} {instant(end)}: nothing"
                " lies between"
            )


def params_of(span: Span, end_ms: int, offsets_retention: timedelta = OFFSETS_RETENTION) -> Params:
    """Params of a run over a history that is whole until ``end_ms``.

    The as-of is the one asked for, else the end of what was selected. PipelineError for a window
    that begins after it.
    """
    as_of_ms = span.as_of_ms
    if as_of_ms is None:
        as_of_ms = end_ms if span.until_ms is None else min(span.until_ms, end_ms)
    if span.since_ms is not None and span.since_ms >= as_of_ms:
        raise PipelineError(
            f"--since {instant(span.since_ms)} is not before {instant(as_of_ms)}, where the"
            " history ends: ask for an earlier time, or name a later --as-of"
        )
    retention_ms = round(offsets_retention.total_seconds() * 1000)
    return Params(as_of_ms, span.since_ms, retention_ms, read_ms=end_ms)


def end_of_history(engine: Engine, now_ms: int) -> int:
    """When the last thing happened in relations `events` and `stretches`, no later than now.

    It is for a source that does not tell (`Source.end_ms`); now for a history without times.
    """
    [events] = engine.ask(_END)
    [topics] = engine.ask(_TOPICS_END.format(now_ms=now_ms))
    known = [ms for ms in (events["events_ms"], topics["topics_ms"]) if ms is not None]
    return min(max(known), now_ms) if known else now_ms
