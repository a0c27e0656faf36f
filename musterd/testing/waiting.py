"""Waits for conditions of a group or a partition. The error of a timeout describes the state at
that time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from musterd.testing import clock
from musterd.testing.errors import MusterError, Refused, WaitedInVain
from musterd.testing.views import Committed, Group, Member, Offset, Partition

if TYPE_CHECKING:
    from musterd.testing.happened import HappenedVerbs

T = TypeVar("T")

ASKS_EACH_S = 0.01
_STABLE = "Stable"
_EMPTY = "Empty"
_NOT_NOW = 409
"""The HTTP status of the broker while a coordinator is loading or not available."""
_SHOWN_MEMBERS = 8


class NotYet(Exception):
    """The condition is not met yet. The message describes the current state."""


@dataclass(frozen=True)
class Condition(Generic[T]):
    """A condition to wait for, with the functions that check it and explain a timeout."""

    wanted: str
    """The condition as a clause, such as `group 'g' has 3 members`."""
    look: Callable[[], T]
    """Checks the condition: returns the result of the wait, or raises `NotYet`."""
    explain: Callable[[], str]
    """A function that returns further lines for the error that a timeout raises."""

    def in_vain(self, deadline: clock.Deadline, instead: NotYet) -> WaitedInVain:
        """Return the error for a timeout. `instead` describes the state at the timeout."""
        try:
            more = self.explain()
        except MusterError as error:
            more = f"\n    details are unknown: {error}"
        return WaitedInVain(
            f"timeout after {deadline.length_s:g} s: waited until {self.wanted}, but"
            f" {instead}{more}"
        )


class Conditions:
    """The conditions of a group. After a timeout they query the group once more, for the error
    message."""

    def __init__(self, broker: HappenedVerbs, group: str) -> None:
        self._broker = broker
        self._group = group

    def stable(self, members: int | None) -> Condition[Group]:
        """Return the condition for which `Waiting.stable` waits."""

        def look() -> Group:
            found = self._found()
            if found.state != _STABLE or members not in (None, found.members):
                raise NotYet(_described(found))
            return found

        wanted = "is stable" if members is None else f"is stable with {_members(members)}"
        return self._condition(wanted, look)

    def empty(self) -> Condition[None]:
        """Return the condition for which `Waiting.empty` waits."""

        def look() -> None:
            found = self._broker.group(self._group)
            if found is None and not self._broker.journal(self._group):
                raise NotYet("the group does not exist and has never existed")
            if found is not None and found.members:
                raise NotYet(_described(found))

        return self._condition("has no members", look)

    def committed(self, topic: str, partition: int, at_least: int) -> Condition[Offset]:
        """Return the condition for which `Waiting.committed` waits."""

        def look() -> Offset:
            committed = self._broker.committed(self._group)
            found = committed.get((topic, partition))
            if found is None or found.offset < at_least:
                raise NotYet(f"the group has committed {committed or 'nothing'}")
            return found

        return self._condition(
            f"has committed offset {at_least} or higher in {topic}-{partition}", look
        )

    def caught_up(self) -> Condition[Committed]:
        """Return the condition for which `Waiting.caught_up` waits."""

        def look() -> Committed:
            before = self._settled()
            committed = self._broker.committed(self._group)
            if any(each.lag for each in committed.values()):
                raise NotYet(f"the group has committed {committed}")
            uncommitted = self._uncommitted(committed)
            if uncommitted:
                raise NotYet(
                    f"the group has no committed offset for {', '.join(uncommitted)}, which has"
                    " records"
                )
            if self._settled().generation_id != before.generation_id:
                raise NotYet("the group rebalanced")
            return committed

        return self._condition("has committed the log end offset of every partition", look)

    def _settled(self) -> Group:
        """Return the group. Raise `NotYet` during a rebalance, because the members have no
        assignment then."""
        found = self._found()
        if found.state not in (_STABLE, _EMPTY):
            raise NotYet(_described(found))
        return found

    def _uncommitted(self, committed: Committed) -> list[str]:
        """Return the assigned partitions that have records but no committed offset."""
        given = {each for member in self._members() for each in member.assignment}
        return [
            _named((topic, partition))
            for topic, partition in sorted(given - set(committed))
            if self._has_records(topic, partition)
        ]

    def _has_records(self, topic: str, partition: int) -> bool:
        asked = {"topic": topic, "partition": partition, "limit": 1}
        return bool(self._broker._ask("GET", "/test/records", **asked)["records"])

    def _members(self) -> list[Member]:
        return self._broker.members(self._group)

    def _found(self) -> Group:
        found = self._broker.group(self._group)
        if found is None:
            others = ", ".join(repr(each.group) for each in self._broker.groups())
            raise NotYet(f"the group does not exist; existing groups: {others or 'none'}")
        return found

    def _condition(self, wanted: str, look: Callable[[], T]) -> Condition[T]:
        def asked() -> T:
            try:
                return look()
            except Refused as refused:
                if refused.status != _NOT_NOW:
                    raise
                raise NotYet(str(refused)) from None

        return Condition(f"group {self._group!r} {wanted}", asked, self._explain)

    def _explain(self) -> str:
        """Return the group's members, committed offsets and last event, as text."""
        lines = []
        if (found := self._broker.group(self._group)) is not None:
            lines.append(_described(found))
        members = self._members()
        for each in members[:_SHOWN_MEMBERS]:
            has = ", ".join(map(_named, each.assignment)) or "nothing"
            lines.append(f"{each.member} of {each.client_id} on {each.host} has {has}")
        if len(members) > _SHOWN_MEMBERS:
            lines.append(f"and {len(members) - _SHOWN_MEMBERS} more")
        if committed := self._broker.committed(self._group):
            lines.append(f"committed: {committed}")
        if journal := self._broker.journal(self._group):
            lines.append(f"last: {journal[-1]}")
        if self._broker._ask("GET", "/test/time")["is_frozen"]:
            lines.append("the broker's clock is frozen; broker.time.run() lets it run")
        return "".join(f"\n    {line}" for line in lines)


