"""The state of the controller's work: the partitions whose state must be checked, the writes in
flight, and the outcome so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from controller.batch import Batch
from controller.calls import Ticket
from controller.cluster import Cluster
from controller.events import ControllerResigned, Event
from controller.facts import Result, WriteResult
from controller.outcome import DeleteNodes, Outcome, Read, ReadStates, Reply, Write
from controller.partition import Partition, Topic
from controller.requests import Send
from controller.values import Replicas, TopicPartition

RETRY_MS = 1000
"""Milliseconds after which a write or a read that failed with an unknown error is retried."""

Landed = Callable[[WriteResult], None]


@dataclass(slots=True)
class Shutdown:
    """A ControlledShutdown that is not answered yet. The controller first has to move the
    leaderships of the broker. ``number`` is the number of the parked ticket."""

    number: int
    waits_for: set[Partition] = field(default_factory=set)
    """The partitions of the broker that `settle` has not handled since the ControlledShutdown
    request arrived. The controller answers the request when this set is empty."""


class Work:
    """The state that all modules of the controller share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ready = False
        self.resigned = ""
        self.now_ms = 0
        self.leaderless: deque[Partition] = deque()
        """The partitions that `settle` must check first: their leader is lost, or a new leader has
        been written and must be sent to brokers."""
        self.backlog: deque[Partition] = deque()
        """The partitions that `settle` must check after the partitions in ``leaderless``. A
        partition is in at most one of the two queues, and at most once."""
        self.sweeps: deque[Iterator[None]] = deque()
        """Long work, as iterators. Each step of an iterator does one unit of work."""
        self.results: deque[WriteResult] = deque()
        self.retries: list[Callable[[], None]] = []
        self.retry_due_ms: int | None = None
        self.balance_due_ms: int | None = None
        self.shutdowns: dict[int, Shutdown] = {}
        self.queued: dict[str, Topic] = {}
        """The topics whose deletion is requested but has not begun, by name."""
        self.look_at_queued = False
        self.names_seen: set[str] | None = None
        """The topic names of the last `TopicsSeen` that arrived before `Ready`."""
        self.unknown_deletions: set[str] = set()
        """Topics whose deletion was requested before the controller read their znodes."""
        self.moves_node: dict[TopicPartition, Replicas] | None = None
        """The content of `/admin/reassign_partitions`; None if the znode does not exist."""
        self.moves_in_flight = False
        self.moves_seen: Mapping[TopicPartition, Replicas] | None = None
        """The content of `/admin/reassign_partitions`, if the controller read it while its own
        write of this znode was in flight; otherwise None. The controller handles this content when
        the write has ended."""
        self.moves_asked: dict[TopicPartition, Replicas] = {}
        """The reassignments that `/admin/reassign_partitions` requested and that are not done yet,
        with their target replicas."""
        self._landed: dict[int, Landed] = {}
        self._parked: dict[int, tuple[Ticket, Reply]] = {}
        self._numbers = 0
        self._states: list[TopicPartition] = []
        self._writes: list[Write] = []
        self._reads: list[Read] = []
        self._replies: list[tuple[Ticket, Reply]] = []
        self._events: list[Event] = []
        self._sends: list[Send] = []
        self.batch = Batch(cluster)

    # ------------------------------------------------------------------------- the outcome

    def take(self) -> Outcome:
        """Returns the outcome so far, and begins a new outcome."""
        self.flush()
        if self._states:
            self._reads.append(ReadStates(self._states))
            self._states = []
        more = bool(self.leaderless or self.backlog or self.sweeps or self.results) and self.ready
        outcome = Outcome(
            self._writes, self._sends, self._reads, self._replies, self._events,
            self.resigned, more,
        )  # fmt: skip
        self._writes, self._sends, self._reads = [], [], []
        self._replies, self._events = [], []
        return outcome

    def flush(self) -> None:
        """Closes the current batch of requests to brokers. Later changes are added to the requests
        of a new batch."""
        self._sends += self.batch.take()

    def report(self, event: Event) -> None:
        self._events.append(event)

    # ------------------------------------------------------------------- writes and reads

    def number(self) -> int:
        """Returns a new number, which identifies a write or a parked ticket."""
        self._numbers += 1
        return self._numbers

    def write(self, write: Write, landed: Landed) -> None:
        """Adds a write to the outcome; ``landed`` is called with the result of the write."""
        self._writes.append(write)
        self._landed[write.ticket] = landed

    def delete_nodes(self, paths: Sequence[str]) -> None:
        """Deletes znodes whose content was handled, such as notifications. Retries after a
        failure."""

        def landed(result: WriteResult) -> None:
            if result.result is not Result.OK:
                self.retry(partial(self.delete_nodes, paths))

        self.write(DeleteNodes(self.number(), paths), landed)

    def land(self, result: WriteResult) -> None:
        landed = self._landed.pop(result.ticket, None)
        if landed is None:
            return
        if result.result is Result.FENCED:
            self.resign("another broker has been elected controller")
        else:
            landed(result)

    def read(self, read: Read) -> None:
        self._reads.append(read)

    def read_state(self, partition: Partition) -> None:
        self._states.append(partition.key)

    def retry(self, again: Callable[[], None]) -> None:
        """Calls ``again`` after `RETRY_MS`, because a write or a read failed with an unknown
        error."""
        self.retries.append(again)
        if self.retry_due_ms is None:
            self.retry_due_ms = self.now_ms + RETRY_MS

    @property
    def writing(self) -> int:
        """The number of writes whose result has not arrived yet."""
        return len(self._landed)

    @property
    def waiting(self) -> int:
        return len(self._parked)

    # -------------------------------------------------------------------------- the backlog

    def mark(self, partition: Partition, *, leaderless: bool = False) -> None:
        """Queues a partition for `settle`, before other partitions if ``leaderless``. The caller
        sets ``leaderless`` if the partition has no leader that can accept writes."""
        if not partition.dirty and self.ready:
            partition.dirty = True
            (self.leaderless if leaderless else self.backlog).append(partition)

    # -------------------------------------------------------------------------- the tickets

    def park(self, ticket: Ticket, refusal: Reply) -> int:
        """Parks a ticket and returns its number. ``refusal`` is the reply that the ticket gets if
        this controller resigns."""
        number = self.number()
        self._parked[number] = ticket, refusal
        return number

    def answer(self, number: int, reply: Reply) -> None:
        parked = self._parked.pop(number, None)
        if parked is not None:
            self._replies.append((parked[0], reply))

    def reply(self, ticket: Ticket, reply: Reply) -> None:
        """Replies to a call whose ticket was not parked."""
        self._replies.append((ticket, reply))

    def resign(self, reason: str) -> None:
        """Ends all work. Each parked ticket gets the reply that was passed to ``park`` as
        ``refusal``."""
        if self.resigned:
            return
        self.resigned = reason
        self.ready = False
        self._replies += self._parked.values()
        for waiting in (
            self._parked, self._landed, self.leaderless, self.backlog, self.sweeps, self.results,
            self.retries, self.shutdowns, self.queued,
        ):  # fmt: skip
            waiting.clear()
        self.retry_due_ms = self.balance_due_ms = None
        self._writes, self._sends, self._reads, self._states = [], [], [], []
        self.batch = Batch(self.cluster)
        self.report(ControllerResigned(reason))
