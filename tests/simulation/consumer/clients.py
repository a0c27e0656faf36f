"""Simulated clients of consumer groups: members with group.protocol=consumer (KIP-848), and classic
members.

Classic members compute real assignments, so that their group can be converted to the other type.
``holds`` returns the partitions that a client owns according to its own state. The requests of one
client arrive in the order in which it sent them. Otherwise an outdated list of owned partitions
could arrive last, which would violate the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from coordinator.calls import Call, ConsumerHeartbeat, JoinGroup, OffsetCommit, TopicOffsets
from coordinator.outcome import CommitReply, ConsumerHeartbeatReply, JoinReply, Reply, SyncReply
from coordinator.topics_image import TopicsImage
from protocol.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from protocol.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
)
from tests.simulation.clients import Member

Held = set[tuple[bytes, int]]

LASTING_TOPICS = ("orders", "payments")
"""Topics that are never deleted. Classic members subscribe to them by name."""
TOPICS = (*LASTING_TOPICS, "🙂", "orders-eu")
REGEXES = ("orders.*", "pay.*|🙂", "nothing")
REBALANCES_MS = (4_000, 20_000)
_FATAL = (GROUP_ID_NOT_FOUND, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID)


def commit_of(
    rng: Random, ticket: int, image: TopicsImage, held: Held, who: Sequence[Any], modern: bool
) -> OffsetCommit:
    """Returns an OffsetCommit for some of the partitions ``held``."""
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in rng.sample(sorted(held), min(len(held), 3)):
        if topic_id in image.names:
            by_name.setdefault(image.names[topic_id], []).append(partition)
    topics = [
        TopicOffsets(
            name, found, [rng.randint(0, 9_999) for _ in found], [7] * len(found), *2 * [None]
        )
        for name, found in sorted(by_name.items())
    ]
    group_id, epoch, member_id, instance_id = who
    return OffsetCommit(
        ticket, group_id, epoch, member_id, instance_id, -1, topics, knows_member_epochs=modern
    )


class Consumer:
    """A member with group.protocol=consumer. It revokes partitions before it confirms their
    revocation. After an unanswered request, its next heartbeat has all fields."""

    def __init__(
        self,
        name: str,
        group_id: str,
        rng: Random,
        image: TopicsImage,
        group_instance_id: str | None = None,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.rng = rng
        self.image = image
        self.group_instance_id = group_instance_id
        self.waiting_for: Call | None = None
        self.processes = 0
        self.member_id = ""
        self.lives_on = False
        """True if the next process of the member uses the same member id."""
        self._begin()

    def _begin(self) -> None:
        self.processes += 1
        self.by_v0 = not self.lives_on and self.group_instance_id is None and self._dice(0.2)
        if not self.lives_on:
            self.member_id = "" if self.by_v0 else f"{self.name}.{self.processes}"
        self.lives_on = False
        self.waiting_for = None
        self.leaves = False
        self.rebalance_timeout_ms = self.rng.choice(REBALANCES_MS)
        self._lose_all()
        self.subscribe()

    def _lose_all(self) -> None:
        self.epoch = 0
        self.older_epoch = 0
        self.owned: Held = set()
        self.revoking: Held = set()
        self.says_all = True

    def _dice(self, chance: float) -> bool:
        return self.rng.random() < chance

    def restart(self) -> None:
        """Replaces the process of the member. The old process is killed, and its requests stay
        unanswered."""
        self.lives_on = bool(self.member_id) and self._dice(0.4)
        self._begin()

    def subscribe(self) -> None:
        """Changes the subscription to other topics. The new subscription has names, a regex, or
        both."""
        self.names = tuple(self.rng.sample(TOPICS, self.rng.randint(0, 3)))
        self.regex = "" if self.by_v0 or self._dice(0.6) else self.rng.choice(REGEXES)
        if not self.names and not self.regex:
            self.names = LASTING_TOPICS
        self.says_all = True

    @property
    def generation(self) -> int:
        return self.epoch

    def holds(self) -> Held:
        """Returns the partitions from which this process may read."""
        return self.owned | self.revoking

    def revoke(self) -> None:
        """Makes the application stop using revoked partitions. The next heartbeat confirms the
        revocation."""
        if self.revoking:
            self.revoking, self.says_all = set(), True

    # ------------------------------------------------------------------------------- requests

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        if self.leaves:
            self._begin()
        if calm:
            self.revoke()
        elif self.epoch > 0:
            if self.holds() and self._dice(0.3):
                return self._commit(ticket, self.epoch)
            if self._dice(0.04):
                self.subscribe()
            elif self._dice(0.03):
                return self._leave(ticket)
        return self._heartbeat(ticket)

    def _commit(self, ticket: int, epoch: int) -> OffsetCommit:
        who = self.group_id, epoch, self.member_id, self.group_instance_id
        return commit_of(self.rng, ticket, self.image, self.holds(), who, modern=True)

    def _heartbeat(self, ticket: int) -> ConsumerHeartbeat:
        owned: Mapping[bytes, Sequence[int]] | None = None
        full = self.says_all or self.epoch == 0
        if full:
            listed: dict[bytes, list[int]] = {}
            for topic_id, partition in sorted(self.holds()):
                listed.setdefault(topic_id, []).append(partition)
            owned = listed if self.epoch else {}
        self.says_all = True  # unless the response arrives
        return ConsumerHeartbeat(
            ticket,
            self.group_id,
            self.member_id,
            self.epoch,
            self.group_instance_id if full else None,
            None,
            self.rebalance_timeout_ms if full else -1,
            self.names if full else None,
            self.regex if full and not self.by_v0 else None,
            None,
            owned,
            self.name,
            "/127.0.0.1",
            makes_own_id=not self.by_v0,
            fresh_id="" if self.member_id else f"{self.name}.v0.{ticket}",
        )

    def _leave(self, ticket: int) -> ConsumerHeartbeat:
        """Gives up all partitions, and returns the heartbeat with which the member leaves. A static
        member may leave temporarily."""
        epoch = -1
        if self.group_instance_id is not None and self._dice(0.6):
            epoch = -2
        self._lose_all()
        self.leaves = True
        call = replace(self._heartbeat(ticket), member_epoch=epoch, owned=None)
        return replace(call, subscribed_topics=None, subscribed_regex=None, rebalance_timeout_ms=-1)

    def confused(self, ticket: int) -> Call:
        """Returns a commit or a heartbeat with a wrong epoch or a wrong member id."""
        if self.epoch <= 0:
            return self.next_call(ticket)
        everything = {
            (topic.topic_id, number)
            for topic in self.image.by_name.values()
            for number in range(topic.partitions)
        }
        epoch = self.rng.choice([self.older_epoch, self.epoch - 1, self.epoch + 1, -1])
        member_id = self.member_id if self._dice(0.8) else "nobody"
        if epoch < 0:
            member_id = ""
        who = self.group_id, epoch, member_id, None
        return commit_of(self.rng, ticket, self.image, everything, who, modern=self._dice(0.9))

    # -------------------------------------------------------------------------------- replies

    def hear(self, call: Call, reply: Reply) -> None:
        if isinstance(reply, ConsumerHeartbeatReply) and isinstance(call, ConsumerHeartbeat):
            if not self.leaves:
                self._hear_heartbeat(call, reply)
        elif isinstance(reply, CommitReply) and reply.errors == STALE_MEMBER_EPOCH:
            self.says_all = True

    def _hear_heartbeat(self, call: ConsumerHeartbeat, reply: ConsumerHeartbeatReply) -> None:
        if reply.error_code in (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH):
            self._lose_all()
        elif reply.error_code in _FATAL:
            self.restart()
        elif reply.error_code == NONE:
            assert reply.member_id is not None
            self.member_id = reply.member_id
            if reply.member_epoch != self.epoch:
                self.older_epoch = self.epoch
            self.epoch = reply.member_epoch
            self.says_all = False
            if reply.assignment is not None:
                assigned = {(topic, n) for topic, found in reply.assignment.items() for n in found}
                self.revoking |= self.owned - assigned
                self.owned = assigned
                self.revoking -= assigned
            if self.revoking and self._dice(0.5):
                self.revoke()  # at once; else when the application has time


class ClassicConsumer(Member):
    """A classic member that gives up all partitions at each rebalance (eager protocol). Its leader
    assigns partitions round robin."""

    def __init__(self, name: str, group_id: str, rng: Random, image: TopicsImage, *more: Any):
        self.image = image
        self.owned: Held = set()
        self.metadata: Mapping[str, bytes] = {}
        self.assigned_of: list[int] = []
        """For each topic: the number of its partitions when this consumer, as the group leader,
        last computed an assignment."""
        super().__init__(name, group_id, rng, *more)

    def restart(self) -> None:
        self.owned = set()
        super().restart()

    def choose_protocols(self) -> None:
        topics = self.rng.sample(LASTING_TOPICS, self.rng.randint(1, 2))
        self.protocols = [("range", encode_subscription(topics))]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(subscribed_topics(self.protocols[0][1]))

    @property
    def generation(self) -> int:
        return self.generation_id

    def holds(self) -> Held:
        """Returns the partitions from which this process may read."""
        return self.owned

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        call = super().next_call(ticket, calm)
        if self.leads and self.phase == "in" and self.assigned_of != self._counts():
            call = self._join(ticket)  # the leader notices that a topic has grown
        if isinstance(call, JoinGroup):
            self.owned, self.phase = set(), "out"
        elif isinstance(call, OffsetCommit):
            who = self.group_id, self.generation_id, self.member_id, self.group_instance_id
            modern = self.rng.random() < 0.8
            return commit_of(self.rng, ticket, self.image, self.owned, who, modern)
        return call

    def confused(self, ticket: int) -> Call:
        call = self.next_call(ticket)
        if isinstance(call, OffsetCommit):
            return replace(call, generation_id=self.generation_id + self.rng.choice([-1, 1]))
        return call

    def _counts(self) -> list[int]:
        return [self.image.by_name[name].partitions for name in LASTING_TOPICS]

    def _sync(self, ticket: int) -> Any:
        call = super()._sync(ticket)
        if not self.leads:
            return replace(call, protocol_type=None)
        self.assigned_of = self._counts()
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in self.others}
        for name in LASTING_TOPICS:
            takers = [each for each in shares if name in subscribed_topics(self.metadata[each])]
            for number in range(self.image.by_name[name].partitions if takers else 0):
                taker = takers[number % len(takers)]
                shares[taker].setdefault(name, []).append(number)
        given = [(each, encode_assignment(share)) for each, share in shares.items()]
        return replace(call, protocol_type=None, assignments=given)

    def hear(self, call: Call, reply: Reply) -> None:
        super().hear(call, reply)
        if isinstance(reply, JoinReply) and reply.members:
            self.metadata = {each.member_id: each.metadata for each in reply.members}
        elif isinstance(reply, SyncReply) and reply.error_code == NONE:
            by_name = self.image.by_name
            self.owned = {
                (by_name[name].topic_id, number)
                for name, numbers in assigned_partitions(reply.assignment).items()
                for number in numbers
            }
        if self.phase == "out" and not self.member_id:
            self.owned = set()
