"""What happened in a cluster, as its journal keeps it: one entry, and the line of it.

An entry is about a name: a partition, a broker, a topic, or the controller. Who saw it writes it:
the controller why it moved a leader, a leader why a replica fell out of the ISR. The lines are in
docs/formats/cluster-journal.md.
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
"""The name of the controller's own story; a partition's ends in its number."""
SESSION = "zookeeper"
"""That of this broker's session."""

KEPT = 16
"""Of each kind and name."""
_NAME_BYTES = 500
_ENTRY_BYTES = 750


class Kind(StrEnum):
    """What an entry is about; the last few of each kind are kept."""

    LEADER = "leader"
    """A partition has another leader, or none."""
    ISR = "isr"
    """A partition has other in-sync replicas."""
    MOVE = "move"
    """A partition is on its way to other replicas."""
    TOPIC = "topic"
    """A topic is being deleted."""
    BROKER = "broker"
    """A broker came, went or refused something."""
    CONTROLLER = "controller"
    """A broker began or ceased to be the controller, or another one is obeyed."""
    SESSION = "session"
    """This broker's session with ZooKeeper, and its registration."""


class Happened(NamedTuple):
    """One thing that happened."""

    at_ms: int
    kind: Kind
    cause: str
    """A word for it."""
    why: str
    """The sentence that a person reads."""
    broker: int = NOBODY
    """Whom it is about, where that is one broker."""
    controller_epoch: int = -1
    leader: int = NOBODY
    leader_before: int = NOBODY
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    isr_before: tuple[int, ...] = ()
    records: int = -1
    """How many records the replica was behind; -1: it is not known, or of no meaning."""
    source: Source = Source.SEEN

    @property
    def ring(self) -> tuple[Kind, int]:
        """What it shares its ring with: replicas that come and go push out no other."""
        return self.kind, self.broker if self.kind is Kind.ISR else NOBODY

    @classmethod
    def read(cls, fields: Fields) -> Happened:
        """The entry of a line."""
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
        """Its line; what it has not is left out."""
        fields = self._asdict()
        del fields["source"]
        for left_out, default in self._field_defaults.items():
            if fields.get(left_out) == default:
                del fields[left_out]
        return fields

    def copied(self) -> Happened:
        """See `Entry`."""
        return self

    def size(self) -> int:
        """Estimated bytes."""
        return _ENTRY_BYTES + long_bytes(self.why)


Named = tuple[str, Happened]
"""An entry, and the name that it is about."""


def _replicas(value: Any) -> tuple[int, ...]:
    return tuple([number_of(each) for each in value])


class HappenedPage(Page):
    """What is kept of one name: a ring of each kind; an entry does not change."""

    __slots__ = ("_kinds",)

    def __init__(self, name: str, unsaved: Unsaved | None = None) -> None:
        super().__init__(name, unsaved, _NAME_BYTES)
        self._kinds: dict[tuple[Kind, int], Ring[Happened]] = {}

    def entries(self) -> list[Happened]:
        """All that is kept, the oldest first."""
        return sorted([each for ring in self._kinds.values() for each in ring], key=_at)

    def last(self, kind: Kind, broker: int = NOBODY) -> Happened | None:
        """The last of a kind; of the ISR, that of one replica."""
        ring = self._kinds.get((kind, broker))
        return None if ring is None else ring.last

    def add(self, entry: Happened) -> None:
        """It has happened."""
        self.restore(entry)
        self.save((*entry.ring, self._kinds[entry.ring].number), entry)

    def restore(self, entry: Happened) -> None:
        """See `Page`."""
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
    """The name of a partition's story."""
    return f"{topic}-{partition}"


def of_broker(broker: int) -> str:
    """The name of a broker's story; no topic's name has a space."""
    return f"broker {broker}"


def of_topic(topic: str) -> str:
    """The name of a topic's story."""
    return f"topic {topic}"
