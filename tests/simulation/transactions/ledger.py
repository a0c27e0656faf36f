"""The transactions of simulated clients, and the outcomes that the clients know.

A `Deed` is one transaction as its producer intends it: its records by partition, in order, and the
committed offsets of its group. A read_committed consumer must see the whole transaction if the
commit was acknowledged, and nothing of it if no commit was requested. If the response to the commit
was lost, the consumer must see the whole transaction or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""A topic and a partition."""


class Outcome(Enum):
    """The outcome of a transaction according to its client."""

    OPEN = "open"
    """The client still sends requests of the transaction."""
    COMMITTED = "committed"
    """The client received a successful response to the commit."""
    ABORTED = "aborted"
    """The client has not requested a commit and will not request one."""
    UNKNOWN = "unknown"
    """The client requested a commit and received no response. The transaction is committed or
    aborted."""


@dataclass(eq=False)
class Deed:
    """One transaction as its producer intends it."""

    producer: str
    number: int
    """The sequence number of the transaction, which increases with each transaction of the
    producer."""
    rules: int
    parts: dict[Place, list[bytes]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """The offsets that the transaction commits for the producer's group, by partition of the topic
    that the group reads."""
    outcome: Outcome = Outcome.OPEN
    commit_asked: bool = False
    producer_ids: set[tuple[int, int]] = field(default_factory=set)
    """Producer id and epoch of each request of the transaction."""

    def value(self, index: int) -> bytes:
        """Returns the value of record ``index`` of the transaction. The value is unique in the
        simulation."""
        return b"%b/%d/%d" % (self.producer.encode(), self.number, index)

    @property
    def metadata(self) -> str:
        """Returns the metadata with which the transaction commits offsets. The metadata identifies
        the transaction."""
        return f"{self.producer}/{self.number}"

    def given_up(self) -> None:
        """Notes that the client has abandoned the transaction. The outcome is UNKNOWN if the client
        has requested a commit, or else ABORTED."""
        if self.outcome is Outcome.OPEN:
            self.outcome = Outcome.UNKNOWN if self.commit_asked else Outcome.ABORTED


class Ledger:
    """All transactions of the producers of a simulation. Each transaction has a name, which the
    values of its records contain."""

    def __init__(self) -> None:
        self.deeds: dict[str, Deed] = {}
        self.strays: dict[tuple[int, int], int] = {}
        """By producer id and epoch: the number of a transaction. Late requests of this transaction
        and of later transactions may still arrive at the broker."""
        self.fences: dict[tuple[int, int], dict[Place, int]] = {}
        """By producer id and epoch: the log end offset of each partition when a client received
        this epoch. From this offset on, records of the same producer id must not have a lower
        epoch."""

    def begin(self, deed: Deed) -> Deed:
        self.deeds[deed.metadata] = deed
        return deed

    def fence(self, producer_id: int, epoch: int, ends: dict[Place, int]) -> None:
        """Notes the log end offsets ``ends`` at the time when a client receives a producer id and
        epoch."""
        self.fences.setdefault((producer_id, epoch), ends)

    def of_value(self, value: bytes) -> Deed:
        """Returns the transaction that wrote a record with ``value``."""
        producer, number, _ = value.decode().rsplit("/", 2)
        return self.deeds[f"{producer}/{number}"]

    def stray(self, deed: Deed, producer_id: int, epoch: int) -> None:
        """Notes that a request of the transaction ``deed`` may be delivered again later."""
        key = producer_id, epoch
        self.strays[key] = min(deed.number, self.strays.get(key, deed.number))

    def excused(self, deed: Deed) -> bool:
        """Returns True if a late request may have split the transaction ``deed`` although its
        client was correct.

        With transaction.version 1, all transactions of a producer have the same epoch. A request
        that arrives during the next transaction becomes part of the next transaction: a late EndTxn
        ends it too early, and a late TxnOffsetCommit adds old offsets to it. Version 2 (KIP-890)
        prevents this, so its transactions are never excused.
        """
        return deed.rules == 1 and any(
            self.strays.get(key, deed.number) < deed.number for key in deed.producer_ids
        )
