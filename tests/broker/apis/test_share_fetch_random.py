"""Tests share group members that fetch, acknowledge, close and lose their locks at random, compared
with a model."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from protocol.errors import INVALID_RECORD_STATE, NONE
from tests.broker.mock_time import MockTime
from tests.broker.share_calls import ACCEPT, REJECT, RELEASE, ShareMember, acquired
from tests.broker.share_scene import Scene, on_scene

LIMIT = 5
"""The number of deliveries after which a record is archived."""


class Model:
    """The records that the members have acquired, and the records in a final state."""

    def __init__(self, scene: Scene, time: MockTime, chance: Random) -> None:
        self.scene = scene
        self.time = time
        self.chance = chance
        self.members = [scene.member(f"m{number}") for number in range(3)]
        self.held: dict[int, ShareMember] = {}
        self.final: set[int] = set()
        self.accepted: set[int] = set()
        self.counts: dict[int, int] = {}
        self.end = 0
        for member in self.members:
            member.open(max_wait_ms=0)

    def produce(self) -> None:
        count = self.chance.randint(1, 4)
        self.scene.produce(*[b"v"] * count)
        self.end += count

    def fetch(self, member: ShareMember, **fields: Any) -> int:
        mode, size = self.chance.randint(0, 1), self.chance.randint(1, 6)
        ranges = acquired(member.fetch(max_records=size, share_acquire_mode=mode, **fields))
        found = [(o, count) for first, last, count in ranges for o in range(first, last + 1)]
        for offset, count in found:
            assert offset not in self.held, "two members hold a record"
            assert offset not in self.final, "a final record was delivered"
            assert count == self.counts.get(offset, 0) + 1 <= LIMIT
            self.held[offset] = member
            self.counts[offset] = count
        if mode:
            assert len(found) <= size
        return len(found)

    def acknowledge(self, member: ShareMember, *types: int) -> None:
        mine = sorted(offset for offset, holder in self.held.items() if holder is member)
        chosen = [offset for offset in mine if self.chance.random() < 0.7]
        given = [(offset, self.chance.choice(types)) for offset in chosen]
        if given:
            batches = [(offset, offset, [type_]) for offset, type_ in given]
            assert member.acknowledge(*batches) == NONE
        for offset, type_ in given:
            self.let_go(offset, is_final=type_ in (ACCEPT, REJECT))
            if type_ == ACCEPT:
                self.accepted.add(offset)

    def let_go(self, offset: int, *, is_final: bool = False, counts: bool = True) -> None:
        del self.held[offset]
        if is_final or (counts and self.counts[offset] == LIMIT):
            self.final.add(offset)

    def steal(self, member: ShareMember) -> None:
        """Acknowledges a record that another member has acquired; the broker must refuse this."""
        others = [offset for offset, holder in self.held.items() if holder is not member]
        if others:
            offset = self.chance.choice(others)
            assert member.acknowledge((offset, offset, [ACCEPT])) == INVALID_RECORD_STATE

    def close(self, member: ShareMember) -> None:
        assert member.close()["error_code"] == NONE
        for offset in [each for each, holder in self.held.items() if holder is member]:
            self.let_go(offset)
        member.open(max_wait_ms=0, max_records=0)

    def expire(self) -> None:
        self.scene.move(self.time, 31_000)
        for offset in list(self.held):
            self.let_go(offset)

    def step(self) -> None:
        member = self.chance.choice(self.members)
        what = self.chance.choices(range(6), (3, 8, 8, 2, 1, 1))[0]
        if what == 0:
            self.produce()
        elif what == 1:
            self.fetch(member)
        elif what == 2:
            self.acknowledge(member, ACCEPT, ACCEPT, RELEASE, REJECT)
        elif what == 3:
            self.steal(member)
        elif what == 4:
            self.close(member)
        else:
            self.expire()

    def finish(self) -> None:
        """Accepts all records that are not in a final state."""
        self.expire()
        member = self.members[0]
        while len(self.final) < self.end:
            assert self.fetch(member, max_wait_ms=10_000)
            for offset in list(self.held):
                assert member.acknowledge((offset, offset, [ACCEPT])) == NONE
                self.let_go(offset, is_final=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.proves("share 2")
async def test_record_is_delivered_until_it_is_accepted_or_archived_when_members_act_at_random(
    tmp_path: Path, seed: int
) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        model = Model(scene, time, Random(seed))
        for _ in range(150):
            model.step()
        model.finish()

    await on_scene(tmp_path, work, time=time)
