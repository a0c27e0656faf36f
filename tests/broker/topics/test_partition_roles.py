"""The roles of a replica in a cluster: which requests it serves in each role, when records are
stable, and role changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.topics.long_poll import Waiter
from broker.topics.partition import StableTooLate
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import NotEnoughReplicas, NotFollower, NotLeader, Role
from log.errors import LogPoisoned
from log.values import Marker
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
)
from replication.values import Rules
from tests.broker.partitions import Isr, partition_for, replica_for, state
from tests.broker.topics.test_partition_queue import StandingTime, settled
from tests.log.log_tools import NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles


class House:
    """A replica on broker 1 with a mock clock. Its ISR changes and its replies are recorded."""

    def __init__(self, high_watermark: int = 0, rules: Rules | None = None, **settings: Any):
        self.fs = SimulatedFiles()
        self.time = StandingTime()
        self.isr = Isr()
        self.log = open_log(self.fs, **settings)
        self.rules = rules
        self.replica = self.opened(high_watermark)
        self.answers: list[tuple[str, object]] = []

    def opened(self, high_watermark: int = 0) -> Replica:
        return replica_for(
            self.log,
            high_watermark=high_watermark,
            isr=self.isr,
            rules=self.rules,
            time=self.time,
        )

    def append(self, count: int = 1) -> int:
        for _ in range(count):
            self.replica.append(batch(0, b"v"), NOW_MS)
        return self.log.log_end_offset

    def take(self, *batches: bytes, high_watermark: int = 0, start: int = 0) -> None:
        """Appends batches as a follower that has fetched them from the leader."""
        self.replica.append_replicated(b"".join(batches), high_watermark, start)

    def produce(self, name: str, acks: int = -1, timeout_ms: int = 1000) -> None:
        offset = self.append()
        if acks == -1 or not self.replica.keeps(offset - 1):
            self.replica.when_acknowledged(
                offset,
                (Named(self, name), "stable"),
                lambda _, error: type(error),
                timeout_ms,
                by_all=acks == -1,
            )
        else:
            self.answers.append((name, "kept"))

    def wait(self, name: str, to_end: bool = False, committed: bool = False) -> None:
        """Registers a parked Fetch. It waits until the high watermark advances. With ``to_end`` it
        waits for the log end offset instead, and with ``committed`` for the last stable offset."""
        woken = lambda due: self.answers.append((name, "woken"))  # noqa: E731
        deadline_ms = self.time.mono_ms + 10_000
        waiter = Waiter([("t", 0)], deadline_ms, 1, woken, committed, to_end)
        self.replica._services.long_polls.wait(waiter)


class Named:
    """A ticket that records its reply."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name

    def take(self, reply: Any) -> None:
        self.house.answers.append((self.name, reply))


# -- which requests a replica serves


