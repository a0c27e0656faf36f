"""Makes the journal entries about in-sync replicas, leaders, the controller and the session with
ZooKeeper."""

from __future__ import annotations

from journal.happened import CONTROLLER, SESSION, Happened, Kind, Named, of_partition
from protocol.now import Now
from replication.events import (
    Behind,
    ControllerChanged,
    Event,
    LeaderReported,
    Registered,
    ReplicaIn,
    ReplicaOut,
    Session,
    SessionChanged,
)
from replication.values import NO_LEADER

_SESSIONS = {
    Session.BEGUN: "the ZooKeeper session is established",
    Session.LOST: "the connection to ZooKeeper is lost; the session may still be valid",
    Session.BACK: "the broker has reconnected to ZooKeeper within the same session",
    Session.EXPIRED: "the ZooKeeper session has expired: this broker is not registered",
}


def entry(event: Event, now: Now) -> Named:
    """Returns the journal entry of an event, and the name of the journal page that shows it."""
    match event:
        case LeaderReported():
            return of_partition(event.topic, event.partition), _led(event, now)
        case ReplicaOut():
            return of_partition(event.topic, event.partition), _out(event, now)
        case ReplicaIn():
            return of_partition(event.topic, event.partition), _in(event, now)
        case ControllerChanged(controller, epoch):
            why = f"broker {controller} is the controller (epoch {epoch})"
            change = Happened(now.wall_ms, Kind.CONTROLLER, "told", why, controller, epoch)
            return CONTROLLER, change
        case SessionChanged(session):
            return SESSION, Happened(now.wall_ms, Kind.SESSION, session.value, _SESSIONS[session])
        case Registered(broker, epoch):
            why = f"broker {broker} has registered (broker epoch {epoch})"
            return SESSION, Happened(now.wall_ms, Kind.SESSION, "registered", why, broker)


def words_of(behind: Behind) -> str:
    """Returns in words how far a replica is behind, without the subject of the sentence."""
    if behind.fetched_ago_ms < 0:
        return "has not fetched since this broker became leader"
    fetched = f"fetched {_seconds(behind.fetched_ago_ms)} ago"
    if behind.records <= 0:
        return f"{fetched} and was fully caught up"
    records = f"{behind.records} record{'s' * (behind.records != 1)} behind"
    if behind.caught_up_ago_ms < 0:
        return f"{fetched}, is {records} and has never caught up since this broker became leader"
    return f"{fetched}, is {records} and was last caught up {_seconds(behind.caught_up_ago_ms)} ago"


def _led(event: LeaderReported, now: Now) -> Happened:
    before = event.leader_before
    if event.leader == NO_LEADER:
        why = "the controller reports no leader"
    else:
        why = f"the controller reports broker {event.leader} as leader"
        if before != NO_LEADER:
            is_so = "alive" if event.before_lives else "down"
            why += f"; the previous leader, broker {before}, is {is_so}"
    return Happened(
        now.wall_ms, Kind.LEADER, "told", why,
        controller_epoch=event.controller_epoch, leader=event.leader, leader_before=before,
        leader_epoch=event.leader_epoch, isr=event.isr,
    )  # fmt: skip


def _out(event: ReplicaOut, now: Now) -> Happened:
    cause, why = _reason(event)
    return Happened(
        now.wall_ms, Kind.ISR, cause, f"broker {event.replica} {why}", event.replica,
        leader=event.leader, leader_before=event.leader, leader_epoch=event.leader_epoch,
        isr=event.isr, isr_before=event.isr_before, records=event.behind.records,
    )  # fmt: skip


def _reason(event: ReplicaOut) -> tuple[str, str]:
    behind, lag = event.behind, _seconds(event.lag_time_max_ms)
    if not event.is_assigned:
        return "unassigned", "is no longer a replica"
    if not event.is_alive:
        return "gone", f"is down; it {words_of(behind)}"
    if event.by_controller:
        return "controller", "was removed by the controller, though it is alive"
    limit = f"(replica.lag.time.max.ms is {lag})"
    if behind.fetched_ago_ms < 0 or behind.fetched_ago_ms > event.lag_time_max_ms:
        return "silent", f"{words_of(behind)} {limit}: it is down, unreachable or paused"
    return "slow", f"{words_of(behind)} {limit}: it fetches but does not keep up"


def _in(event: ReplicaIn, now: Now) -> Happened:
    why = "was added by the controller" if event.by_controller else "has caught up"
    return Happened(
        now.wall_ms, Kind.ISR, "in", f"broker {event.replica} {why}", event.replica,
        leader=event.leader, leader_before=event.leader, leader_epoch=event.leader_epoch,
        isr=event.isr, isr_before=event.isr_before,
    )  # fmt: skip


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"
