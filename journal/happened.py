"""The entries of the cluster's journal and their lines.

An entry is about a name: a partition, a broker, a topic, or the controller. The broker that
observes an event writes the entry: the controller writes why it changed a leader, a leader writes
why a replica left the ISR. The lines are in docs/formats/journals.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from journal.entry import Fields
from journal.lines import Form, number_of, text_of
from journal.pages import Page, Ring
from journal.texts import Source, long_bytes
from journal.unsaved import Unsaved

NOBODY = -1
CONTROLLER = "controller"
"""The name of the controller's page. It can't be the name of a partition, since partition names end
in a number."""
SESSION = "zookeeper"
"""The name of the page of this broker's ZooKeeper session."""

KEPT = 16
"""The maximum number of entries that are kept for each kind and name."""
_NAME_BYTES = 500
_ENTRY_BYTES = 750


class Kind(StrEnum):
    """The kind of an entry; the last few entries of each kind are kept."""

    LEADER = "leader"
    """A partition got another leader, or lost its leader."""
    ISR = "isr"
    """The ISR of a partition changed."""
    MOVE = "move"
    """A partition is being reassigned to other replicas."""
    TOPIC = "topic"
    """A topic is being deleted."""
    BROKER = "broker"
    """A broker joined, left or rejected a request."""
    CONTROLLER = "controller"
    """A broker became or stopped being the controller, or this broker follows another controller.
    """
    SESSION = "session"
    """This broker's ZooKeeper session or registration changed."""


class Happened(NamedTuple):
    """One past event of the cluster."""

    at_ms: int
    kind: Kind
    cause: str
    """A keyword for the cause."""
    why: str
    """The reason, as a sentence for users."""
    broker: int = NOBODY
    """The id of the broker that the event is about, if any."""
    controller_epoch: int = -1
    leader: int = NOBODY
    leader_before: int = NOBODY
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    isr_before: tuple[int, ...] = ()
    records: int = -1
    """The lag of the replica in records; -1 if unknown or not applicable."""
    source: Source = Source.SEEN

    @property
    def ring(self) -> tuple[Kind, int]:
        """The ring of the entry.

        ISR entries have one ring for each replica, so that a replica that often leaves and rejoins
        the ISR does not displace the entries of other replicas.
        """
        return self.kind, self.broker if self.kind is Kind.ISR else NOBODY

    @classmethod
    def read(cls, fields: Fields) -> Happened:
        """Returns an entry with these fields of a line."""
        rest = fields.copy()
        del rest["name"]
        values: dict[str, Any] = {
            "kind": Kind(rest.pop("kind")),
            "cause": text_of(rest.pop("cause")),
            "why": text_of(rest.pop("why")),
            "isr": _replicas(rest.pop("isr", [])),
            "isr_before": _replicas(rest.pop("isr_before", [])),
            "source": Source.KEPT,
        }
        values |= {each: number_of(value) for each, value in rest.items()}
        return cls(**values)

    def fields(self) -> Fields:
        """The fields of the entry's line, without fields that have the default."""
        fields = self._asdict()
        del fields["source"]
        for left_out, default in self._field_defaults.items():
            if fields.get(left_out) == default:
                del fields[left_out]
        return fields

    def copied(self) -> Happened:
        """Implements `Entry.copied`."""
        return self

    def size(self) -> int:
        """Estimated memory of the entry in bytes."""
        return _ENTRY_BYTES + long_bytes(self.why)


Named = tuple[str, Happened]
"""The name of a page, and an entry of that page."""


def _replicas(value: Any) -> tuple[int, ...]:
    return tuple([number_of(each) for each in value])


class HappenedPage(Page):
    """The page of one name, with a ring for each kind of entry. The entries of the page do not
    change."""

    __slots__ = ("_kinds",)

    def __init__(self, name: str, unsaved: Unsaved | None = None) -> None:
        super().__init__(name, unsaved, _NAME_BYTES)
        self._kinds: dict[tuple[Kind, int], Ring[Happened]] = {}

    def entries(self) -> list[Happened]:
        """All entries, the oldest first."""
        return sorted([each for ring in self._kinds.values() for each in ring], key=_at)

    def last(self, kind: Kind, broker: int = NOBODY) -> Happened | None:
        """Return the last entry of a kind; for the ISR, the last entry of one replica."""
        ring = self._kinds.get((kind, broker))
        return None if ring is None else ring.last

    def add(self, entry: Happened) -> None:
        """Adds a new entry, and marks the entry for saving."""
        self.restore(entry)
        self.save((*entry.ring, self._kinds[entry.ring].number), entry)

    def restore(self, entry: Happened) -> None:
        """Implements `Page.restore`: loads an entry that an earlier run saved."""
        ring = self._kinds.get(entry.ring)
        if ring is None:
            ring = self._kinds[entry.ring] = self.ring(KEPT)
        ring.put(ring.number + 1, entry)


def _at(entry: Happened) -> int:
    return entry.at_ms


FORM = Form(
    "cluster.journal",
    "muster_cluster_journal",
    1,
    "name",
    {kind.value: Happened.read for kind in Kind},
)


def of_partition(topic: str, partition: int) -> str:
    """The name of a partition's page."""
    return f"{topic}-{partition}"


def of_broker(broker: int) -> str:
    """Returns the name of a broker's page. The name has a space, so that it differs from all topic
    names."""
    return f"broker {broker}"


def of_topic(topic: str) -> str:
    """The name of a topic's page."""
    return f"topic {topic}"
