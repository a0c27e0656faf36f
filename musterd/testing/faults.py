"""What production does, on command: each verb does it, and gives a `Fault` that ends it."""

from __future__ import annotations

from typing import Any, Self

from musterd.testing.errors import Refused
from musterd.testing.lasting import Lasting

Json = dict[str, Any]

_GONE = 404


class Verbs:
    """Whoever asks the broker; `Muster` is one."""

    def _ask(self, method: str, path: str, **arguments: object) -> Json:
        raise NotImplementedError

    def _is_there(self) -> bool:
        raise NotImplementedError


class Fault(Lasting):
    """Something that goes wrong until it is ended: by `with`, by `end`, or by `reset`.

    What is over at once, such as a rebalance, is one too: there is nothing to end.
    """

    def __init__(self, broker: Verbs, kind: str, id: object = None, hits: int = 0) -> None:
        self.kind = kind
        """What it is, such as `fail`."""
        self._broker = broker
        self._id = id
        self._hits = hits

    @property
    def hits(self) -> int:
        """How often it struck: requests, connections or members."""
        if self._id is not None and self._broker._is_there():
            for each in self._broker._ask("GET", "/test/faults")["faults"]:
                if each["id"] == self._id:
                    self._hits = each["hits"]
        return self._hits

    def end(self) -> None:
        """End it; one that has ended already is no error."""
        if self._id is None or not self._broker._is_there():
            return
        try:
            self._hits = self._broker._ask("DELETE", f"/test/faults/{self._id}")["hits"]
        except Refused as refused:
            if refused.status != _GONE:  # it ended with a reset, or by itself
                raise
        self._id = None

    def __repr__(self) -> str:
        return f"<Fault {self.kind}, hits {self._hits}>"


class Moved(Fault):
    """A coordinator that moved: it is found anew at once; inside `with`, only after it."""

    def __init__(self, broker: Verbs, group: str) -> None:
        super().__init__(broker, "moved", hits=1)
        self._group = group

    def __enter__(self) -> Self:
        asked = self._broker._ask("POST", "/test/faults", kind=self.kind, group=self._group)
        self._id = asked["id"]
        return self


class FaultVerbs(Verbs):
    """The verbs of `Muster` that do harm."""

    def rebalance(self, group: str) -> Fault:
        """Begin a rebalance, as if a member had joined: all members of the group join again.

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
        """End the session of a member, as if nothing had been heard of it for too long.

        `member` is its id, or its client id or instance id where only one member has that.
        """
        self._ask("POST", "/test/groups/expire", member=member, group=group)
        return Fault(self, "expire", hits=1)

    def fence(self, instance_id: str, group: str | None = None) -> Fault:
        """Fence a static member: another has come with its `group.instance.id`."""
        self._ask("POST", "/test/groups/fence", group_instance_id=instance_id, group=group)
        return Fault(self, "fence", hits=1)

    def move_coordinator(self, group: str) -> Fault:
        """Have the group's coordinator resign: clients get NOT_COORDINATOR and find it anew.

        Used with `with` it is not to be found before the end of the block.
        """
        self._ask("POST", "/test/groups/move_coordinator", group=group)
        return Moved(self, group)

    def loading(self, group: str, seconds: float | None = None) -> Fault:
        """Have the group's coordinator load its state: COORDINATOR_LOAD_IN_PROGRESS to all.

        Until it is ended, or for so many seconds of the broker's clock.
        """
        return self._begin("loading", group=group, seconds=seconds)

    def fail(
        self, api: str, error: str, *, times: int | None = None, group: str | None = None,
        topic: str | None = None, client_id: str | None = None,
    ) -> Fault:  # fmt: skip
        """Answer an API with an error: all its requests, or so many, or those that match.

        `api` and `error` are Kafka's names. A request matches a group or a topic that it names.
        The error stands wherever the answer has a place for one, and nothing is done.

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
        """Handle an API's requests, or all, so much later, as a slow broker does.

        This time is real, as it is for the client, whatever the broker's clock shows.
        """
        return self._begin(
            "delay", api=api, ms=ms, times=times, group=group, topic=topic, client_id=client_id
        )

    def stop_answering(self, client_id: str | None = None) -> Fault:
        """Take requests, of all clients or of one, and answer none; what is connected stays so."""
        return self._begin("stop_answering", client_id=client_id)

    def disk_full(self) -> Fault:
        """Have no room for another byte, until it is ended."""
        return self._begin("disk_full")

    def fail_fsync(self, times: int | None = None) -> Fault:
        """Have every fsync fail, or so many. A broker stops for good when one does, as Kafka's."""
        return self._begin("fail_fsync", times=times)

    def disconnect(self, client_id: str | None = None) -> Fault:
        """Close the connections of all clients, or of one; they may connect again at once."""
        answer = self._ask("POST", "/test/disconnect", client_id=client_id)
        return Fault(self, "disconnect", hits=answer["connections"])

    def _begin(self, kind: str, **arguments: object) -> Fault:
        return Fault(self, kind, self._ask("POST", "/test/faults", kind=kind, **arguments)["id"])


def _count(members: object) -> int:
    return len(members) if isinstance(members, list) else int(str(members))
