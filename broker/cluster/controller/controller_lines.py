"""The controller's log lines: new leaders with the reason, and added and removed brokers and
topics.

Equal events within `TOGETHER_S` share one log line. After the loss of a broker that led a thousand
partitions, there is one line for each new leader broker, with a count. A line is therefore late by
at most `TOGETHER_S`, and the number of lines is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from broker.time import Time
from controller.events import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    ControllerReady,
    DeletionQueued,
    Event,
    LogDirsFailed,
    NoLeader,
    OtherController,
    ReassignmentDone,
    ReassignmentStarted,
    RequestRefused,
    ShutdownAsked,
    StateWritten,
    TopicAdded,
    TopicRemoved,
)
from controller.values import NO_LEADER
from protocol.errors import NAMES

logger = structlog.get_logger(__name__)

TOGETHER_S = 0.5
"""The time in seconds for which events are collected before their log lines are written."""
LINES_MAX = 50
"""The maximum number of log lines that are written at a time. One more line has the number of
omitted events."""
NAMES_MAX = 5
"""The maximum number of topics or partitions that one log line names."""


class _Line(NamedTuple):
    """The text and fields of a log line. Events with the same text and fields share one line."""

    text: str
    fields: tuple[tuple[str, object], ...] = ()
    is_warning: bool = False
    names: str = "partitions"
    """The name of the log field that lists the topics or partitions."""


@dataclass(slots=True)
class _Events:
    """The topics or partitions of the events that share one log line."""

    count: int = 0
    names: list[str] = field(default_factory=list)


class ControllerLines:
    """An observer that logs the controller's events. Only the event loop's thread may use this
    class."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._pending: dict[_Line, _Events] = {}
        self._left_out = 0

    def observe(self, event: Event) -> None:
        """Collects an event for the next log lines."""
        found = _line_of(event)
        if found is None:
            return
        line, names = found
        events = self._pending.get(line)
        if events is None:
            if not self._pending:
                self._time.call_later(TOGETHER_S, self.write_lines)
            if len(self._pending) == LINES_MAX:
                self._left_out += 1
                return
            events = self._pending[line] = _Events()
        events.count += len(names)
        events.names += names[: NAMES_MAX - len(events.names)]

    def write_lines(self) -> None:
        lines, self._pending = self._pending, {}
        left_out, self._left_out = self._left_out, 0
        for line, events in lines.items():
            write = logger.warning if line.is_warning else logger.info
            more = {"count": events.count} if events.count > len(events.names) else {}
            names = {line.names: events.names} if events.names else {}
            write(line.text, **dict(line.fields), **names, **more)
        if left_out:
            logger.warning("controller events omitted from the log", events=left_out)


def _line_of(event: Event) -> tuple[_Line, Sequence[str]] | None:
    """Returns the log line of an event, and the topics or partitions for the line to name.

    Returns None if the event is not logged.
    """
    match event:
        case StateWritten() | NoLeader() | LogDirsFailed() | OtherController():
            return _of_partitions(event)
        case ReassignmentStarted(topic, index):
            return _Line("reassignment started"), [f"{topic}-{index}"]
        case ReassignmentDone(topic, index):
            return _Line("reassignment completed"), [f"{topic}-{index}"]
        case TopicAdded(name):
            return _Line("topics created or partitions added", names="topics"), [name]
        case TopicRemoved(name):
            return _Line("topics deleted", names="topics"), [name]
        case DeletionQueued(name, waits_for) if waits_for:
            return _Line(
                "topic deletion is waiting for brokers", _fields(brokers=waits_for), names="topics"
            ), [name]
        case _:
            return _of_brokers(event)


def _of_partitions(
    event: StateWritten | NoLeader | LogDirsFailed | OtherController,
) -> tuple[_Line, Sequence[str]] | None:
    match event:
        case LogDirsFailed(broker, partitions):
            line = _Line("replicas offline: log directory failed", _fields(broker=broker), True)
            return line, [f"{topic}-{index}" for topic, index in partitions]
        case NoLeader(topic, index, isr):
            line = _Line(
                "partitions without leader: no live broker in the ISR", _fields(isr=isr), True
            )
            return line, [f"{topic}-{index}"]
        case OtherController(topic, index, epoch):
            line = _Line(
                "partition states were written by a later controller", _fields(epoch=epoch), True
            )
            return line, [f"{topic}-{index}"]
        case StateWritten():
            if event.leader in (NO_LEADER, event.leader_before) or event.cause is Cause.CREATED:
                return None
            line = _Line(
                "partition leader changed",
                _fields(leader=event.leader, before=event.leader_before, reason=event.cause.value),
                event.cause is Cause.UNCLEAN,
            )
            return line, [f"{event.topic}-{event.partition}"]


def _of_brokers(event: Event) -> tuple[_Line, Sequence[str]] | None:
    match event:
        case ControllerReady(epoch, brokers, topics, partitions):
            fields = _fields(epoch=epoch, brokers=brokers, topics=topics, partitions=partitions)
            return _Line("controller started", fields), ()
        case BrokerJoined(broker, epoch, bounced):
            text = "broker restarted" if bounced else "broker joined"
            return _Line(text, _fields(broker=broker, epoch=epoch)), ()
        case BrokerLeft(broker, epoch):
            return _Line("broker left", _fields(broker=broker, epoch=epoch), True), ()
        case ShutdownAsked(broker):
            return _Line("broker shutting down", _fields(broker=broker)), ()
        case RequestRefused(broker, request, error):
            fields = _fields(broker=broker, request=request, error=NAMES.get(error, error))
            return _Line("broker rejected controller request", fields, True), ()
        case _:
            return None


def _fields(**values: object) -> tuple[tuple[str, object], ...]:
    return tuple(values.items())
