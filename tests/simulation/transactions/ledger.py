"""The transactions of clients, and what the clients know about the outcomes.

A `Deed` is one transaction as its producer intends it: its records by partition, in order, and the
offsets of its group. read_committed consumers must see all of it or nothing: all if its commit was
acknowledged, nothing if no commit was requested, and either if the response was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""A topic and a partition."""


class Outcome(Enum):
    """The outcome of a deed, as its client knows it."""

    OPEN = "open"
    """The client is still sending the requests of the deed."""
    COMMITTED = "committed"
    """The commit was acknowledged."""
    ABORTED = "aborted"
    """No commit was requested, and no commit will be requested."""
    UNKNOWN = "unknown"
    """The commit was requested and not answered: either outcome is possible."""


@dataclass(eq=False)
class Deed:
    """One transaction of one producer."""

    producer: str
    number: int
    """The number of the deed, which increases with each deed of the producer."""
    rules: int
    parts: dict[Place, list[bytes]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """The offsets that the deed commits for the producer's group, by partition of the source
    topic."""
    outcome: Outcome = Outcome.OPEN
    commit_asked: bool = False
    producer_ids: set[tuple[int, int]] = field(default_factory=set)
    """The producer ids and epochs of the deed's requests."""

    def value(self, index: int) -> bytes:
        """Returns the value of the deed's record ``index``, which is unique in the world."""
        return b"%b/%d/%d" % (self.producer.encode(), self.number, index)

    @property
    def metadata(self) -> str:
        """Returns the metadata of the deed's committed offsets."""
        return f"{self.producer}/{self.number}"

    def given_up(self) -> None:
        """Notes that the client abandons the deed."""
        if self.outcome is Outcome.OPEN:
            self.outcome = Outcome.UNKNOWN if self.commit_asked else Outcome.ABORTED


class Ledger:
    """All deeds of a world, by the name that their records contain."""

    def __init__(self) -> None:
        self.deeds: dict[str, Deed] = {}
        self.strays: dict[tuple[int, int], int] = {}
        """The earliest deed of each producer id and epoch whose request may arrive late."""
        self.fences: dict[tuple[int, int], dict[Place, int]] = {}
        """The log end offsets when a client received a producer id and epoch: after these offsets,
        no record may have the same id and an older epoch."""

    def begin(self, deed: Deed) -> Deed:
        self.deeds[deed.metadata] = deed
        return deed

    def fence(self, producer_id: int, epoch: int, ends: dict[Place, int]) -> None:
        """Notes that a response contains this producer id and epoch."""
        self.fences.setdefault((producer_id, epoch), ends)

    def of_value(self, value: bytes) -> Deed:
        """Returns the deed of a record."""
        producer, number, _ = value.decode().rsplit("/", 2)
        return self.deeds[f"{producer}/{number}"]

    def stray(self, deed: Deed, producer_id: int, epoch: int) -> None:
        """Notes that a request of a deed may be delivered a second time, late."""
        key = producer_id, epoch
        self.strays[key] = min(deed.number, self.strays.get(key, deed.number))

    def excused(self, deed: Deed) -> bool:
        """Returns True if a delayed request may have split a deed of a correct client.

        With transaction.version 1 a transaction has no epoch of its own: a request of an earlier
        transaction that arrives during the next transaction counts as part of the next transaction.
        KIP-890 closes this gap with version 2. A delayed EndTxn ends the next transaction too
        early, and a delayed TxnOffsetCommit adds old offsets to it. Deeds of version 2 are never
        excused.
        """
        return deed.rules == 1 and any(
            self.strays.get(key, deed.number) < deed.number for key in deed.producer_ids
        )
