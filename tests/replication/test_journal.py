"""Tests of journal entries about replicas. They contain when and why a replica left the ISR."""

from __future__ import annotations

from journal.happened import SESSION, Happened
from protocol.now import Now
from replication.events import (
    Behind,
    ControllerChanged,
    Event,
    LeaderReported,
    Registered,
    Session,
    SessionChanged,
)
from replication.in_sync import behind, isr_events
from replication.journal import entry
from replication.leader import LedReplicas
from replication.values import PartitionState, Rules

STATE = PartitionState(1, 1, 5, (1, 2, 3), 0, (1, 2, 3))


def led(alive: tuple[int, ...] = (1, 2, 3)) -> LedReplicas:
    """Returns the leader state of broker 1, which has led since 1000 ms and has 100 records. Broker
    2 has fetched all records, and broker 3 has fetched 40 records."""
    rules = Rules(3_000, 1, lambda broker: broker in alive)
    found = LedReplicas(1, STATE, 100, 0, 100, 1_000, rules)
    found.follower_fetched(2, 100, 100, 2_000)
    found.follower_fetched(3, 40, 100, 2_000)
    return found


def entry_of(event: Event) -> tuple[str, Happened]:
    return entry(event, Now(0, 77))


def changed(
    found: LedReplicas, isr: tuple[int, ...], now_ms: int, by_controller: bool
) -> list[str]:
    """Changes the ISR of partition t-0 to ``isr``, and returns the journal entries as text."""
    after = found.state._replace(isr=isr)
    events = isr_events(found, "t", 0, after, now_ms, by_controller=by_controller)
    stories = [entry_of(event) for event in events]
    assert all(name == "t-0" for name, _ in stories)
    return [f"{entry.cause}: {entry.why}" for _, entry in stories]


def test_lag_of_a_replica_is_measured_in_records_and_in_time() -> None:
    found = led()

    assert behind(found, 2, 2_500) == Behind(0, 500, 500)
    assert behind(found, 3, 2_500) == Behind(60, 500, 1_500)
    assert behind(LedReplicas(1, STATE, 1, 0, 0, 0, Rules()), 2, 9) == Behind(-1, -1, -1)


def test_journal_distinguishes_slow_and_silent_replicas_that_left_the_isr() -> None:
    limit = "(replica.lag.time.max.ms is 3.0 s)"

    assert changed(led(), (1, 2), 4_500, by_controller=False) == [
        f"slow: broker 3 fetched 2.5 s ago, is 60 records behind and was last caught up 3.5 s ago"
        f" {limit}: it fetches but does not keep up"
    ]
    assert changed(led(), (1, 2), 9_000, by_controller=False) == [
        f"silent: broker 3 fetched 7.0 s ago, is 60 records behind and was last caught up 8.0 s ago"
        f" {limit}: it is down, unreachable or paused"
    ]
    never = LedReplicas(1, STATE, 1, 0, 0, 0, Rules(3_000))
    assert changed(never, (1, 2), 4_500, by_controller=False) == [
        f"silent: broker 3 has not fetched since this broker became leader {limit}: it is down,"
        " unreachable or paused"
    ]


def test_journal_entry_of_an_isr_change_has_the_cause() -> None:
    assert changed(led(alive=(1, 2)), (1, 2), 2_500, by_controller=True) == [
        "gone: broker 3 is down; it fetched 0.5 s ago, is 60 records behind and was last caught up"
        " 1.5 s ago"
    ]
    assert changed(led(), (1, 2), 2_500, by_controller=True) == [
        "controller: broker 3 was removed by the controller, though it is alive"
    ]
    out = led()
    out.state = STATE._replace(isr=(1, 2))
    assert changed(out, (1, 2, 3), 2_500, by_controller=False) == ["in: broker 3 has caught up"]
    assert changed(out, (1, 2), 2_500, by_controller=True) == []
    assert changed(led(), STATE.isr, 2_500, by_controller=True) == []


def test_journal_entry_of_a_leader_change_names_new_and_previous_leader() -> None:
    lost = LeaderReported("t", 0, 1, 3, 6, (1, 2), 4, before_lives=False)

    name, entry = entry_of(lost)
    assert (name, entry.leader, entry.leader_before, entry.leader_epoch) == ("t-0", 1, 3, 6)
    assert entry.why == (
        "the controller reports broker 1 as leader; the previous leader, broker 3, is down"
    )
    assert entry_of(lost._replace(leader=-1))[1].why == "the controller reports no leader"
    assert entry_of(lost._replace(leader_before=-1))[1].why == (
        "the controller reports broker 1 as leader"
    )


def test_journal_has_causes_of_controller_changes_expired_sessions_and_registrations() -> None:
    assert entry_of(ControllerChanged(2, 8))[1].why == "broker 2 is the controller (epoch 8)"
    name, entry = entry_of(SessionChanged(Session.EXPIRED))
    assert (name, entry.cause) == (SESSION, "expired")
    assert entry_of(Registered(1, 33))[1].why == "broker 1 has registered (broker epoch 33)"
