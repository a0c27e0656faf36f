"""The journal of a cluster as this broker saw it, and its file: docs/cluster-journal.md.

It tells what this broker did as controller and why, which replicas fell out of sync of what it
leads, who told it what, and what became of its session. What other brokers saw is in theirs:
`muster cluster why` asks them all.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.cores.journal_file import JournalFile
from broker.cores.journal_keeper import JournalKeeper, Spawn
from broker.time import Time
from controller.events import Event as ControllerEvent
from controller.journal import Story
from journal.happened import FORM, Happened, Kind
from journal.rings import Rings
from journal.unsaved import Unsaved
from log.filesystem import FileSystem
from protocol.now import Now
from replication.events import Event as ReplicaEvent
from replication.journal import fold

KEPT = 16
"""Of each kind and name."""
BYTES_KEPT = 32 << 20


class ClusterJournal:
    """The stories of partitions, brokers and topics, and of the controller."""

    def __init__(
        self,
        node_id: int,
        bytes_kept: int = BYTES_KEPT,
        unsaved: Unsaved | None = None,
    ) -> None:
        self._controller = Story(node_id)
        self._rings: Rings[Happened] = Rings(lambda each: each.ring, KEPT, bytes_kept, unsaved)

    # -- reading

    def of(self, name: str) -> list[Happened]:
        """What is kept of a name, the oldest first."""
        return sorted(self._rings.of(name), key=lambda each: each.at_ms)

    def last(self, name: str, kind: Kind, broker: int = -1) -> Happened | None:
        """The last of a kind; of the ISR, that of one replica."""
        return self._rings.last(name, (kind, broker))

    def latest(self) -> Iterator[tuple[str, list[Happened]]]:
        """All names, the one to which something happened last first."""
        return self._rings.latest()

    # -- the fold

    def observe(self, event: ControllerEvent | ReplicaEvent, now: Now) -> None:
        """Take in one fact."""
        if isinstance(event, ReplicaEvent):
            told = fold(event, now)
        else:
            told = self._controller.fold(event, now)
        for name, entry in told:
            if not self._is_known(name, entry):
                self._rings.add(name, entry)

    def _is_known(self, name: str, entry: Happened) -> bool:
        """Whether the controller here has told of that leader, or it is the one of before."""
        if entry.kind is not Kind.LEADER or entry.cause != "told":
            return False
        last = self._rings.last(name, entry.ring)
        return last is not None and last.leader == entry.leader

    def restore(self, name: str, entry: Happened) -> None:
        """Take over an entry that an earlier run wrote down; the oldest first."""
        self._rings.restore(name, entry)

    @property
    def ripens(self) -> bool:
        """Nothing does: all of it is written down when it happens."""
        return False

    def ripen(self, now: Now) -> None:
        """Nothing."""

    def save_counts(self) -> None:
        """Nothing is counted."""


ClusterJournalKeeper = JournalKeeper[ClusterJournal]


def cluster_journal_keeper(
    node_id: int, time: Time, spawn: Spawn, fs: FileSystem, directory: str, bytes_max: int
) -> ClusterJournalKeeper:
    """What happened in the cluster; without a file where ``bytes_max`` is 0."""
    unsaved = Unsaved()
    file = JournalFile(FORM, fs, directory, bytes_max) if bytes_max else None
    journal = ClusterJournal(node_id, unsaved=unsaved if bytes_max else None)
    return JournalKeeper(time, spawn, journal, unsaved, file)
