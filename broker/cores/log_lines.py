"""Log lines: structlog set up once, and a line for each fact of the core that people look for.

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
from coordinator.events import (
    Event,
    GenerationFormed,
    GroupRemoved,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    OffsetsExpired,
    OffsetsExpiring,
    OffsetsMovedBack,
    Transition,
    some_of,
)

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
    """What gives each line the wall clock's time, as structlog's own `TimeStamper` writes it."""

    def stamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
        at = datetime.fromtimestamp(time.wall_s(), UTC)
        event["timestamp"] = at.isoformat().replace("+00:00", "Z")
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


logger = structlog.get_logger()


def observe(event: Event) -> None:
    """Write the line of one fact of the core, where it has one."""
    if isinstance(event, Transition):
        logger.info(
            "group state changed",
            group=event.group_id,
            old=event.old_state,
            new=event.new_state,
            generation=event.generation_id,
            cause=str(event.cause),
            detail=event.detail,
            **_awaited(event),
        )
    elif isinstance(event, GenerationFormed):
        logger.info(
            "generation formed",
            group=event.group_id,
            generation=event.generation_id,
            protocol=event.protocol_name,
            leader=event.leader,
            members=event.members,
            join_ms=event.join_ms,
        )
    elif isinstance(event, MemberJoined):
        logger.info(
            "member joined",
            group=event.group_id,
            member=event.member_id,
            instance=event.group_instance_id,
            client=event.client_id,
            host=event.client_host,
            reason=event.reason,
        )
    elif isinstance(event, MemberLeft):
        logger.info(
            "member gone",
            group=event.group_id,
            member=event.member_id,
            instance=event.group_instance_id,
            client=event.client_id,
            host=event.client_host,
            cause=str(event.cause),
            detail=event.detail,
        )
    elif isinstance(event, MemberChanged):
        logger.info(
            "member changed",
            group=event.group_id,
            member=event.member_id,
            client=event.client_id,
            host=event.client_host,
            detail=event.detail,
        )
    else:
        _observe_offsets(event)


def _awaited(event: Transition) -> dict[str, Any]:
    """Whom the group now waits for, and how long at most."""
    if not event.awaited:
        return {}
    return {"waits_for": some_of(list(event.awaited), ", "), "wait_ms": event.wait_ms}


def _observe_offsets(event: Event) -> None:
    if isinstance(event, OffsetsMovedBack):
        first = event.examples[0]
        logger.warning(
            "offsets moved back",
            group=event.group_id,
            member=event.member_id,
            client=event.client_id,
            host=event.client_host,
            offsets=event.offsets,
            example=f"{first.topic}-{first.partition}: {first.offset_before} to {first.offset}",
        )
    elif isinstance(event, OffsetsExpiring):
        logger.warning(
            "offsets will expire",
            group=event.group_id,
            offsets=event.offsets,
            within_ms=event.within_ms,
            detail=event.detail,
        )
    elif isinstance(event, OffsetsExpired):
        logger.info(
            "offsets removed", group=event.group_id, offsets=event.offsets, cause=str(event.cause)
        )
    elif isinstance(event, GroupRemoved):
        logger.info("group removed", group=event.group_id, cause=str(event.cause))
