"""Log lines: structlog set up once for the whole process.

`--set log.format=json` gives a JSON object a line, `console` a readable one (coloured on a
terminal), both on standard error, which `muster serve` has a thread write
(broker/loop/log_writer.py). What peers send (client ids, group ids) is escaped.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

from broker.time import Time

FORMATS = ("console", "json")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _escaped(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Make every text printable: what a peer calls itself can't break a line or a terminal.

    A traceback of ours keeps its lines, each of them made printable.
    """
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            lines = value.split("\n") if key == "exception" else [value]
            event[key] = "\n".join(map(_printable, lines))
    return event


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _stamped(time: Time) -> Processor:
    """What gives each line the wall clock's time: UTC to the millisecond, as `muster` shows it."""

    def stamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
        at = datetime.fromtimestamp(time.wall_s(), UTC)
        event["timestamp"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    return stamp


def _never_failing(processors: list[Processor]) -> Processor:
    """One processor that does what these do; what can't be shown costs its line, not the work."""

    def render(logger: Any, method: str, event: EventDict) -> Any:
        shown: Any = event
        what = event.get("event")
        try:
            for process in processors:
                shown = process(logger, method, shown)
            return shown
        except Exception as error:  # noqa: BLE001 - whoever logs must feel nothing of it (law 10)
            return _printable(f"{method}: {what!s:.200} ({type(error).__name__} in its log line)")

    return render


def configure(time: Time, log_format: str, level: str = "info") -> None:
    """Send log lines to standard error; ``log_format`` is one of FORMATS."""
    renderer: Any
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(sort_keys=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=24, sort_keys=False
        )
    structlog.configure(
        processors=[
            _never_failing(
                [
                    structlog.processors.add_log_level,
                    _stamped(time),
                    structlog.processors.format_exc_info,
                    _escaped,
                    renderer,
                ]
            )
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
