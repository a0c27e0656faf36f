"""What happened in a cluster, as its journal keeps it: one entry, and the line of it.

An entry is about a name: a partition, a broker, a topic, or the controller. Who saw it writes it:
the controller why it moved a leader, a leader why a replica fell out of the ISR. The lines are in
docs/cluster-journal.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from journal.entry import Fields
from journal.lines import Form, number_of, text_of
from journal.texts import Source, sentence_bytes

NOBODY = -1
CONTROLLER = "controller"
"""The name of the controller's own story; a partition's ends in its number."""
SESSION = "zookeeper"
"""That of this broker's session."""

_ENTRY_BYTES = 700


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
        return _ENTRY_BYTES + sentence_bytes(self.why)


def _replicas(value: Any) -> tuple[int, ...]:
    return tuple([number_of(each) for each in value])


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
