"""What clients of a cluster have in common: they look for the broker that serves them.

Such a client asks any broker who leads what, and goes there. When that one does not serve it, or is
gone, it asks anew. It knows of brokers only what they tell. It has one connection at a time: one
that needs several brokers goes from one to the other (`errand`).
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import TYPE_CHECKING, Any, cast

from protocol.errors import NONE
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest
from tests.simulation.whole.process import PORT

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld
    from tests.simulation.whole.network import Wire

ANYBODY = -1
ASKS_AGAIN_NS = (20 * MS, 100 * MS, 500 * MS)
_LOOKS = object()
"""What a request is about that asks for the broker of an errand."""


class ClusterClient(Client):
    """Subclasses say what they ask to find their broker (`look`), and what they do there."""

    writes = True
    """It says nothing more when the world is hushed."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, **more: Any
    ) -> None:
        super().__init__(cast("Any", cluster), name, host, chance, **more)
        self.cluster = cluster
        self._found: dict[Hashable, int] = {}
        """The broker that serves each errand, as far as it knows."""
        self._at = ANYBODY
        """The broker that it is connected to."""
        self.served = 0
        """How often it got what it asked for."""

    @property
    def node_id(self) -> int:
        """The broker that serves what it is at, or ANYBODY."""
        return self._found.get(self.errand, ANYBODY)

    @property
    def errand(self) -> Hashable:
        """What it is at; each has a broker of its own, which `look` and `found` look for."""
        return None

    # -- for subclasses

    def look(self) -> WireRequest:
        """What is asked to find the broker that serves this client."""
        raise NotImplementedError

    def found(self, answer: dict[str, Any]) -> int:
        """That broker, by the answer to what `look` asks; ANYBODY: there is none now."""
        raise NotImplementedError

    def work(self) -> None:
        """At the broker that serves it: ask something, or think later."""
        raise NotImplementedError

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        """Take the answer to what was asked by `work`, and think later."""
        raise NotImplementedError

    def go_elsewhere(self) -> None:
        """The broker does not serve it: look for another."""
        self._found.pop(self.errand, None)
        self.think_after(self.chance.choice(ASKS_AGAIN_NS))

    # -- Client

    def _reach(self) -> Wire | None:
        self._at = self.node_id
        if self._at == ANYBODY:
            self._at = self.chance.choice(self.cluster.machines).node_id
        wire = self.cluster.by_id[self._at].network.connect(PORT, self.host)
        if wire is None:
            self._found.pop(self.errand, None)
        return wire

    def lost(self) -> None:
        self._found.pop(self.errand, None)

    def act(self) -> None:
        if self.cluster.hushed and self.writes:
            self.think_after(1 * S)
        elif self.node_id == ANYBODY:
            self.send(self.look(), _LOOKS)
        elif self.node_id != self._at:
            assert self.wire is not None
            self.wire.close()
            self._connect()
        else:
            self.work()

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.about is not _LOOKS:
            self.heard(sent, answer)
            return
        node_id = self._found[self.errand] = self.found(answer)
        if node_id != ANYBODY:
            self.think_after(0)
        elif self.chance.random() < 0.5:
            self.drop_connection()
            self.think_after(self.chance.choice(ASKS_AGAIN_NS))
        else:
            self.think_after(self.chance.choice(ASKS_AGAIN_NS))


def metadata_request(topics: list[str]) -> WireRequest:
    """Who leads the partitions of some topics, and who is the controller."""
    return WireRequest(
        "Metadata",
        9,
        {
            "topics": [{"name": name} for name in topics],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
    )


def leader_in(answer: dict[str, Any], topic: str, partition: int) -> int:
    """The leader of a partition as Metadata says, ANYBODY where it says none."""
    for each in answer["topics"]:
        for found in each["partitions"]:
            if (each["name"], found["partition_index"]) == (topic, partition):
                return int(found["leader_id"])
    return ANYBODY


def controller_in(answer: dict[str, Any], brokers: int) -> int:
    """The controller as Metadata says; ANYBODY where it knows of fewer than so many brokers."""
    return int(answer["controller_id"]) if len(answer["brokers"]) >= brokers else ANYBODY


def coordinator_request(key: str, kind: int) -> WireRequest:
    """Who coordinates a group (0) or a transactional id (1)."""
    return WireRequest("FindCoordinator", 2, {"key": key, "key_type": kind})


def coordinator_in(answer: dict[str, Any]) -> int:
    """The coordinator as FindCoordinator says."""
    return int(answer["node_id"]) if answer["error_code"] == NONE else ANYBODY