class PartitionConditions:
    """The conditions of a partition of a cluster, for `WaitingForPartition`."""

    def __init__(self, cluster: Partitions, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition

    def leader(self, broker: int | None) -> Condition[int]:
        """Return the condition for which `WaitingForPartition.leader` waits."""

        def look() -> int:
            found = self._found()
            if found.leader is None or broker not in (None, found.leader):
                raise NotYet(str(found))
            return found.leader

        wanted = "has a leader" if broker is None else f"is led by broker {broker}"
        return self._condition(wanted, look)

    def in_sync(self, brokers: tuple[int, ...]) -> Condition[Partition]:
        """Return the condition for which `WaitingForPartition.in_sync` waits."""

        def look() -> Partition:
            found = self._found()
            if set(found.isr) != set(brokers or found.replicas):
                raise NotYet(str(found))
            return found

        names = ", ".join(map(str, brokers)) or "all its replicas"
        return self._condition(f"has the ISR {names}", look)

    def _found(self) -> Partition:
        return self._cluster.partition(self._topic, self._partition, settled=True)

    def _condition(self, wanted: str, look: Callable[[], T]) -> Condition[T]:
        def asked() -> T:
            try:
                return look()
            except MusterError as error:  # such as: the topic does not exist
                raise NotYet(str(error)) from None

        name = f"{self._topic}-{self._partition}"
        return Condition(f"{name} {wanted}", asked, lambda: "")


class Partitions(Protocol):
    """The method of `MusterCluster` that reads a partition."""

    def partition(self, topic: str, partition: int = 0, *, settled: bool = False) -> Partition:
        """Return the state of a partition."""


class Waiting:
    """Waits for conditions of one group. `Muster.wait_for` returns this object."""

    def __init__(self, broker: HappenedVerbs, group: str, timeout_s: float) -> None:
        self._conditions = Conditions(broker, group)
        self._timeout_s = timeout_s

    def stable(self, members: int | None = None) -> Group:
        """Wait until the group is stable: all members have their assignments. With `members`, wait
        until the group also has this number of members."""
        return self._until(self._conditions.stable(members))

    def caught_up(self) -> Committed:
        """Wait until the group has committed the end offset of each of its partitions that has
        records.

        The partitions of a group are those that are assigned to members and those with a committed
        offset. During a rebalance the partitions are unknown, and the wait continues until the
        rebalance ends.
        """
        return self._until(self._conditions.caught_up())

    def committed(self, topic: str, partition: int = 0, *, at_least: int = 0) -> Offset:
        """Wait until the group has committed the offset `at_least` or a higher one. Return the
        committed offset."""
        return self._until(self._conditions.committed(topic, partition, at_least))

    def empty(self) -> None:
        """Wait until the group has no members. A group that has never existed does not end the
        wait."""
        self._until(self._conditions.empty())

    def _until(self, condition: Condition[T]) -> T:
        return until(condition, self._timeout_s)


class WaitingForPartition:
    """Waits for conditions of one partition. `MusterCluster.wait_for_partition` returns this
    object.

    A condition is met only when all brokers that are connected to the cluster know the new state,
    so that clients get the same metadata from each broker.
    """

    def __init__(self, cluster: Partitions, topic: str, partition: int, timeout_s: float) -> None:
        self._conditions = PartitionConditions(cluster, topic, partition)
        self._timeout_s = timeout_s

    def leader(self, broker: int | None = None) -> int:
        """Wait until the partition has a leader, or until `broker` is its leader. Return the
        leader's broker id."""
        return until(self._conditions.leader(broker), self._timeout_s)

    def in_sync(self, *brokers: int) -> Partition:
        """Wait until the ISR contains exactly these brokers. Without arguments, wait until it
        contains all replicas."""
        return until(self._conditions.in_sync(brokers), self._timeout_s)


def until(condition: Condition[T], timeout_s: float) -> T:
    """Wait for a condition and return its result. Raise WaitedInVain after `timeout_s` seconds."""
    deadline = clock.Deadline(timeout_s)
    while True:
        try:
            return condition.look()
        except NotYet as instead:
            if deadline.is_over:
                raise condition.in_vain(deadline, instead) from None
        clock.pause(ASKS_EACH_S)


def _described(group: Group) -> str:
    members = _members(group.members)
    return f"the group is {group.state} with {members}, generation {group.generation_id}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _named(partition: tuple[str, int]) -> str:
    return f"{partition[0]}-{partition[1]}"
