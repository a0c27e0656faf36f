"""Consumer groups with random clients, topics, lost responses and pauses.

After each step, each partition has at most one owner, and a shard that is loaded from the log has
the same group. At the end, the clients only send heartbeats, and every group becomes stable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from coordinator.consumer.states import ConsumerGroupState, MemberState
from coordinator.outcome import ConsumerHeartbeatReply
from protocol.errors import FENCED_MEMBER_EPOCH, NONE, UNKNOWN_MEMBER_ID
from tests.coordinator.consumer.groups import GROUP, Groups

TOPICS = ("t", "u", "v")
Owned = dict[bytes, set[int]]


class Client:
    """A consumer that follows KIP-848. It revokes partitions before it gets new ones, and sends a
    full heartbeat after a lost response."""

    def __init__(self, member_id: str, instance_id: str | None, names: tuple[str, ...]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.names = names
        self.epoch = 0
        self.owned: Owned = {}
        self.revoking: Owned = {}
        """The partitions that the client must revoke but still owns."""
        self.says_all = True

    def holds(self) -> set[tuple[bytes, int]]:
        """Returns the partitions that this process may read."""
        return {
            (topic, number)
            for side in (self.owned, self.revoking)
            for topic, numbers in side.items()
            for number in numbers
        }

    def send(self, groups: Groups, lost: bool) -> None:
        """Sends one heartbeat. If ``lost`` is True, the response is lost, and the next heartbeat is
        a full heartbeat."""
        joins = self.epoch == 0
        owned: Mapping[bytes, Sequence[int]] | None = None
        if joins:
            owned = {}
        elif self.says_all:
            owned = {topic: sorted(numbers) for topic, numbers in self._listed().items()}
        full = joins or self.says_all
        reply = groups.send(
            self.member_id,
            self.epoch,
            instance_id=self.instance_id if full else None,
            subscribed_topics=self.names if full else None,
            rebalance_timeout_ms=60_000 if full else -1,
            owned=owned,
        )
        self.says_all = lost
        if not lost:
            self._take(reply)

    def _listed(self) -> Owned:
        listed = {topic: set(numbers) for topic, numbers in self.owned.items()}
        for topic, numbers in self.revoking.items():
            listed.setdefault(topic, set()).update(numbers)
        return {topic: numbers for topic, numbers in listed.items() if numbers}

    def _take(self, reply: ConsumerHeartbeatReply) -> None:
        if reply.error_code in (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH):
            self.epoch, self.owned, self.revoking = 0, {}, {}
            return
        assert reply.error_code == NONE, reply
        self.epoch = reply.member_epoch
        if reply.assignment is None:
            return
        assigned = {topic: set(numbers) for topic, numbers in reply.assignment.items()}
        for topic, numbers in self.owned.items():
            gone = numbers - assigned.get(topic, set())
            if gone:
                self.revoking.setdefault(topic, set()).update(gone)
        self.owned = assigned

    def revoke(self) -> None:
        """Completes the revocation in the client. The next heartbeat confirms it."""
        if self.revoking:
            self.revoking, self.says_all = {}, True


class World:
    """The clients of one group, and random events that affect them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.groups = Groups(interval_ms=self.random.choice((0, 0, 1_000)))
        self.groups.topics(t=3, u=2)
        self.clients: dict[str, Client] = {}
        self.made = 0
        self.actions: list[tuple[float, Callable[[], None]]] = [
            (0.55, self.heartbeat),
            (0.15, self.revoke),
            (0.08, self.join),
            (0.04, self.leave),
            (0.03, self.die),
            (0.04, self.subscribe),
            (0.05, self.change_topics),
            (0.06, self.wait),
        ]

    def step(self) -> None:
        weights = [weight for weight, _ in self.actions]
        [(_, action)] = self.random.choices(self.actions, weights)
        action()
        self.check()

    def one(self) -> Client | None:
        return self.random.choice(sorted(self.clients.values(), key=_id)) if self.clients else None

    def names(self) -> tuple[str, ...]:
        return tuple(self.random.sample(TOPICS, self.random.randint(1, len(TOPICS))))

    def heartbeat(self) -> None:
        if (client := self.one()) is not None:
            client.send(self.groups, lost=self.random.random() < 0.2)

    def revoke(self) -> None:
        if (client := self.one()) is not None:
            client.revoke()

    def join(self) -> None:
        if len(self.clients) < 5:
            self.made += 1
            used = {client.instance_id for client in self.clients.values()}
            free = [name for name in (None, "i", "j") if name is None or name not in used]
            client = Client(f"m{self.made}", self.random.choice(free), self.names())
            if client.instance_id in self.groups_static():
                return  # its earlier process died: the id is free when that session expires
            self.clients[client.member_id] = client
            client.send(self.groups, lost=False)

    def groups_static(self) -> Mapping[str, str]:
        group = self.groups.shard.view.consumer_groups.get(GROUP)
        return {} if group is None else group.static_members

    def leave(self) -> None:
        if (client := self.one()) is not None:
            del self.clients[client.member_id]
            self.groups.send(client.member_id, -1)

    def die(self) -> None:
        if (client := self.one()) is not None:
            del self.clients[client.member_id]

    def subscribe(self) -> None:
        if (client := self.one()) is not None:
            client.names, client.says_all = self.names(), True

    def change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        topic = self.groups.image.by_name.get(name)
        self.groups.topics(**{name: 1 if topic is None else topic.partitions + 1})

    def wait(self) -> None:
        self.groups.pass_ms(self.random.choice((500, 5_000, 20_000)))
        members = self.groups_members()
        for client in self.clients.values():
            if client.epoch and client.member_id not in members:
                client.epoch, client.owned, client.revoking = 0, {}, {}  # it stops by itself, too

    def groups_members(self) -> set[str]:
        group = self.groups.shard.view.consumer_groups.get(GROUP)
        return set() if group is None else set(group.members)

    def check(self) -> None:
        held = [key for client in self.clients.values() for key in client.holds()]
        assert len(held) == len(set(held)), "two processes own a partition"
        self.groups.check_loaded()
        group = self.groups.shard.view.consumer_groups.get(GROUP)
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            current = member.current
            assert bool(current.revoking) == (current.state == MemberState.UNREVOKED)
            for side in (current.assigned, current.revoking):
                for topic, epochs in side.items():
                    for partition in epochs:
                        assert owners.setdefault((topic, partition), member_id) == member_id
        assert owners == group.holders
        for client in self.clients.values():
            if client.member_id in group.members and client.epoch > 0:
                assert client.holds() <= {k for k, v in owners.items() if v == client.member_id}


def _id(client: Client) -> str:
    return client.member_id


@pytest.mark.parametrize("seed", range(30))
def test_random_group_is_consistent_and_becomes_stable(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    world.groups.pass_ms(50_000)  # members that died are removed
    world.clients = {k: v for k, v in world.clients.items() if k in world.groups_members()}
    world.join()
    for _ in range(8):
        world.groups.pass_ms(1_000)
        for client in sorted(world.clients.values(), key=_id):
            client.send(world.groups, lost=False)
            client.revoke()
            world.check()
    if world.clients:
        group = world.groups.group
        assert group.state() is ConsumerGroupState.STABLE
        for client in world.clients.values():
            metadata = group.members[client.member_id].metadata
            assert set(metadata.subscribed_topics) == set(client.names)
