"""The methods that begin a fault, such as `fail` or `delay`. Each returns a `Fault`, which ends the
fault."""

from __future__ import annotations

from typing import Any, Self

from musterd.testing.errors import Refused
from musterd.testing.lasting import Lasting

Json = dict[str, Any]

_GONE = 404


class Verbs:
    """The interface through which the fault methods call the broker. `Muster` implements it."""

    def _ask(self, method: str, path: str, **arguments: object) -> Json:
        raise NotImplementedError

    def _is_there(self) -> bool:
        raise NotImplementedError


class Fault(Lasting):
    """A fault that lasts until `end`, the end of its `with` block, or `Muster.reset`.

    A fault without duration, such as a rebalance, needs no end.
    """

    _PATH = "/test/faults"

    def __init__(self, broker: Verbs, kind: str, id: object = None, hits: int = 0) -> None:
        self.kind = kind
        """The kind of fault, such as `fail`."""
        self._broker = broker
        self._id = id
        self._hits = hits

    @property
    def hits(self) -> int:
        """The number of requests, connections or members that the fault affected."""
        if self._id is not None and self._broker._is_there():
            for each in self._broker._ask("GET", self._PATH)["faults"]:
                if each["id"] == self._id:
                    self._hits = each["hits"]
        return self._hits

    def end(self) -> None:
        """End the fault. Do nothing if it has already ended."""
        if self._id is None or not self._broker._is_there():
            return
        try:
            self._hits = self._broker._ask("DELETE", f"{self._PATH}/{self._id}")["hits"]
        except Refused as refused:
            if refused.status != _GONE:  # it ended with a reset, or by itself
                raise
        self._id = None

    def __repr__(self) -> str:
        return f"<Fault {self.kind}, hits {self._hits}>"


class Moved(Fault):
    """A fault that makes clients look for the coordinator again, as if it had moved to another
    broker. In a `with` block, clients can't find the new coordinator before the end of the block.
    Without a `with` block, they can find it at once."""

    def __init__(self, broker: Verbs, group: str) -> None:
        super().__init__(broker, "moved", hits=1)
        self._group = group

    def __enter__(self) -> Self:
        asked = self._broker._ask("POST", "/test/faults", kind=self.kind, group=self._group)
        self._id = asked["id"]
        return self


class FaultVerbs(Verbs):
    """The methods of `Muster` that begin faults."""

    def rebalance(self, group: str) -> Fault:
        """Begin a rebalance, as if a member had joined: all members of the group rejoin.

        >>> with Muster() as broker:
        ...     broker.create_topic("orders")
        ...     with consuming(broker, "billing"):
        ...         before = broker.wait_for("billing").stable().generation_id
        ...         _ = broker.rebalance("billing")
        ...         broker.wait_for("billing").stable().generation_id - before
        1
        """
        answer = self._ask("POST", "/test/groups/rebalance", group=group)
        return Fault(self, "rebalance", hits=_count(answer["members"]))

    def expire(self, member: str, group: str | None = None) -> Fault:
        """Expire the session of a member, as if its heartbeats had stopped.

        `member` is the member id, or a client id or group.instance.id that only one member has.
        `group` is needed only if members of several groups match.
        """
        self._ask("POST", "/test/groups/expire", member=member, group=group)
        return Fault(self, "expire", hits=1)

    def fence(self, instance_id: str, group: str | None = None) -> Fault:
        """Fence a static member, as if another member had joined with the same `group.instance.id`.

        The next request of the fenced member fails with FENCED_INSTANCE_ID.
        """
        self._ask("POST", "/test/groups/fence", group_instance_id=instance_id, group=group)
        return Fault(self, "fence", hits=1)

    def move_coordinator(self, group: str) -> Fault:
        """Move the group's coordinator: clients get NOT_COORDINATOR and look up the new
        coordinator. In a `with` block, these lookups fail until the block ends."""
        self._ask("POST", "/test/groups/move_coordinator", group=group)
        return Moved(self, group)

    def loading(self, group: str, seconds: float | None = None) -> Fault:
        """Make the group's coordinator return COORDINATOR_LOAD_IN_PROGRESS, as it does while it
        loads groups. The fault lasts until it is ended, or for `seconds` of the broker's clock."""
        return self._begin("loading", group=group, seconds=seconds)

    def fail(
        self, api: str, error: str, *, times: int | None = None, group: str | None = None,
        topic: str | None = None, client_id: str | None = None,
    ) -> Fault:  # fmt: skip
        """Answer requests of an API with an error, without handling them.

        `api` and `error` are Kafka's names. The fault affects all requests, or the next `times`
        requests; `client_id`, `group` and `topic` restrict the fault to requests of this client id
        and requests that name this group or topic. Every error field of the response has the error.

        >>> with Muster() as broker, broker.fail("OffsetCommit", "NOT_COORDINATOR", times=1):
        ...     pass  # the next commit is refused, the one after it is not
        """
        return self._begin(
            "fail", api=api, error=error, times=times, group=group, topic=topic, client_id=client_id
        )

    def delay(
        self, api: str | None = None, ms: int = 1000, *, times: int | None = None,
        group: str | None = None, topic: str | None = None, client_id: str | None = None,
    ) -> Fault:  # fmt: skip
        """Delay requests of an API, or of all APIs, by `ms` milliseconds, as a slow broker does.

        The delay is real time, independent of the broker's clock. `times`, `group`, `topic` and
        `client_id` restrict the requests as in `fail`.
        """
        return self._begin(
            "delay", api=api, ms=ms, times=times, group=group, topic=topic, client_id=client_id
        )

    def stop_answering(self, client_id: str | None = None) -> Fault:
        """Accept requests of all clients, or of one client, but send no response. Connections stay
        open."""
        return self._begin("stop_answering", client_id=client_id)

    def disk_full(self) -> Fault:
        """Fail all writes with ENOSPC until the fault is ended."""
        return self._begin("disk_full")

    def fail_fsync(self, times: int | None = None) -> Fault:
        """Fail all fsyncs, or the next `times` fsyncs. The broker stops at a failed fsync, as Kafka
        does."""
        return self._begin("fail_fsync", times=times)

    def disconnect(self, client_id: str | None = None) -> Fault:
        """Close the connections of all clients, or of one client. Clients may reconnect at once."""
        answer = self._ask("POST", "/test/disconnect", client_id=client_id)
        return Fault(self, "disconnect", hits=answer["connections"])

    def _begin(self, kind: str, **arguments: object) -> Fault:
        return Fault(self, kind, self._ask("POST", "/test/faults", kind=kind, **arguments)["id"])


def _count(members: object) -> int:
    return len(members) if isinstance(members, list) else int(str(members))
