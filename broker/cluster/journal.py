"""The journal of cluster events that this broker observed; docs/formats/cluster-journal.md
describes the file.

The journal records this broker's actions as controller with their reasons, the replicas of its
partitions that left the ISR, the requests of controllers, and the state of this broker's ZooKeeper
session. Other brokers record what they observe: `muster cluster why` asks all brokers.
"""

from __future__ import annotations

from controller.events import Event as ControllerEvent
from controller.journal import Story
from journal.happened import FORM, Happened, HappenedPage, Kind
from journal.pages import Pages
from journal.unsaved import Unsaved
from protocol.now import Now
from replication.events import Event as ReplicaEvent
from replication.journal import entry

BYTES_KEPT = 32 << 20


class ClusterJournal(Pages[HappenedPage]):
    """The histories of partitions, brokers, topics and the controller."""

    form = FORM

    def __init__(
        self, node_id: int, unsaved: Unsaved | None = None, *, bytes_kept: int = BYTES_KEPT
    ) -> None:
        super().__init__(HappenedPage, bytes_kept, unsaved)
        self._controller = Story(node_id)

    def of(self, name: str) -> list[Happened]:
        """Returns the history of ``name`` (of a partition, topic or broker), the oldest entry
        first."""
        page = self.get(name)
        return [] if page is None else page.entries()

    def last(self, name: str, kind: Kind, broker: int = -1) -> Happened | None:
        """Returns the newest entry of ``kind`` in the history of ``name``. For ISR changes, only
        entries about the replica ``broker`` count."""
        page = self.get(name)
        return None if page is None else page.last(kind, broker)

    def observe(self, event: ControllerEvent | ReplicaEvent, now: Now) -> None:
        change = (
            entry(event, now)
            if isinstance(event, ReplicaEvent)
            else self._controller.entry(event, now)
        )
        if change is not None and not self._is_known(*change):
            name, happened = change
            page = self.turn_to(name)
            page.add(happened)
            self.count(page)

    def _is_known(self, name: str, entry: Happened) -> bool:
        """Returns True if ``entry`` reports the same leader as the last journal entry about a
        leader. For example, this broker, as the controller, has recorded the election already."""
        if entry.kind is not Kind.LEADER or entry.cause != "told":
            return False
        last = self.last(name, Kind.LEADER)
        return last is not None and last.leader == entry.leader
