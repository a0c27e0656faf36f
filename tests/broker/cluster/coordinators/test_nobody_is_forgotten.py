"""Tests that a coordinator answers each request, whatever happens to its partition.

Group members send several requests at a time on one connection. At the same time the broker becomes
leader of their partition, becomes follower, stops, and becomes leader again. Several of these
changes may happen in one turn of the event loop, with too few in-sync replicas or with a lagging
follower. A parked request without a reply would block all later requests of its connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.cores.runtime_settings import RuntimeSettings
from offsets.partitioner import partition_for
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.leave_group import API as LEAVE_GROUP
from protocol.messages.sync_group import API as SYNC_GROUP
from replication.values import Rules
from tests.broker.cluster.coordinating import CoordinatingBroker
from tests.broker.edge import GROUPS, Client, eventually

GROUP = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) == 0)
MEMBERS = 4
STEPS = 40


class Member:
    """A member that sends random requests without waiting for responses."""

    def __init__(self, client: Client, chance: Random) -> None:
        self.sent: deque[tuple[int, int, int]] = deque()
        self.answers = 0
        self._client = client
        self._chance = chance
        self._member: dict[str, Any] = {"member_id": "", "generation_id": -1}

    def ask(self) -> None:
        for _ in range(self._chance.randint(1, 4)):
            kind = self._chance.choice((self._join, self._sync, self._beat, self._commit))
            self.sent.append(kind())
        if self._chance.random() < 0.2:
            self.sent.append(self._client.send_fetch(GROUP))
        if self._chance.random() < 0.1:
            self.sent.append(self._leave())

    def _join(self) -> tuple[int, int, int]:
        return self._client.send_join(GROUP, member_id=self._member["member_id"])

    def _sync(self) -> tuple[int, int, int]:
        return self._client.send(SYNC_GROUP.key, 3, group_id=GROUP, **self._member, assignments=[])

    def _beat(self) -> tuple[int, int, int]:
        return self._client.send(HEARTBEAT.key, 3, group_id=GROUP, **self._member)

    def _leave(self) -> tuple[int, int, int]:
        member_id = self._member["member_id"]
        return self._client.send(LEAVE_GROUP.key, 2, group_id=GROUP, member_id=member_id)

    def _commit(self) -> tuple[int, int, int]:
        return self._client.send_commit(GROUP, self._chance.randrange(1000), **self._member)

    async def read(self) -> None:
        while True:
            await eventually(lambda: bool(self.sent), 60)
            answer = await self._client.receive(self.sent[0])
            self.sent.popleft()
            self.answers += 1
            if "leader" in answer and not answer["error_code"]:
                self._member = {each: answer[each] for each in self._member}


class Controller:
    """A fake controller that sends random changes of one partition. Each change has a new, higher
    leader epoch."""

    def __init__(self, broker: CoordinatingBroker, chance: Random) -> None:
        self._broker = broker
        self._chance = chance
        self._epoch = 0

    def tell(self) -> None:
        """Makes one to three random changes in one turn of the event loop."""
        for _ in range(self._chance.randint(1, 3)):
            self._epoch += 1
            kinds = (self._lead, self._lead, self._catch_up, self.follow, self._stop)
            self._chance.choice(kinds)()

    def _lead(self) -> None:
        self._broker.lead(epoch=self._epoch, isr=self._chance.choice(((1,), (1, 2))))

    def follow(self) -> None:
        self._epoch += 1
        self._broker.follow(epoch=self._epoch)

    def _stop(self) -> None:
        replica = self._broker.replica()
        replica.stand_by()
        self._broker.coordinators.on_follower(replica, -1)

    def _catch_up(self) -> None:
        replica = self._broker.replica()
        if replica.led is not None:
            replica.follower_fetched(2, replica.log.log_end_offset)


@pytest.mark.parametrize("seed", range(20))
async def test_coordinator_answers_every_request_during_leadership_changes(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    settings = RuntimeSettings(GROUPS, stable_timeout_ms=100)
    rules = Rules(min_isr=chance.choice((1, 2)))
    async with CoordinatingBroker(tmp_path, settings=settings, rules=rules) as broker:
        controller = Controller(broker, chance)
        members = [Member(await broker.client(), chance) for _ in range(MEMBERS)]
        readers = [asyncio.ensure_future(each.read()) for each in members]
        for _ in range(STEPS):
            for each in members:
                if len(each.sent) < 10 and chance.random() < 0.5:
                    each.ask()
            for _ in range(chance.choice((0, 1, 3, 30))):
                await asyncio.sleep(0)
            controller.tell()
        controller.follow()
        await eventually(lambda: not any(each.sent for each in members))
        assert all(each.answers for each in members)
        for reader in readers:
            reader.cancel()