@pytest.mark.parametrize(
    ("asked", "leader", "follower", "unassigned", "offline", "alone"),
    [
        (-1, NONE, 6, 6, 56, NONE),
        (5, NONE, 6, 6, 56, NONE),
        (4, FENCED_LEADER_EPOCH, FENCED_LEADER_EPOCH, 6, 56, FENCED_LEADER_EPOCH),
        (6, UNKNOWN_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, 6, 56, UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_error_code_of_a_request_depends_on_replica_role_and_leader_epoch(
    asked: int, leader: int, follower: int, unassigned: int, offline: int, alone: int
) -> None:
    replica = House().replica
    assert (NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR) == (6, 56)
    assert replica.serving_error(asked) == unassigned
    replica.lead(state(leader_epoch=5))
    assert replica.serving_error(asked) == leader
    replica.follow(state(leader=2, leader_epoch=5))
    assert replica.serving_error(asked) == follower
    replica.offline()
    assert replica.serving_error(asked) == offline
    log = open_log(SimulatedFiles())
    log.epochs.assign(5, 0)
    assert partition_for(log).serving_error(asked) == alone


@pytest.mark.proves("clusters 6")
async def test_request_with_a_leader_epoch_below_that_of_the_controller_is_fenced() -> None:
    house = House()
    house.replica.follow(state(leader=2, leader_epoch=7))
    house.take(batch(0, b"a", leader_epoch=3))

    assert house.log.epochs.latest == 3
    assert house.replica.leader_epoch == 7
    assert house.replica.serving_error(3) == FENCED_LEADER_EPOCH


@pytest.mark.parametrize("role", [Role.UNASSIGNED, Role.FOLLOWER, Role.OFFLINE])
async def test_append_is_refused_unless_the_replica_leads(role: Role) -> None:
    house = House()
    if role is Role.FOLLOWER:
        house.replica.follow(state(leader=2))
    elif role is Role.OFFLINE:
        house.replica.offline()

    for append in (house.replica.append, house.replica.append_for_all):
        with pytest.raises(NotLeader) as refused:
            append(batch(0, b"v"), NOW_MS)
        assert refused.value.error_code == NOT_LEADER_OR_FOLLOWER
    with pytest.raises(NotLeader):
        house.replica.append_marker(Marker(7, 0, 0, True), NOW_MS)
    assert house.log.log_end_offset == 0


async def test_replica_that_is_not_a_follower_refuses_replicated_appends() -> None:
    house = House()
    with pytest.raises(NotFollower):
        house.take(batch(0, b"a"))
    house.replica.lead(state())
    with pytest.raises(NotFollower):
        house.take(batch(0, b"a"))
    with pytest.raises(NotFollower):
        house.replica.truncate_for_leader(0)
    with pytest.raises(NotFollower):
        house.replica.start_at(5)


# -- a leader


@pytest.mark.proves("clusters 5")
async def test_new_leader_stores_its_leader_epoch_before_its_first_batch() -> None:
    house = House()
    house.replica.follow(state(leader=2, leader_epoch=3))
    house.take(batch(0, b"a", leader_epoch=3), batch(1, b"b", leader_epoch=3))

    house.replica.lead(state(leader_epoch=4))

    assert house.log.epochs.entries == [(3, 0), (4, 2)]
    assert house.log.epochs.end_offset_for(3, house.replica.epoch_end) == (3, 2)
    again = open_log(house.fs)
    assert again.epochs.entries[-1] == (4, 2)


async def test_appended_batch_has_the_controllers_leader_epoch() -> None:
    house = House()
    house.replica.lead(state(leader_epoch=9))
    house.append()
    header = next(house.log.scan())[1]
    assert header.partition_leader_epoch == 9


async def test_record_is_stable_when_all_in_sync_replicas_have_the_record() -> None:
    house = House()
    house.replica.lead(state())
    house.produce("a")
    house.produce("b")
    house.replica.follower_fetched(2, 2)
    assert (house.replica.high_watermark, house.answers) == (0, [])
    house.replica.follower_fetched(3, 1)
    assert (house.replica.high_watermark, house.answers) == (1, [("a", "stable")])
    house.replica.follower_fetched(3, 2)
    assert (house.replica.high_watermark, house.answers[1:]) == (2, [("b", "stable")])


async def test_produce_with_acks_1_is_answered_at_once() -> None:
    house = House()
    house.replica.lead(state())
    house.produce("one", acks=1)
    assert house.answers == [("one", "kept")]
    assert house.replica.high_watermark == 0


async def test_produce_waits_for_the_flush_on_the_leader_when_flush_messages_is_1() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    house.replica.lead(state())
    house.produce("one", acks=1)
    house.produce("all")
    await settled()
    house.replica.follower_fetched(2, 2)
    house.replica.follower_fetched(3, 2)
    assert (house.replica.high_watermark, house.answers) == (0, [])

    house.time.disk.set()
    await settled()

    assert (house.replica.high_watermark, house.log.recovery_point) == (2, 2)
    assert sorted(house.answers) == [("all", "stable"), ("one", "stable")]


async def test_produce_with_acks_all_fails_at_its_timeout() -> None:
    house = House()
    house.replica.lead(state())
    house.produce("long", timeout_ms=500)
    house.produce("short", timeout_ms=100)
    house.time.move(100)
    house.time.ring()
    assert house.answers == [("short", StableTooLate)]
    house.time.move(400)
    house.time.ring()
    assert house.answers[1:] == [("long", StableTooLate)]


async def test_produce_with_acks_all_is_refused_below_min_insync_replicas() -> None:
    house = House(rules=Rules(min_isr=2))
    house.replica.lead(state(isr=(1,)))
    with pytest.raises(NotEnoughReplicas) as refused:
        house.replica.append_for_all(batch(0, b"v"), NOW_MS)
    assert refused.value.error_code == NOT_ENOUGH_REPLICAS
    assert house.log.log_end_offset == 0
    house.append()  # acks=1
    assert house.replica.high_watermark == 0


@pytest.mark.parametrize("how", ["follow", "stand_by", "offline"])
async def test_waiting_produce_gets_not_leader_when_leadership_is_lost(how: str) -> None:
    house = House(flush_messages=10)
    house.replica.lead(state())
    house.produce("all")
    house.wait("consumer")
    house.wait("replica", to_end=True)
    if how == "follow":
        house.replica.follow(state(leader=2, leader_epoch=1))
    else:
        getattr(house.replica, how)()
    assert house.answers == [("all", NotLeader)]
    await settled()
    assert sorted(house.answers[1:]) == [("consumer", "woken"), ("replica", "woken")]
    house.replica.expire()
    assert len(house.answers) == 3


async def test_request_that_would_wait_is_refused_after_the_loss_of_leadership() -> None:
    house = House()
    house.replica.lead(state())
    end_offset = house.append()
    house.replica.follow(state(leader=2, leader_epoch=1))
    house.replica.when_stable(end_offset, [(Named(house, "late"), 0)], lambda _, e: type(e))
    assert house.answers == []
    await settled()
    assert house.answers == [("late", NotLeader)]


async def test_waiting_produce_continues_when_the_same_leader_is_elected_again() -> None:
    house = House()
    assert house.replica.lead(state())
    house.produce("all")
    assert not house.replica.lead(state(leader_epoch=1, partition_epoch=1))
    assert house.answers == []
    house.replica.follower_fetched(2, 1)
    house.replica.follower_fetched(3, 1)
    assert house.answers == [("all", "stable")]


async def test_append_wakes_followers_and_high_watermark_change_wakes_consumers() -> None:
    house = House()
    house.replica.lead(state())
    house.wait("consumer")
    house.wait("replica", to_end=True)
    house.append()
    await settled()
    assert house.answers == [("replica", "woken")]
    house.replica.follower_fetched(2, 1)
    house.replica.follower_fetched(3, 1)
    await settled()
    assert house.answers[1:] == [("consumer", "woken")]


async def test_high_watermark_is_the_log_end_when_only_the_leader_is_in_sync() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(batch(0, b"a"), batch(1, b"b"), high_watermark=1)
    house.replica.lead(state(leader_epoch=1, isr=(1,)))
    assert house.replica.high_watermark == 2


async def test_isr_change_is_requested_once_and_applied_after_zookeeper_stores_it() -> None:
    house = House(rules=Rules(lag_time_max_ms=100))
    house.replica.lead(state())
    house.append()
    house.replica.follower_fetched(2, 1)
    house.time.move(101)
    house.replica.tick()
    assert house.isr.asked == [((1, 2), 0)]
    house.replica.tick()
    assert len(house.isr.asked) == 1
    assert house.replica.high_watermark == 0
    house.replica.isr_written(1)
    assert house.replica.state is not None
    assert (house.replica.state.isr, house.replica.state.partition_epoch) == ((1, 2), 1)
    assert house.replica.high_watermark == 1


async def test_high_watermark_of_a_new_leader_is_unknown_until_its_followers_fetch() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(batch(0, b"a"), batch(1, b"b"), high_watermark=1)
    house.replica.lead(state(leader_epoch=1))
    assert house.replica.end_is_unknown
    house.replica.follower_fetched(2, 2)
    house.replica.follower_fetched(3, 2)
    assert not house.replica.end_is_unknown


async def test_fetch_of_a_broker_that_is_not_a_follower_is_an_error() -> None:
    house = House()
    assert house.replica.follower_error(2) == NOT_LEADER_OR_FOLLOWER
    house.replica.lead(state())
    assert [house.replica.follower_error(each) for each in (2, 3, 4, 1)] == [
        NONE,
        NONE,
        UNKNOWN_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
    ]


# -- a follower


async def test_high_watermark_of_a_follower_is_at_most_its_log_end_offset() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(batch(0, b"a"), high_watermark=9)
    assert house.replica.high_watermark == 1
    house.take(batch(1, b"b"), high_watermark=1)
    assert house.replica.high_watermark == 1
    house.take(high_watermark=0)
    assert house.replica.high_watermark == 0


async def test_follower_adopts_the_log_start_offset_of_the_leader() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=5, start=3)
    assert house.log.log_start_offset == 3
    house.take(high_watermark=5, start=9)
    assert house.log.log_start_offset == 3


async def test_truncation_lowers_the_high_watermark() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=5)
    assert house.replica.truncate_for_leader(3) == 3
    assert (house.replica.high_watermark, house.log.log_end_offset) == (3, 3)


async def test_recovery_point_is_lowered_before_a_truncation() -> None:
    """With the old recovery point, a start after a crash would report the truncated records as
    missing."""
    house = House()
    house.replica = replica_for(house.log, time=house.time, lower=lambda *what: asked.append(what))
    asked: list[Any] = []
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=5)
    house.replica.truncate_for_leader(4)
    assert asked == []
    house.log.flush()
    house.replica.truncate_for_leader(3)
    assert asked == [(("t", 0), 3)]


