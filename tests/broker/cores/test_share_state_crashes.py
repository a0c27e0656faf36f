"""Tests that a kill at any time neither loses acknowledged states of share partitions (KIP-932) nor
adds states, even while redundant records are deleted.

Calls are sent to a shard with a real log on a simulated disk. After each accepted call, the test
remembers the states of the shard. The states that are loaded after a kill must equal the states
after the last answered call, or after a later accepted call.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from broker.cores.hosted_shard import HostedShard, Phase
from broker.cores.loading import load
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.share_state.kind import SHARE_STATES as KIND
from broker.cores.share_state.pruning import Pruning
from broker.cores.share_state.runtime import share_state_runtime
from broker.loop.background import Background
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.registry import SHARE_STATE_TOPIC
from log.config import LogConfig
from log.partition_log import PartitionLog
from protocol.errors import NONE
from share.persister.calls import DeleteState, InitializeState, ReadState, StateReply, WriteState
from share.persister.config import ShareStateConfig
from share.persister.shard import ShareStateShard
from share.values import SharePartitionKey, StateBatch
from tests.broker.edge import Taker, eventually
from tests.broker.partitions import partition_for, services_with
from tests.simulated_files import SimulatedFiles

CONFIG = ShareStateConfig(updates_per_snapshot=1)
KEYS = [SharePartitionKey("g", b"t" * 16, partition) for partition in range(2)]
FOLDER = f"/data/{SHARE_STATE_TOPIC}-0"
STEPS = 15

States = dict[SharePartitionKey, Any]


def open_log(fs: SimulatedFiles) -> PartitionLog:
    config = LogConfig(retention_ms=-1, segment_bytes=1500, file_delete_delay_ms=0)
    return PartitionLog.open(fs, FOLDER, SHARE_STATE_TOPIC, 0, config)


def states_of(shard: ShareStateShard) -> States:
    return {key: shard.view.snapshot(key) for key in shard.view.known_keys}


async def loaded_after_a_kill(fs: SimulatedFiles) -> States:
    """Returns the states that the next process loads."""
    hosted = HostedShard(KIND, ShareStateShard(CONFIG), partition_for(open_log(fs.as_killed())), 1)
    await load(hosted, 1 << 20, Slicer(Time()), None, lambda: ShareStateShard(CONFIG))
    return states_of(hosted.core)


class Crashes:
    """A shard whose disk fails. ``states`` has the initial state of the shard, and its state after
    each accepted call."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fs = SimulatedFiles()
        self.time = Time()
        slicer = Slicer(self.time)
        self.runtime = share_state_runtime(RuntimeSettings(CONFIG), self.time, slicer)
        background = Background(self.time, slicer.watchdog)
        self.pruning = Pruning(self.runtime, lambda: 1000, lambda _: True, slicer, background)
        self.states: list[States] = [{}]
        self.answered = 0
        """The index in ``states`` of the states after the last call that got a successful reply. A
        load after a crash must restore these states or later states."""
        self.loads = self.failures = self.pruned = 0

    async def run(self) -> None:
        services = services_with(time=self.time, errors=self.runtime.errors)
        partition = partition_for(open_log(self.fs), services)
        self.runtime.start([partition])
        try:
            for _ in range(STEPS):
                await self.step()
        finally:
            partition.stop()
            await self.runtime.stop()

    @property
    def hosted(self) -> HostedShard[ShareStateShard]:
        return self.runtime.hosted_shards[0]

    async def step(self) -> None:
        """Handles the calls of one turn; some writes fail. At several points, checks the state that
        a new process would load if this process were killed there."""
        if self.chance.random() < 0.1:
            self.fs.fail("write", ".log", partial_bytes=self.chance.choice((0, 7, 80)))
            self.failures += 1
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            self.send(self.chance.choice(KEYS))
        if self.chance.random() < 0.5:
            await self.check()  # in the middle of the turn
        while self.hosted.appended < self.hosted.accepted:
            await asyncio.sleep(0)
        await self.check()
        if self.hosted.phase is not Phase.ACTIVE:
            self.fs.heal()
            await eventually(lambda: self.hosted.phase is Phase.ACTIVE)
            reloaded = states_of(self.hosted.core)
            assert reloaded in self.states[self.answered :]
            self.states.append(reloaded)
            self.answered = len(self.states) - 1
        elif self.chance.random() < 0.6:
            log = self.hosted.log
            before = log.log_start_offset
            await self.pruning.run()
            self.pruned += log.log_start_offset > before
            await self.check()
            log.apply_retention(self.time.now().wall_ms, self.hosted.partition.high_watermark)
            await self.check()

    async def check(self) -> None:
        self.loads += 1
        answered = self.answered
        found = await loaded_after_a_kill(self.fs)
        assert found in self.states[answered:]

    def send(self, key: SharePartitionKey) -> None:
        if self.hosted.phase is not Phase.ACTIVE:
            return
        accepted = len(self.states)

        def take(reply: StateReply) -> None:
            if reply.error_code == NONE:
                self.answered = max(self.answered, accepted)

        self.runtime.submit(self.hosted, self.call(Taker(take), key))
        self.states.append(states_of(self.hosted.core))

    def call(self, ticket: Any, key: SharePartitionKey) -> Any:
        chance = self.chance
        kind = chance.random()
        if kind < 0.2 or self.hosted.core.view.state(key) is None:
            return InitializeState(ticket, key, chance.randrange(3), chance.choice((-1, 0)))
        if kind < 0.3:
            return DeleteState(ticket, key)
        if kind < 0.4:
            return ReadState(ticket, key, chance.randrange(9))
        first = chance.randrange(50)
        batch = StateBatch(first, first + chance.randrange(9), 2, chance.randrange(1, 4))
        return WriteState(ticket, key, -1, -1, chance.choice((-1, first)), 0, [batch])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.proves("share 6")
async def test_load_after_a_kill_returns_only_share_states_that_were_accepted_before_the_kill(
    seed: int,
) -> None:
    crashes = Crashes(seed)
    await crashes.run()
    assert crashes.loads > STEPS
    assert crashes.pruned
