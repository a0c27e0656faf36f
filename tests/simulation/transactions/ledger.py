"""What clients mean their transactions to be, and what they know of how these ended.

A `Deed` is one transaction as its producer means it: its records by partition, in order, and the
offsets of its group. Whatever happens, committed readers must see all of it or nothing: all where
its commit was acknowledged, nothing where none was ever asked for, and either where the answer was
lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""A topic and a partition."""


class Outcome(Enum):
    """What is known of the end of a deed."""

    OPEN = "open"
    """Its client is at it."""
    COMMITTED = "committed"
    """That was acknowledged."""
    ABORTED = "aborted"
    """Nobody has asked to commit it, and nobody will."""
    UNKNOWN = "unknown"
    """It was asked for, and there was no answer: either."""


@dataclass(eq=False)
class Deed:
    """One transaction of one producer."""

    producer: str
    number: int
    """It counts up with each of the producer's transactions."""
    rules: int
    parts: dict[Place, list[bytes]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """By partition of the source topic, for the producer's group."""
    outcome: Outcome = Outcome.OPEN
    commit_asked: bool = False
    producer_ids: set[tuple[int, int]] = field(default_factory=set)
    """Under which ids and epochs it was written."""

    def value(self, index: int) -> bytes:
        """The value of its record of that number; no other record has it."""
        return b"%b/%d/%d" % (self.producer.encode(), self.number, index)

    @property
    def metadata(self) -> str:
        """What its offsets are committed with."""
        return f"{self.producer}/{self.number}"

    def given_up(self) -> None:
        """Its client will not end it any more."""
        if self.outcome is Outcome.OPEN:
            self.outcome = Outcome.UNKNOWN if self.commit_asked else Outcome.ABORTED


class Ledger:
    """All deeds of a world, by the name that is in their records."""

    def __init__(self) -> None:
        self.deeds: dict[str, Deed] = {}
        self.strays: dict[tuple[int, int], int] = {}
        """By producer id and epoch the earliest deed of which a request may come late."""
        self.fences: dict[tuple[int, int], dict[Place, int]] = {}
        """By producer id and epoch, where the logs ended when a client was given these: nobody
        writes by the same id and an older epoch from there on."""

    def begin(self, deed: Deed) -> Deed:
        """Enter a deed."""
        self.deeds[deed.metadata] = deed
        return deed

    def fence(self, producer_id: int, epoch: int, ends: dict[Place, int]) -> None:
        """An answer leaves that gives somebody this producer id and epoch."""
        self.fences.setdefault((producer_id, epoch), ends)

    def of_value(self, value: bytes) -> Deed:
        """Whose record that is."""
        producer, number, _ = value.decode().rsplit("/", 2)
        return self.deeds[f"{producer}/{number}"]

    def stray(self, deed: Deed, producer_id: int, epoch: int) -> None:
        """A request of a deed may come once more, and late."""
        key = producer_id, epoch
        self.strays[key] = min(deed.number, self.strays.get(key, deed.number))

    def excused(self, deed: Deed) -> bool:
        """Whether a delayed request may have torn a deed that its client did all right.

        Under TV1 a transaction has no epoch of its own: a request of an earlier one that comes when
        it is open counts for it, the hole that KIP-890 closes with TV2. A delayed EndTxn ends it
        too early, a delayed TxnOffsetCommit writes old offsets into it. TV2 is never excused.
        """
        return deed.rules == 1 and any(
            self.strays.get(key, deed.number) < deed.number for key in deed.producer_ids
        )