async def test_truncation_fails_during_a_segment_swap_and_succeeds_after_the_swap() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=5)
    house.log.segments.swapping = True
    with pytest.raises(LogPoisoned):
        house.replica.truncate_for_leader(3)
    house.log.segments.swapping = False
    assert house.replica.truncate_for_leader(3) == 3


async def test_follower_log_is_reset_to_the_leaders_log_start_offset() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=5)
    house.replica.start_at(100)
    assert (house.log.log_start_offset, house.log.log_end_offset) == (100, 100)
    assert house.replica.high_watermark == 100
    house.take(batch(100, b"a"), high_watermark=100, start=100)
    again = open_log(house.fs)
    assert (again.log_start_offset, again.log_end_offset) == (100, 101)


async def test_first_uncleanable_offset_is_the_high_watermark() -> None:
    house = House()
    house.replica.follow(state(leader=2))
    house.take(*[batch(n, b"v") for n in range(5)], high_watermark=3)
    assert house.log.first_uncleanable_offset == 3
    house.replica.lead(state(leader_epoch=1))
    assert house.log.first_uncleanable_offset == 3
    house.replica.follower_fetched(2, 5)
    house.replica.follower_fetched(3, 4)
    assert house.log.first_uncleanable_offset == 4
    assert open_log(SimulatedFiles()).first_uncleanable_offset == 0


