"""Determines the as-of of a run: the time for which its results hold.

The results of a past window hold for the end of the window. The results of an archive hold for the
time of the last read into the archive. Later events are unknown, so their absence proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError, WrongUse
from pipeline.model.params import DAY_MS, OFFSETS_RETENTION, Params
from pipeline.times import instant

_LOG_END: Final = """
    SELECT max(unix_millis(coalesce(written_at, commit_at))) AS last_ms FROM {history}
"""
_TOPICS_END: Final = """
    SELECT max(last_ms) AS last_ms FROM (
        SELECT max_by(unix_millis(last_at), base_offset) AS last_ms FROM stretches
        WHERE last_offset >= base_offset AND last_at IS NOT NULL GROUP BY topic, partition
    ) AS ends WHERE last_ms <= {until_ms}
"""


@dataclass(frozen=True)
class Span:
    """The requested times in milliseconds; None for a time that was not requested."""

    since_ms: int | None = None
    until_ms: int | None = None
    as_of_ms: int | None = None

    def __post_init__(self) -> None:
        """Raises WrongUse if the span is empty."""
        end = self.as_of_ms if self.until_ms is None else self.until_ms
        if self.since_ms is not None and end is not None and self.since_ms >= end:
            word = "--as-of" if self.until_ms is None else "--until"
            raise WrongUse(
                f"--since {instant(self.since_ms)} is not before {word} {instant(end)}: the window"
                " is empty"
            )


def params_of(span: Span, end_ms: int, offsets_retention: timedelta = OFFSETS_RETENTION) -> Params:
    """Returns the Params of a run over a history that is complete until ``end_ms``.

    The as-of time is the time that ``span`` requests. If ``span`` requests none, it is the end of
    the selected history. Raises PipelineError if the window does not begin before the as-of time.
    """
    as_of_ms = span.as_of_ms
    if as_of_ms is None:
        as_of_ms = end_ms if span.until_ms is None else min(span.until_ms, end_ms)
    if span.since_ms is not None and span.since_ms >= as_of_ms:
        raise PipelineError(
            f"the history has no records after {instant(span.since_ms)}: it ends at"
            f" {instant(as_of_ms)}; choose an earlier window"
        )
    retention_ms = round(offsets_retention.total_seconds() * 1000)
    return Params(as_of_ms, span.since_ms, retention_ms, read_ms=end_ms)


def end_of_history(engine: Engine, history: str, now_ms: int) -> int:
    """Returns the time in ms at which a history in files ends: the last time in the relation
    ``history``. If the relation `stretches` has later times, at most a day later, returns the last
    of these instead.

    Times after ``now_ms`` do not count. If ``history`` has no times, returns ``now_ms``.
    """
    [log] = engine.ask(_LOG_END.format(history=history))
    if log["last_ms"] is None:
        return now_ms
    end_ms: int = min(log["last_ms"], now_ms)
    [topics] = engine.ask(_TOPICS_END.format(until_ms=min(end_ms + DAY_MS, now_ms)))
    return end_ms if topics["last_ms"] is None else max(end_ms, topics["last_ms"])
