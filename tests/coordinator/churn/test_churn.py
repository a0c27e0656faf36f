"""When members restart, live members own their partitions for at least as much time as in a group
of Kafka 4.3.1. docs/internals/simulations.md has the results."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from coordinator.shard import GroupShard
from coordinator.step import Step
from protocol.now import Now
from tests.coordinator.churn.kafka_rule import KafkaGroup
from tests.coordinator.churn.scenarios import (
    LASTS_MS,
    SCENARIOS,
    crash_loop_of_all,
    crash_loop_of_one,
    crash_loop_of_three,
    long_back_offs,
)
from tests.coordinator.churn.world import Coordinator, Muster, Replies, World

pytestmark = pytest.mark.proves("kafka 5")

SEEDS = range(4)
SLACK = 0.001
"""The share of time in which live members own the partitions may be lower than Kafka's share by at
most this value. It is above 0 because in state Stable a SyncGroup renews the session some ms later
than in Kafka."""

Scenario = Callable[[World], None]


def share(make: Callable[[], Coordinator], scenario: Scenario) -> tuple[float, int]:
    """Returns the share of time in which live members own partitions, as a mean over several runs,
    and the number of UNKNOWN_MEMBER_ID errors."""
    shares, unknown = [], 0
    for seed in SEEDS:
        world = World(make(), seed)
        scenario(world)
        shares.append(world.run(LASTS_MS))
        unknown += world.unknown
    return sum(shares) / len(shares), unknown


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_live_members_own_partitions_at_least_as_long_as_in_kafka(scenario: Scenario) -> None:
    ours, unknown = share(Muster, scenario)
    kafkas, unknown_there = share(KafkaGroup, scenario)
    assert ours >= kafkas - SLACK
    assert unknown <= unknown_there


def test_group_becomes_stable_when_its_leader_crashes_in_the_join_phase() -> None:
    assert share(Muster, crash_loop_of_all)[0] > 1.5 * share(KafkaGroup, crash_loop_of_all)[0]


def test_live_client_keeps_its_member_id_after_a_10_second_disconnect() -> None:
    assert share(Muster, long_back_offs)[1] == 0


class _DroppedJoins(Muster):
    """A faulty coordinator. When a connection closes, the coordinator drops the parked request of a
    member on this connection, and starts the timer of the member's session."""

    session_ms: int | None = None

    def connection_closed(self, connection: Hashable, now_ms: int) -> Replies:
        shard: GroupShard = self.shard
        parked = [
            (group, member)
            for group, member in shard._state.parked.values()
            if member.connection == connection
        ]
        replies = super().connection_closed(connection, now_ms)

        def drop(step: Step) -> None:
            for group, member in parked:
                if group.members.get(member.member_id) is member:
                    step.void(group, member)
                    after_ms = self.session_ms or member.session_timeout_ms
                    step.state.deadlines.arm(member.session, step.now.mono_ms + after_ms)

        return [*replies, *self._take(shard.do(drop, Now(now_ms, now_ms)))]


class _ShortWait(_DroppedJoins):
    """A faulty coordinator. When a connection closes, it drops the parked request and waits only 5
    s for the member."""

    session_ms = 5_000


@pytest.mark.planted("churn compared with Kafka's rule")
@pytest.mark.parametrize("scenario", [crash_loop_of_one, crash_loop_of_three])
def test_churn_test_detects_a_planted_fault_that_drops_parked_joins(
    scenario: Scenario,
) -> None:
    kafkas, _ = share(KafkaGroup, scenario)
    assert share(_DroppedJoins, scenario)[0] < kafkas - 0.05


def test_churn_test_detects_a_planted_fault_that_removes_members_too_early() -> None:
    assert share(_ShortWait, long_back_offs)[1] > 0
