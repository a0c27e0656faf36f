"""The state of the markers of a transaction while they are sent, and the interface of their
destinations."""

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
"""The topic and the index of a partition."""


class Destination(Protocol):
    """Writes transaction markers to partitions that have the same leader: this broker, or one other
    broker."""

    def write(self, topic: str, partition: int, marker: Marker, ticket: Ticket) -> None:
        """Writes a marker. ``ticket`` gets the partition's error code, during this call or
        later."""

    def coordinator_epoch(self, topic: str, partition: int, producer_id: int) -> int:
        """Returns the highest coordinator epoch of the markers of a producer in a partition; -1 if
        it is unknown."""


class Sending:
    """The state of one transaction whose markers are being sent."""

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
        self.marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            hosted.leader_epoch,
            markers.committed,
            markers.rules,
        )
        self.todo: deque[Place] = deque()
        """The partitions to which no marker was sent in the current round of attempts. The
        partitions of ``__consumer_offsets`` come first."""
        self.waiting = 0
        """The number of markers that were sent and have not been answered."""
        self.again: dict[Place, int] = {}
        """The partitions that rejected their marker in this round, with their error codes."""
        self.late: tuple[Place, ...] = ()
        """The partitions that rejected their marker in the previous round."""
        self.refused = NONE
        """INVALID_PRODUCER_EPOCH if a partition has a newer producer epoch than the marker;
        otherwise NONE."""
        self.rounds = 0
        """The number of rounds in which markers were sent and a partition rejected its marker."""
        self.timer: TimerHandle | None = None
        self.over = Event()
        """An event that is set when the transaction is complete and no more markers are sent."""
        for topic, partitions in markers.partitions:
            places = [(topic, partition) for partition in partitions]
            if topic == OFFSETS_TOPIC:
                self.todo.extendleft(reversed(places))
            else:
                self.todo.extend(places)
