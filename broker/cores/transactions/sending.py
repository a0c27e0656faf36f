"""Whom a transaction's markers are written by, and what is known of those that are on their way."""

from __future__ import annotations

from asyncio import Event
from collections import deque
from typing import TYPE_CHECKING, Protocol

from broker.topics.registry import OFFSETS_TOPIC
from broker.topics.ticket import Ticket
from log.values import Marker
from protocol.errors import NONE
from transactions.outcome import SendMarkers

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from broker.cores.transactions.runtime import HostedTransactions

Place = tuple[str, int]
"""Topic and partition."""


class Destination(Protocol):
    """The leader of a partition: this broker, or another."""

    def write(self, topic: str, partition: int, marker: Marker, ticket: Ticket) -> None:
        """Has a marker written; ``ticket`` takes the partition's error code, now or later."""

    def coordinator_epoch(self, topic: str, partition: int, producer_id: int) -> int:
        """The highest coordinator epoch of a producer's markers; -1 where that is not known."""


class Sending:
    """The markers of one transaction that are on their way."""

    __slots__ = (
        "again",
        "hosted",
        "late",
        "marker",
        "markers",
        "over",
        "refused",
        "rounds",
        "timer",
        "todo",
        "waiting",
    )

    def __init__(self, markers: SendMarkers, hosted: HostedTransactions) -> None:
        self.markers = markers
        self.hosted = hosted
        """Whose transaction it is."""
        self.marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            hosted.leader_epoch,
            markers.committed,
            markers.rules,
        )
        self.todo: deque[Place] = deque()
        """The partitions to be asked in this round, the offsets topic's first."""
        self.waiting = 0
        """How many were asked and have not answered."""
        self.again: dict[Place, int] = {}
        """The partitions that failed in this round, and their errors."""
        self.late: tuple[Place, ...] = ()
        """The partitions that failed when they were last asked."""
        self.refused = NONE
        """INVALID_PRODUCER_EPOCH if a partition has ended it under a newer epoch."""
        self.rounds = 0
        """The number of failed rounds."""
        self.timer: TimerHandle | None = None
        self.over = Event()
        """The transaction is complete."""
        for topic, partitions in markers.partitions:
            places = [(topic, partition) for partition in partitions]
            if topic == OFFSETS_TOPIC:
                self.todo.extendleft(reversed(places))
            else:
                self.todo.extend(places)
