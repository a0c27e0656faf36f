"""Tests that a kill at any time neither loses acknowledged state of a consumer group (KIP-848) nor
adds state.

Members send heartbeats to a shard with a real log on a simulated disk. Each accepted heartbeat
results in a state of the group. After a kill, the loaded state must be one of these states, and not
older than the state of the last answered heartbeat.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from broker.cores.groups.kind import GROUPS as KIND
from broker.cores.groups.runtime import group_runtime
from broker.cores.hosted_shard import HostedShard, Phase
from broker.cores.loading import load
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.snapshots import Snapshots
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import ConsumerHeartbeat
from coordinator.config import ConsumerSettings, GroupConfig
from coordinator.outcome import ConsumerHeartbeatReply
from coordinator.shard import GroupShard
from coordinator.topics_image import Topic, TopicsImage
from log.config import LogConfig
from log.partition_log import PartitionLog
from protocol.errors import NONE
from tests.broker.edge import Taker, eventually
from tests.broker.partitions import partition_for, services_with
from tests.coordinator.consumer.groups import hard_state
from tests.simulated_files import SimulatedFiles

CONFIG = GroupConfig(consumer=ConsumerSettings(assignment_interval_ms=0))
TOPICS = [Topic(name.encode() * 16, name, partitions) for name, partitions in (("t", 4), ("u", 3))]
IDS = {topic.name: topic.topic_id for topic in TOPICS}
GROUP = "g"
MEMBERS = ("a", "b", "c", "d")
FOLDER = f"/data/{OFFSETS_TOPIC}-0"
TOPIC_ID = bytes([9] * 16)
STEPS = 30

State = dict[str, Any]


def open_log(fs: SimulatedFiles) -> PartitionLog:
    config = LogConfig(cleanup_policy="compact", segment_bytes=4000)
    return PartitionLog.open(fs, FOLDER, OFFSETS_TOPIC, 0, config)


def state_of(shard: GroupShard) -> State:
    """Returns a copy of the state that is in the log. Later changes of the shard do not change the
    copy."""
    return {name: _copied(facts) for name, facts in hard_state(shard).items()}


def _copied(facts: object) -> object:
    if not isinstance(facts, Mapping):
        return facts
    return {name: dict(v) if isinstance(v, Mapping) else v for name, v in facts.items()}


async def loaded_after_a_kill(fs: SimulatedFiles) -> State:
    """Returns the state that the next process loads, from a snapshot if a valid snapshot exists."""
    hosted = HostedShard(KIND, GroupShard(CONFIG), partition_for(open_log(fs.as_killed())), 1)
    slicer = Slicer(Time())
    snapshots = Snapshots(KIND, TOPIC_ID, lambda _: 0, slicer)
    await load(hosted, 1 << 20, slicer, snapshots, lambda: GroupShard(CONFIG))
    return state_of(hosted.core)


class Crashes:
    """A shard on a failing disk, its members, and the state after each accepted heartbeat."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fs = SimulatedFiles()
        self.time = Time()
        self.groups = group_runtime(RuntimeSettings(CONFIG), self.time, Slicer(self.time))
        self.states: list[State] = []
        self.answered = 0
        """The index in ``states`` of the newest state that resulted from a heartbeat with a
        response. A load must restore this state or a later state."""
        self.last: dict[str, ConsumerHeartbeatReply] = {}
        self.loads = self.failures = self.rejected = 0

    async def run(self) -> None:
        services = services_with(time=self.time, errors=self.groups.errors)
        partition = partition_for(open_log(self.fs), services)
        self.groups.start([partition], TOPIC_ID)
        try:
            self.note_state()
            for _ in range(STEPS):
                await self.step()
        finally:
            partition.stop()
            await self.groups.stop()

    @property
    def hosted(self) -> HostedShard[GroupShard]:
        return self.groups.hosted_shards[0]

    def note_state(self) -> int:
        core = self.hosted.core
        core._state.topics = TopicsImage(TOPICS)  # a reloaded shard has none yet
        self.states.append(state_of(core))
        return len(self.states) - 1

    async def step(self) -> None:
        """Runs the heartbeats of one turn, some with failing writes. Kills the process before and
        after the turn."""
        if self.chance.random() < 0.1:
            part = self.chance.choice((0, 7, 80))
            self.fs.fail("write", ".log", partial_bytes=part)
            self.failures += 1
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            self.send(self.chance.choice(MEMBERS))
        if self.chance.random() < 0.5:
            await self.check()  # in the middle of the turn
        while self.hosted.appended < self.hosted.accepted:
            await asyncio.sleep(0)
        await self.check()
        if self.hosted.phase is not Phase.ACTIVE:
            self.fs.heal()
            await eventually(lambda: self.hosted.phase is Phase.ACTIVE)
            reloaded = state_of(self.hosted.core)
            assert reloaded in self.states[self.answered :]
            self.answered = self.note_state()
        elif self.chance.random() < 0.15:
            assert self.groups.life.snapshots is not None
            await self.groups.life.snapshots.write(self.hosted)
            await self.check()

    async def check(self) -> None:
        self.loads += 1
        answered = self.answered
        found = await loaded_after_a_kill(self.fs)
        assert found in self.states[answered:]

    def send(self, member_id: str) -> None:
        if self.hosted.phase is not Phase.ACTIVE:
            return
        accepted = -1
        early: list[ConsumerHeartbeatReply] = []

        def take(reply: ConsumerHeartbeatReply) -> None:
            if accepted < 0:
                early.append(reply)
            else:
                self.take(member_id, reply, accepted)

        self.groups.submit(GROUP, self.heartbeat(member_id, Taker(take)))
        accepted = self.note_state()
        for reply in early:
            self.take(member_id, reply, accepted)

    def take(self, member_id: str, reply: ConsumerHeartbeatReply, accepted: int) -> None:
        if reply.error_code == NONE:
            self.answered = max(self.answered, accepted)
            self.last[member_id] = reply
        else:
            self.rejected += 1
            self.last.pop(member_id, None)

    def heartbeat(self, member_id: str, ticket: Taker) -> ConsumerHeartbeat:
        last, action = self.last.get(member_id), self.chance.random()
        names: tuple[str, ...] | None = None
        owned: Mapping[bytes, Sequence[int]] | None = None
        if last is None or last.member_epoch < 0 or action < 0.1:
            epoch, timeout_ms, owned = 0, 60_000, {}
            names = self.chance.choice((("t",), ("t", "u")))
        elif action < 0.2:
            epoch, timeout_ms = -1, -1
        else:
            epoch, timeout_ms = last.member_epoch, -1
            if last.assignment is not None and action < 0.8:
                owned = last.assignment
            if action < 0.3:
                names = self.chance.choice((("t",), ("u",), ("t", "u")))
        return ConsumerHeartbeat(
            ticket, GROUP, member_id, epoch, None, None, timeout_ms, names, None, None, owned,
            "client", "/127.0.0.1",
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
async def test_acknowledged_state_of_a_consumer_group_survives_a_kill(seed: int) -> None:
    crashes = Crashes(seed)
    await crashes.run()
    assert crashes.loads > STEPS
    assert crashes.answered > STEPS // 2
    assert crashes.failures
    assert crashes.groups.life.snapshots is not None
    assert crashes.groups.life.snapshots.written
    last = crashes.states[-1][GROUP]
    assert last["epoch"].epoch > STEPS // 10
