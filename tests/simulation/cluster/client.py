"""The base class of all clients of a cluster, which searches for the broker that serves a client.

A client asks any broker for the leader or coordinator that it needs, and connects to that broker.
It searches again if that broker is down or does not serve the request. It knows only brokers that
responses name. It has one connection at a time, so a client that needs several brokers uses them
one after another (`errand`).
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
"""Marks a request that searches for the client's broker (see `look`), in the field ``about`` of the
sent request."""


class ClusterClient(Client):
    """A client of a cluster. Subclasses define the request that finds the client's broker (`look`),
    and the requests to this broker (`work`)."""

    writes = True
    """True if the requests of this client append records. Such a client sends no requests while the
    cluster's `hushed` is set, so that all replicas become equal."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, **more: Any
    ) -> None:
        super().__init__(cast("Any", cluster), name, host, chance, **more)
        self.cluster = cluster
        self._found: dict[Hashable, int] = {}
        """The id of the broker that serves each `errand`. An errand is a group, a partition or
        another target of requests that one broker serves."""
        self._at = ANYBODY
        self.served = 0
        """The number of requests that brokers have served."""

    @property
    def node_id(self) -> int:
        """Returns the id of the broker that serves `errand`; ANYBODY if the broker is unknown."""
        return self._found.get(self.errand, ANYBODY)

    @property
    def errand(self) -> Hashable:
        """Returns a key of the client's current task, such as a partition; None by default.
        Requests for tasks with the same key are sent to the same broker."""
        return None

    # -- for subclasses

    def look(self) -> WireRequest:
        """Returns the request with which the client finds the broker that serves `errand`."""
        raise NotImplementedError

    def found(self, answer: dict[str, Any]) -> int:
        """Returns the broker in ``answer``, the response to the request that `look` has built.
        Returns ANYBODY if the response names no broker."""
        raise NotImplementedError

    def work(self) -> None:
        """Sends a request to the broker that serves the current `errand`, or schedules the next
        action."""
        raise NotImplementedError

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        """Processes the response to a request of `work`, and schedules the next action."""
        raise NotImplementedError

    def go_elsewhere(self) -> None:
        """Forgets the broker to which the client sends the requests of `errand`, and looks it up
        again. Called after an error such as NOT_LEADER_OR_FOLLOWER."""
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
    """Returns a Metadata request for ``topics``. Its response names the partition leaders and the
    controller."""
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
    """Returns the leader of a partition according to a Metadata response, or ANYBODY if it is
    unknown."""
    for each in answer["topics"]:
        for found in each["partitions"]:
            if (each["name"], found["partition_index"]) == (topic, partition):
                return int(found["leader_id"])
    return ANYBODY


def controller_in(answer: dict[str, Any], brokers: int) -> int:
    """Returns the controller according to a Metadata response, or ANYBODY if the response lists
    fewer than ``brokers`` brokers."""
    return int(answer["controller_id"]) if len(answer["brokers"]) >= brokers else ANYBODY


def coordinator_request(key: str, kind: int) -> WireRequest:
    """Returns a FindCoordinator request. ``kind`` is 0 for a group and 1 for a transactional id."""
    return WireRequest("FindCoordinator", 2, {"key": key, "key_type": kind})


def coordinator_in(answer: dict[str, Any]) -> int:
    return int(answer["node_id"]) if answer["error_code"] == NONE else ANYBODY
