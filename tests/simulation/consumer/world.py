"""The simulation of consumer groups (KIP-848): a `World` with classic members and members of the
consumer protocol.

Both kinds of members share each group, so that groups are converted in both directions. Requests
may be delayed. Topics are created, extended and deleted. Regexes are resolved between two calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.calls import Call
from coordinator.classic.sweeps import EVERY_LOG_OFFSET
from coordinator.config import ConsumerSettings, GroupConfig
from coordinator.consumer.events import RegexesWanted
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from coordinator.topics_image import Topic, TopicsImage
from tests.simulation.clients import Admin
from tests.simulation.consumer.checkers import ConsumerCheckers
from tests.simulation.consumer.clients import LASTING_TOPICS, TOPICS, ClassicConsumer, Consumer
from tests.simulation.requests import Client
from tests.simulation.world import World

GROUPS = ("alpha", "beta")
MIGRATIONS = ("bidirectional", "bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")
PARTITIONS_MAX = 6


class ConsumerWorld(World):
    """A simulation of two groups. Each group may have classic members and members with
    group.protocol=consumer."""

    checkers: ConsumerCheckers

    def __init__(self, seed: int) -> None:
        self.image = TopicsImage(Topic(name.encode().ljust(16), name, 3) for name in LASTING_TOPICS)
        self.topics_made = 0
        self.wanted: list[RegexesWanted] = []
        """The regexes that the broker must resolve next."""
        self.flying: list[tuple[Client, Call]] = []
        """Requests in transit, at most one per client."""
        self.is_calm = False
        super().__init__(seed)

    def choose_config(self, rng: Random) -> GroupConfig:
        session_ms = rng.choice([6_000, 10_000, 30_000])
        return GroupConfig(
            initial_rebalance_delay_ms=rng.choice([0, 300]),
            offset_metadata_max_bytes=50,
            offsets_retention_ms=10**10,
            consumer=ConsumerSettings(session_ms, 1_000, rng.choice([0, 0, 1_000])),
            consumer_max_size=rng.choice([2**31 - 1, 2**31 - 1, 4]),
            consumer_migration_policy=rng.choice(MIGRATIONS),
        )

    def make_clients(self, rng: Random) -> list[Any]:
        clients: list[Any] = [Admin("admin", Random(rng.random()), GROUPS)]
        for group_id in GROUPS:
            for i in range(4):
                instance_id = f"{group_id}-static-{i}" if i == 0 else None
                name = f"{group_id}-{i}"
                clients.append(
                    Consumer(name, group_id, Random(rng.random()), self.image, instance_id)
                )
            for instance_id in (None, f"{group_id}-static-1"):
                name = f"{group_id}-classic-{instance_id is None}"
                clients.append(
                    ClassicConsumer(name, group_id, Random(rng.random()), self.image, instance_id)
                )
        return clients

    def choose_happenings(self, rng: Random) -> list[tuple[Callable[[], None], int]]:
        return [
            *super().choose_happenings(rng),
            (self.application_revokes, rng.choice([20, 60])),
            (self.requests_arrive, 40),
            (self.regexes_are_resolved, 20),
            (self.topic_changes, 4),
        ]

    def make_checkers(self) -> ConsumerCheckers:
        return ConsumerCheckers(self)

    def loaded_shard(self, with_snapshot: bool) -> GroupShard:
        shard = GroupShard(self.config, self.image)
        self.log.replay(shard, self.unappended, with_snapshot)
        return shard

    # ------------------------------------------------------------------------------ happenings

    def send(self, client: Client, call: Call) -> None:
        self._arrive([client])
        if self.is_calm:
            self.regexes_are_resolved()
            super().send(client, call)
        elif self.rng.random() < 0.1:
            self.happened["request delayed"] += 1
            client.waiting_for = call
            self.flying.append((client, call))
        else:
            super().send(client, call)

    def requests_arrive(self) -> None:
        self._arrive([client for client, _ in self.flying])

    def _arrive(self, clients: list[Client]) -> None:
        """Delivers or loses the requests of ``clients`` that are in transit. A client may already
        have abandoned its request."""
        arriving = [each for each in self.flying if each[0] in clients]
        self.flying = [each for each in self.flying if each[0] not in clients]
        for client, call in arriving:
            waited_for = client.waiting_for
            if self.rng.random() < 0.2:
                self.happened["request lost"] += 1
                if waited_for is call:
                    client.waiting_for = None
            else:
                super().send(client, call)
                if waited_for is not call:
                    client.waiting_for = waited_for

    def application_revokes(self) -> None:
        """Makes some members stop using their revoked partitions. Until then, such a member still
        owns these partitions."""
        busy = [each for each in self.clients if isinstance(each, Consumer) and each.revoking]
        for client in self.rng.sample(busy, min(len(busy), 2)):
            client.revoke()

    def regexes_are_resolved(self) -> None:
        wanted, self.wanted = self.wanted, []
        for each in wanted:
            found = {
                regex: tuple(name for name in self.image.by_name if re.fullmatch(regex, name))
                for regex in each.regexes
            }
            self._take(self.shard.regexes_resolved(each.group_id, found, each.version, self.now))

    def topic_changes(self) -> None:
        name = self.rng.choice(TOPICS)
        topic = self.image.by_name.get(name)
        if topic is None:
            self.topics_made += 1
            self.image.put(Topic(b"%016d" % self.topics_made, name, self.rng.randint(1, 3)))
        elif topic.partitions < PARTITIONS_MAX:
            self.image.put(topic._replace(partitions=topic.partitions + 1))
        self.shard.topic_changed(name)

    def topic_is_deleted(self) -> None:
        name = self.rng.choice(TOPICS)
        if name in self.image.by_name and name not in LASTING_TOPICS:
            self.image.remove(name)
            self.shard.topic_changed(name)
            self._take(self.shard.topics_deleted({name: EVERY_LOG_OFFSET}, self.now))

    def _take(self, outcome: Outcome) -> None:
        super()._take(outcome)
        self.wanted += [each for each in outcome.events if isinstance(each, RegexesWanted)]

    def _load(self) -> None:
        self.flying.clear()
        self.wanted.clear()
        for client in self.clients:
            client.waiting_for = None
        super()._load()

    def calm(self, rounds: int = 400) -> None:
        self.requests_arrive()
        self.is_calm = True
        super().calm(rounds)
