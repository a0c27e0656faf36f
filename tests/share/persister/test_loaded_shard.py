"""Tests that a shard which is loaded from the log equals the shard that wrote the log, after random
calls.

Redundant records of the log may have been deleted.
"""

from __future__ import annotations

import random

import pytest

from share.persister.calls import DeleteState, ReadStateSummary
from share.values import SharePartitionKey, StateBatch
from tests.share.persister.driver import Driver, states
from tests.share.persister.test_combining import by_offset

KEYS = [SharePartitionKey(group, b"t" * 16, partition) for group in "gh" for partition in range(3)]
STEPS = 150
Offsets = dict[int, tuple[int, int]]


class Walk:
    """One random walk of calls. Its model stores the start offset of each share partition and the
    state of each offset."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.driver = Driver(
            updates_per_snapshot=self.chance.choice((0, 1, 4, 500)), cold_snapshot_interval_ms=1000
        )
        self.model: dict[SharePartitionKey, tuple[int, Offsets]] = {}

    def step(self) -> None:
        chance, key = self.chance, self.chance.choice(KEYS)
        match chance.choice(("initialize", "write", "write", "write", "read", "delete", "wait")):
            case "initialize":
                start = chance.choice((-1, 0, 20))
                assert self.driver.initialize(key, chance.randrange(3), start) in (0, 124)
                state = self.driver.shard.view.state(key)
                assert state is not None
                if not state.batches and state.start_offset == start:
                    self.model[key] = (start, {})
            case "write":
                self.write(key)
            case "read":
                self.driver.read(key, chance.randrange(-1, 4))
            case "delete" if chance.random() < 0.4:
                self.driver.answer(DeleteState("t", key))
                self.model.pop(key, None)
            case "wait":
                self.driver.advance(chance.choice((10, 700, 1000)), budget=3)
            case _:
                self.driver.answer(ReadStateSummary("t", key, 0))

    def write(self, key: SharePartitionKey) -> None:
        chance = self.chance
        batches = [
            StateBatch(first, first + chance.randrange(6), chance.choice((0, 2, 4)), count)
            for first in chance.sample(range(40), 3)
            for count in (chance.randrange(1, 4),)
        ]
        start = chance.choice((-1, chance.randrange(40)))
        if self.driver.write(*batches, key=key, epochs=(-1, -1), start_offset=start) == 0:
            before, offsets = self.model[key]
            start = max(before, start)
            singles = [
                StateBatch(offset, offset, state, count)
                for offset, (count, state) in offsets.items()
            ]
            self.model[key] = (start, by_offset([*singles, *batches], start))

    def check(self) -> None:
        driver = self.driver
        live = states(driver.shard)
        assert live.keys() == self.model.keys()
        for key, (start, offsets) in self.model.items():
            value = live[key][0]
            assert value.start_offset == start
            assert by_offset(list(value.batches), -1) == offsets
        assert states(driver.reloaded()) == live
        needed = driver.redundant()
        for first in {needed, self.chance.randint(0, needed)}:
            loaded = driver.reloaded(first)
            assert states(loaded) == live
            assert loaded.loaded(driver.now).events == ()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.proves("share 7")
def test_shard_loaded_from_the_log_equals_the_live_shard_and_the_model(seed: int) -> None:
    walk = Walk(seed)
    for number in range(STEPS):
        walk.step()
        if number % 10 == 0:
            walk.check()
    walk.check()
