"""Configures structlog for the whole process, and formats log lines.

With `--set log.format=json`, each line is a JSON object. With `console`, lines are for people, and
coloured on a terminal. Log lines go to standard error; in `muster serve` a thread writes them
(broker/loop/log_writer.py). Text from peers, such as client ids and group ids, is escaped.
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
    """Escapes unprintable characters in every field, so that text from a peer can't break a line or
    a terminal.

    A traceback keeps its line breaks; each of its lines is escaped.
    """
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            lines = value.split("\n") if key == "exception" else [value]
            event[key] = "\n".join(map(_printable, lines))
    return event


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _stamped(time: Time) -> Processor:
    """Returns a processor that adds the wall time to each line, in UTC and with milliseconds. The
    commands of `muster` print times in the same format."""

    def stamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
        at = datetime.fromtimestamp(time.wall_s(), UTC)
        event["timestamp"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    return stamp


def _never_failing(processors: list[Processor]) -> Processor:
    """Returns a processor that runs ``processors`` and never raises. If a line can't be rendered, a
    short replacement is logged."""

    def render(logger: Any, method: str, event: EventDict) -> Any:
        shown: Any = event
        what = event.get("event")
        try:
            for process in processors:
                shown = process(logger, method, shown)
            return shown
        except Exception as error:  # noqa: BLE001 - logging must not affect its caller (law 10)
            return _printable(
                f"{method}: {what!s:.200} (fields omitted: {type(error).__name__} while they were"
                " formatted)"
            )

    return render


def configure(time: Time, log_format: str, level: str = "info") -> None:
    """Configures structlog to write to standard error. ``log_format`` is one of FORMATS, ``level``
    one of LEVELS."""
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