async def test_truncation_removes_a_leader_epoch_that_has_no_batches() -> None:
    """Without the removal, the follower would request the end of this epoch from the leader
    forever."""
    house = House()
    house.replica.lead(state(leader_epoch=4))
    house.replica.follow(state(leader=2, leader_epoch=5))
    assert house.log.epochs.latest == 4
    house.replica.truncate_for_leader(0)
    assert house.log.epochs.latest < 4


async def test_high_watermark_at_start_is_the_checkpointed_offset_bounded_by_the_log() -> None:
    house = House()
    house.replica.lead(state(isr=(1,), replicas=(1,)))
    house.append(5)
    for checkpoint, expected in ((3, 3), (9, 5), (0, 0)):
        assert house.opened(checkpoint).high_watermark == expected
    house.log.delete_records(2)
    assert house.opened(0).high_watermark == 2


async def test_close_of_a_replica_does_not_advance_the_high_watermark() -> None:
    house = House()
    house.replica.lead(state())
    house.append()
    house.replica.close()
    assert house.replica.high_watermark == 0


def transactional(base_offset: int, sequence: int = 0) -> bytes:
    return batch(base_offset, b"t", producer=(7, 0, sequence), transactional=True)


async def test_marker_is_refused_below_min_insync_replicas() -> None:
    house = House(rules=Rules(min_isr=2))
    house.replica.lead(state(isr=(1,)))
    with pytest.raises(NotEnoughReplicas):
        house.replica.append_marker(Marker(7, 0, 1, committed=True), NOW_MS)
    assert house.log.log_end_offset == 0


async def test_last_stable_offset_advances_when_high_watermark_passes_the_marker() -> None:
    """The broker has replicated the record and the marker as a follower before it becomes the
    leader. In one of two cases, it also restarts before it becomes the leader."""
    leading = House()
    leading.replica.lead(state(isr=(1,), replicas=(1,)))
    leading.replica.append(transactional(0), NOW_MS)
    leading.replica.append_marker(Marker(7, 0, 0, False), NOW_MS)
    data = b"".join(
        bytes(buffer[header.position : header.end]) for buffer, header in leading.log.scan()
    )
    house = House()
    house.replica.follow(state(leader=2))
    house.take(data, high_watermark=1)
    again = House()
    again.log = open_log(house.fs, recovery_point=0)
    reopened = again.opened(1)
    for replica in (house.replica, reopened):
        replica.lead(state(leader_epoch=1))
        assert (replica.high_watermark, replica.last_stable_offset) == (1, 0)
        for other in (2, 3):
            replica.follower_fetched(other, 2)
        assert (replica.high_watermark, replica.last_stable_offset) == (2, 2)
        assert replica.log.aborted_between(0, 2) == [(7, 0)]


async def test_request_for_an_already_stable_offset_is_answered_in_the_next_loop_iteration() -> (
    None
):
    house = House()
    house.replica.lead(state(isr=(1,), replicas=(1,)))
    house.replica.when_stable(house.append(), [(Named(house, "a"), 0)], lambda _, e: e)
    assert house.answers == []
    await asyncio.sleep(0)
    assert house.answers == [("a", 0)]
