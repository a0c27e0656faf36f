"""Random sequences of calls keep the invariants of a shard, and the shard answers every ticket
exactly once. The seed is part of the test's id."""

from __future__ import annotations

import random

import pytest

from coordinator.calls import (
    DeleteGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    OffsetCommit,
    OffsetDelete,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.classic.states import State
from coordinator.classic.sweeps import EVERY_LOG_OFFSET
from coordinator.config import GroupConfig
from coordinator.events import GroupRemoved
from coordinator.outcome import JoinReply, Outcome, SyncReply
from coordinator.shard import GroupShard
from offsets.runs import OwnBatch, Run
from protocol.consumer_protocol import encode_subscription
from protocol.now import Now
from tests.coordinator.invariants import check_against_log, check_shard
from tests.simulation.test_planted_faults import (
    Plant,
    a_deleted_group_keeps_its_record,
    a_join_is_answered_twice,
    a_member_that_left_still_leads,
    support_is_not_counted_down,
)

WALKS = 60
STEPS = 250
CONNECTIONS = ("c1", "c2", "c3", "c4")
MINUTE_MS = 60_000


class Walk:
    """One random sequence of calls: the shard, the tickets without a reply, and the replies that
    clients received."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.config = GroupConfig(
            initial_rebalance_delay_ms=self.chance.choice([0, 3000]),
            join_coalescing_ms=self.chance.choice([0, 0, 700, 400_000]),
            fetch_counts_as_activity=self.chance.random() < 0.3,
            max_size=self.chance.choice([2, 4, 100]),
            new_member_join_timeout_ms=self.chance.choice([5000, 300_000]),
            offset_metadata_max_bytes=3,
            offsets_retention_ms=MINUTE_MS,
            offsets_retention_check_interval_ms=MINUTE_MS // 6,
            max_record_bytes=self.chance.choice([600, 1_000_000]),
        )
        self.shard = GroupShard(self.config)
        self.mono_ms = 0
        self.owed: dict[int, str] = {}
        self.next_ticket = 0
        self.fresh_ids = 0
        self.log: list[tuple[int, Run | OwnBatch]] = []
        self.log_end = 0
        self.ids: list[str] = ["", "", "nobody"]
        self.generations: dict[str, int] = {}
        self.take(self.shard.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, 1_000_000 + self.mono_ms)

    def take(self, outcome: Outcome) -> None:
        for run in outcome.records:
            self.shard.replay(run, self.log_end)
            self.log.append((self.log_end, run))
            self.log_end += len(run)
        for ticket, reply in outcome.replies:
            group_id = self.owed.pop(ticket)  # KeyError: answered twice, or not issued
            if isinstance(reply, JoinReply):
                if reply.member_id:
                    self.ids.append(reply.member_id)
                if reply.error_code == 0:
                    assert reply.generation_id >= self.generations.get(group_id, 0)
                    self.generations[group_id] = reply.generation_id
        for event in outcome.events:
            if isinstance(event, GroupRemoved):
                self.generations.pop(
                    event.group_id, None
                )  # a later group with the same name begins without state

    def ticket(self, group_id: str) -> int:
        self.next_ticket += 1
        self.owed[self.next_ticket] = group_id
        return self.next_ticket

    def step(self) -> None:
        choose = self.chance.choice
        group_id = choose(["g", "g", "h"])
        group = self.shard.view.groups.get(group_id)
        known = list(group.members) + list(group.pending) if group else []
        member_id = choose([*known * 2, *self.ids[-3:], *self.ids[:3]])
        instance_id = choose([None, None, None, "i1", "i2"])
        if group and member_id in group.members and self.chance.random() < 0.8:
            instance_id = group.members[member_id].group_instance_id
        generation_id = group.generation_id if group else 0
        generation_id += choose([0] * 8 + [1, -1])
        ticket = self.ticket(group_id)
        match self.chance.randrange(14):
            case 0 | 1 | 2 | 3:
                self.join(ticket, group_id, member_id, instance_id)
            case 4 | 5:
                if group and group.leader_id and self.chance.random() < 0.5:
                    member_id = group.leader_id
                    instance_id = group.members[member_id].group_instance_id
                given = [(name, choose([b"", b"A" * 9, b"B" * 300])) for name in known]
                who = (group_id, generation_id, member_id, instance_id)
                call = SyncGroup(ticket, *who, None, None, given, choose(CONNECTIONS))
                self.take(self.shard.handle(call, self.now))
            case 6:
                who = (group_id, generation_id, member_id, instance_id)
                call = Heartbeat(ticket, *who, choose(CONNECTIONS))
                self.take(self.shard.handle(call, self.now))
            case 7:
                leavers = [Leaver(member_id, instance_id, None)]
                leavers += [Leaver(name, None, None) for name in known[:1] if choose([0, 1])]
                self.take(self.shard.handle(LeaveGroup(ticket, group_id, leavers), self.now))
            case 8 | 9:
                size = choose([1, 1, 2, 30])
                texts = choose([None, ["abcd", *[None] * (size - 1)]])
                topic = TopicOffsets("t", range(size), [5] * size, [-1] * size, texts, None)
                if choose([0, 1]):
                    generation_id, member_id, instance_id = -1, "", None
                call = OffsetCommit(
                    ticket, group_id, generation_id, member_id, instance_id, -1, [topic]
                )
                self.take(self.shard.handle(call, self.now))
            case 10:
                call = choose(
                    [
                        DeleteGroup(ticket, group_id),
                        OffsetDelete(ticket, group_id, [("t", [0, 1])]),
                    ]
                )
                self.take(self.shard.handle(call, self.now))
            case 11:
                del self.owed[ticket]
                self.other()
            case 12:
                topics = [TopicOffsets("t", [0, 1], [5, 5], [-1, -1], None, None)]
                if choose([0, 1]):
                    generation_id, member_id, instance_id = -1, "", None
                producer = choose([7, 8]), 0
                call = TxnOffsetCommit(
                    ticket, group_id, *producer, generation_id, member_id, instance_id, topics
                )
                self.take(self.shard.handle(call, self.now))
            case _:
                call = EndOffsets(ticket, choose([7, 8]), 0, 0, choose([True, False]))
                self.take(self.shard.handle(call, self.now))

    def join(self, ticket: int, group_id: str, member_id: str, instance_id: str | None) -> None:
        choose = self.chance.choice
        self.fresh_ids += 1
        call = JoinGroup(
            ticket,
            group_id,
            member_id,
            instance_id,
            choose(["a", "b"]),
            "/h",
            choose([6000, 10_000, 30_000]),
            choose([-1, 5000, 20_000]),
            choose(["consumer"] * 9 + ["connect"]),
            choose([[("range", encode_subscription([topic]))] for topic in "ttu"])
            + choose([[], [], [("sticky", b"?")]]),
            None,
            choose([False, True]),
            choose([False, True]),
            f"{self.fresh_ids}",
            choose(CONNECTIONS),
        )
        self.take(self.shard.handle(call, self.now))

    def other(self) -> None:
        match self.chance.randrange(6):
            case 0:
                connection = self.chance.choice(CONNECTIONS)
                self.take(self.shard.connection_closed(connection, self.now))
                assert connection not in self.shard.connections
            case 1:
                self.take(self.shard.topics_deleted({"t": EVERY_LOG_OFFSET}, self.now))
            case _:
                self.advance(self.chance.choice([1, 1000, 5000, 20_000]))

    def advance(self, ms: int) -> None:
        until_ms = self.mono_ms + ms
        for _ in range(1000):
            due_ms = self.shard.next_deadline()
            if due_ms is None or due_ms > until_ms:
                self.mono_ms = until_ms
                return
            self.mono_ms = max(self.mono_ms, due_ms)
            self.take(self.shard.expire(self.now, self.chance.choice([1, 100])))
        raise AssertionError("time does not pass: something is due for ever")


@pytest.mark.parametrize("seed", range(WALKS))
def test_invariants_of_a_group_shard_hold_during_a_random_walk(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        check_shard(walk.shard)
        check_against_log(walk.shard, walk.config, walk.log, walk.now)
        assert set(walk.owed) == set(walk.shard.view.parked())

    # Without further calls every group settles: no request is parked, and all members are removed.
    walk.advance(2 * 300_000)
    assert not walk.owed
    assert all(group.state is State.EMPTY for group in walk.shard.view.groups.values())
    walk.take(walk.shard.unload(16))
    assert not walk.owed


@pytest.mark.planted("random walks of a group")
@pytest.mark.parametrize(
    "plant",
    [
        a_member_that_left_still_leads,
        a_join_is_answered_twice,
        support_is_not_counted_down,
        a_deleted_group_keeps_its_record,
    ],
    ids=lambda plant: plant.__name__,
)
def test_random_walk_of_a_group_shard_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(WALKS):
        try:
            test_invariants_of_a_group_shard_hold_during_a_random_walk(seed)
        except (AssertionError, KeyError):  # KeyError: a reply without a ticket
            return
    pytest.fail(f"{WALKS} walks found nothing wrong")


def test_random_walks_reach_every_state_and_park_requests() -> None:
    """The other tests would prove little if the random calls did not reach all states."""
    states = set()
    waited = 0
    for seed in range(10):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            states |= {group.state for group in walk.shard.view.groups.values()}
            waited += len(walk.owed)
    assert states == {
        State.EMPTY,
        State.PREPARING_REBALANCE,
        State.AWAITING_SYNC,
        State.STABLE,
    }
    assert waited > 1000


def test_unload_answers_every_request_that_a_random_walk_parked() -> None:
    owed = 0
    for seed in range(20):
        walk = Walk(seed)
        for _ in range(10 * seed):
            walk.step()
        owed += len(walk.owed)
        outcome = walk.shard.unload(16)
        assert not outcome.records
        for _, reply in outcome.replies:
            assert isinstance(reply, JoinReply | SyncReply)
            assert reply.error_code == 16
        walk.take(outcome)
        assert not walk.owed
    assert owed > 10, "walks during which nobody waits show nothing"
