"""The transactions that clients intend, and what they know of their ends.

A `Deed` is one transaction as its producer intends it: its records by partition, in order, and
the offsets of its group. Whatever happens, read_committed consumers must see all of it or
nothing: all if its commit was acknowledged, nothing if no commit was requested, and either if
the response was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""A topic and a partition."""


class Outcome(Enum):
    """The known end of a deed."""

    OPEN = "open"
    """Its client is working on it."""
    COMMITTED = "committed"
    """Its commit was acknowledged."""
    ABORTED = "aborted"
    """No commit was or will be requested."""
    UNKNOWN = "unknown"
    """Its commit was requested without a response: either outcome is possible."""


@dataclass(eq=False)
class Deed:
    """One transaction of one producer."""

    producer: str
    number: int
    """It increases with each of the producer's transactions."""
    rules: int
    parts: dict[Place, list[bytes]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """By partition of the source topic, for the producer's group."""
    outcome: Outcome = Outcome.OPEN
    commit_asked: bool = False
    producer_ids: set[tuple[int, int]] = field(default_factory=set)
    """Producer ids and epochs of its requests."""

    def value(self, index: int) -> bytes:
        """The value of its record of that number; no other record has it."""
        return b"%b/%d/%d" % (self.producer.encode(), self.number, index)

    @property
    def metadata(self) -> str:
        """The metadata of its committed offsets."""
        return f"{self.producer}/{self.number}"

    def given_up(self) -> None:
        """Its client abandons it."""
        if self.outcome is Outcome.OPEN:
            self.outcome = Outcome.UNKNOWN if self.commit_asked else Outcome.ABORTED


class Ledger:
    """All deeds of a world, by the name that is in their records."""

    def __init__(self) -> None:
        self.deeds: dict[str, Deed] = {}
        self.strays: dict[tuple[int, int], int] = {}
        """By producer id and epoch, the earliest deed of which a request may arrive late."""
        self.fences: dict[tuple[int, int], dict[Place, int]] = {}
        """By producer id and epoch, the log ends when a client was given these: no record of the
        same id and an older epoch may follow."""

    def begin(self, deed: Deed) -> Deed:
        self.deeds[deed.metadata] = deed
        return deed

    def fence(self, producer_id: int, epoch: int, ends: dict[Place, int]) -> None:
        """A response leaves that gives a client this producer id and epoch."""
        self.fences.setdefault((producer_id, epoch), ends)

    def of_value(self, value: bytes) -> Deed:
        """The deed of a record."""
        producer, number, _ = value.decode().rsplit("/", 2)
        return self.deeds[f"{producer}/{number}"]

    def stray(self, deed: Deed, producer_id: int, epoch: int) -> None:
        """A request of a deed may arrive again, late."""
        key = producer_id, epoch
        self.strays[key] = min(deed.number, self.strays.get(key, deed.number))

    def excused(self, deed: Deed) -> bool:
        """Whether a delayed request may have torn a deed that its client did correctly.

        With transaction.version 1 a transaction has no own epoch: a request of an earlier one
        that arrives while it is open counts for it, the hole that KIP-890 closes with version 2.
        A delayed EndTxn ends it too early, a delayed TxnOffsetCommit writes old offsets into it.
        Version 2 is never excused.
        """
        return deed.rules == 1 and any(
            self.strays.get(key, deed.number) < deed.number for key in deed.producer_ids
        )
