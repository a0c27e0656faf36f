"""The assignor "uniform" for members whose subscriptions differ. Source: Kafka 4.3.1
``UniformHeterogeneousAssignmentBuilder``.

The assignor first assigns partitions, beginning with the topics that have the fewest subscribers.
Then it moves partitions, topic by topic, from the members with the most partitions to the members
with the fewest, until no move improves the balance.
"""

from __future__ import annotations

from coordinator.assignors.subscriptions import GroupSubscriptions
from offsets.consumer_records import Assignment

ROUNDS_MAX = 16
"""The maximum number of rounds of balancing over all topics; Kafka has the same bound."""


def assign_heterogeneous(group: GroupSubscriptions) -> dict[str, Assignment]:
    return _Builder(group).build()


class _Builder:
    """One assignment under construction. A number represents each member; the numbers are in
    ascending order of member id."""

    __slots__ = ("group", "members", "owners", "sizes", "subscribers")

    def __init__(self, group: GroupSubscriptions) -> None:
        self.group = group
        self.members = sorted(group.members)
        self.sizes = [0] * len(self.members)
        self.owners = {topic: [-1] * count for topic, count in group.partitions.items()}
        """The owner of each partition; -1 if the partition has no owner yet."""
        self.subscribers: dict[bytes, list[int]] = {topic: [] for topic in group.partitions}
        for number, member in enumerate(self.members):
            for topic in member.topics:
                if topic in self.subscribers:
                    self.subscribers[topic].append(number)

    def build(self) -> dict[str, Assignment]:
        topics = sorted((t for t, subs in self.subscribers.items() if subs), key=self._topic_order)
        self._keep_old()
        for topic in topics:
            self._place_unowned(topic)
        self._balance([topic for topic in topics if len(self.subscribers[topic]) >= 2])
        targets: list[dict[bytes, list[int]]] = [{} for _ in self.members]
        for topic in topics:
            for partition, owner in enumerate(self.owners[topic]):
                targets[owner].setdefault(topic, []).append(partition)
        return {
            member.member_id: {topic: tuple(partitions) for topic, partitions in target.items()}
            for member, target in zip(self.members, targets, strict=True)
        }

    def _topic_order(self, topic: bytes) -> tuple[float, int, int, int]:
        subscribers = len(self.subscribers[topic])
        high = int.from_bytes(topic[:8], "big", signed=True)
        low = int.from_bytes(topic[8:], "big", signed=True)
        return -self.group.partitions[topic] / subscribers, subscribers, high, low

    def _keep_old(self) -> None:
        for number, member in enumerate(self.members):
            for topic, partitions in self.group.target.get(member.member_id, {}).items():
                owners = self.owners.get(topic)
                if owners is None or topic not in member.topics:
                    continue
                for partition in partitions:
                    owners[partition] = number
                self.sizes[number] += len(partitions)

    def _place_unowned(self, topic: bytes) -> None:
        owners = self.owners[topic]
        balancer = _Balancer(self.subscribers[topic], self.sizes)
        for partition, owner in enumerate(owners):
            if owner == -1:
                least = balancer.next_least()
                owners[partition] = least
                self.sizes[least] += 1

    def _balance(self, topics: list[bytes]) -> None:
        last_changed = -1
        for _ in range(ROUNDS_MAX):
            for i, topic in enumerate(topics):
                if i == last_changed:
                    return  # a whole round without a change
                if self._balance_topic(topic) or last_changed == -1:
                    last_changed = i

    def _balance_topic(self, topic: bytes) -> bool:
        """Moves partitions of one topic between its subscribers. Returns whether a partition was
        moved."""
        sizes = self.sizes
        subscribers = self.subscribers[topic]
        loads = [sizes[each] for each in subscribers]
        if max(loads) - min(loads) <= 1:
            return False
        owners = self.owners[topic]
        movable: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            movable.setdefault(owner, []).append(partition)
        balancer = _Balancer(subscribers, sizes)
        changed = False
        while True:
            most = balancer.next_most()
            while most != -1 and not movable.get(most):
                balancer.exclude_most()
                most = balancer.next_most()
            if most == -1:
                return changed
            least = balancer.next_least()
            if balancer.most_level - balancer.least_level <= 1:
                return changed
            owners[movable[most].pop()] = least
            sizes[most] -= 1
            sizes[least] += 1
            changed = True


class _Balancer:
    """Selects the members between which partitions of one topic are moved, among the topic's
    subscribers.

    The subscribers are sorted by their number of partitions. Two sections of this list are used: at
    its front the members with the fewest partitions, and at its end the members with the most. All
    members of a section have the same number of partitions, which is the level of the section.
    `next_least` and `next_most` return the members of their section one after the other.
    """

    __slots__ = (
        "_least_end",
        "_most_end",
        "_most_start",
        "_next_least",
        "_next_most",
        "_sizes",
        "_sorted",
        "least_level",
        "most_level",
    )

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(subscribers, key=lambda member: (sizes[member], member))
        self._least_end = self._next_least = 0
        self.least_level = sizes[self._sorted[0]] - 1
        self._most_start = self._most_end = len(self._sorted)
        self._next_most = self._most_start - 1
        self.most_level = sizes[self._sorted[-1]] + 1

    def next_least(self) -> int:
        """Returns the index of a member with the fewest partitions, among the members that were not
        returned yet."""
        if self._next_least >= self._least_end:
            self.least_level += 1
            while (
                self._least_end < len(self._sorted)
                and self._sizes[self._sorted[self._least_end]] == self.least_level
            ):
                self._least_end += 1
            self._next_least = 0
        member = self._sorted[self._next_least]
        self._next_least += 1
        return member

    def next_most(self) -> int:
        """Returns the index of a member that has ``most_level`` partitions, the maximum. If all
        such members were already returned, first lowers ``most_level``. Returns -1 if all members
        are excluded."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self.most_level = self._sizes[self._sorted[self._most_start - 1]]
            else:
                self.most_level -= 1
            while (
                self._most_start > 0
                and self._sizes[self._sorted[self._most_start - 1]] == self.most_level
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._most_end <= self._most_start:
            return -1
        member = self._sorted[self._next_most]
        self._next_most -= 1
        return member

    def exclude_most(self) -> None:
        """Excludes the member that ``next_most`` returned last. The caller calls this method if
        none of the member's partitions of the topic can be moved."""
        self._most_end -= 1
        named = self._next_most + 1
        members = self._sorted
        members[named], members[self._most_end] = members[self._most_end], members[named]
