"""The entries of the cluster's journal and their lines in the file.

An entry is about a partition, a broker, a topic, or the controller. The broker that observes an
event writes the entry. The controller writes why it changed a leader; a leader writes why a replica
left the ISR. The lines are described in docs/formats/journals.md.
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
"""The name of the controller's page. It differs from all names of partitions, because these end in
a number."""
SESSION = "zookeeper"

KEPT = 16
"""The maximum number of entries that are kept in each ring of a page (see `Happened.ring`)."""
_NAME_BYTES = 500
_ENTRY_BYTES = 750


class Kind(StrEnum):
    """The kind of a journal entry."""

    LEADER = "leader"
    ISR = "isr"
    MOVE = "move"
    """A reassignment of a partition has begun or ended."""
    TOPIC = "topic"
    """The deletion of a topic was requested, has begun or has ended."""
    BROKER = "broker"
    """A broker joined, left, lost log directories or rejected a request."""
    CONTROLLER = "controller"
    """A broker became the controller or is no longer the controller."""
    SESSION = "session"


class Happened(NamedTuple):
    """One past event of the cluster."""

    at_ms: int
    kind: Kind
    cause: str
    why: str
    broker: int = NOBODY
    """The id of the broker that the event is about; -1 if the event is not about a broker."""
    controller_epoch: int = -1
    leader: int = NOBODY
    leader_before: int = NOBODY
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    isr_before: tuple[int, ...] = ()
    records: int = -1
    """The lag of the replica in records; -1 if it is unknown or the event is not about a replica.
    """
    source: Source = Source.SEEN

    @property
    def ring(self) -> tuple[Kind, int]:
        """Returns the key of the ring to which the entry belongs. ISR entries have one ring for
        each replica, so that a replica that often leaves and rejoins the ISR does not displace the
        entries of other replicas."""
        return self.kind, self.broker if self.kind is Kind.ISR else NOBODY

    @classmethod
    def read(cls, fields: Fields) -> Happened:
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
        """Returns the fields of the entry's line, without fields that have the default value."""
        fields = self._asdict()
        del fields["source"]
        for left_out, default in self._field_defaults.items():
            if fields.get(left_out) == default:
                del fields[left_out]
        return fields

    def copied(self) -> Happened:
        return self

    def size(self) -> int:
        return _ENTRY_BYTES + long_bytes(self.why)


Named = tuple[str, Happened]
"""The name of a page, and an entry for this page."""


def _replicas(value: Any) -> tuple[int, ...]:
    return tuple([number_of(each) for each in value])


class HappenedPage(Page):
    """The past events of one partition, topic or broker, or of the controller. The entries never
    change. Each kind of entry has its own ring."""

    __slots__ = ("_kinds",)

    def __init__(self, name: str, unsaved: Unsaved | None = None) -> None:
        super().__init__(name, unsaved, _NAME_BYTES)
        self._kinds: dict[tuple[Kind, int], Ring[Happened]] = {}

    def entries(self) -> list[Happened]:
        return sorted([each for ring in self._kinds.values() for each in ring], key=_at)

    def last(self, kind: Kind, broker: int = NOBODY) -> Happened | None:
        """Returns the last entry of a kind; for the kind ISR, the last entry of the replica on
        ``broker``."""
        ring = self._kinds.get((kind, broker))
        return None if ring is None else ring.last

    def add(self, entry: Happened) -> None:
        self.restore(entry)
        self.save((*entry.ring, self._kinds[entry.ring].number), entry)

    def restore(self, entry: Happened) -> None:
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
    return f"{topic}-{partition}"


def of_broker(broker: int) -> str:
    """Returns the name of a broker's page. The name has a space, so that it differs from all topic
    names."""
    return f"broker {broker}"


def of_topic(topic: str) -> str:
    return f"topic {topic}"
