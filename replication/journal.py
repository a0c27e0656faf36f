"""Why replicas fell out of sync, who leads and who says so: events told for a broker's journal."""

from __future__ import annotations

from journal.happened import CONTROLLER, SESSION, Happened, Kind, Named, of_partition
from protocol.now import Now
from replication.events import (
    Behind,
    ControllerTold,
    Event,
    LeaderTold,
    Registered,
    ReplicaIn,
    ReplicaOut,
    Session,
    SessionChanged,
)
from replication.values import NO_LEADER

_SESSIONS = {
    Session.BEGUN: "there is a session with ZooKeeper",
    Session.LOST: "the connection to ZooKeeper is lost; the session may live on",
    Session.BACK: "ZooKeeper is reached again, in the same session",
    Session.EXPIRED: "the session with ZooKeeper has expired: this broker is not registered",
}


def entry(event: Event, now: Now) -> Named:
    """What an event has to tell, and the name that it is about."""
    match event:
        case LeaderTold():
            return of_partition(event.topic, event.partition), _led(event, now)
        case ReplicaOut():
            return of_partition(event.topic, event.partition), _out(event, now)
        case ReplicaIn():
            return of_partition(event.topic, event.partition), _in(event, now)
        case ControllerTold(controller, epoch):
            why = f"broker {controller} is the controller, of epoch {epoch}"
            told = Happened(now.wall_ms, Kind.CONTROLLER, "told", why, controller, epoch)
            return CONTROLLER, told
        case SessionChanged(session):
            return SESSION, Happened(now.wall_ms, Kind.SESSION, session.value, _SESSIONS[session])
        case Registered(broker, epoch):
            why = f"broker {broker} is registered, with epoch {epoch}"
            return SESSION, Happened(now.wall_ms, Kind.SESSION, "registered", why, broker)


def words_of(behind: Behind) -> str:
    """How far a replica is behind, as the end of a sentence."""
    if behind.fetched_ago_ms < 0:
        return "has not fetched since this broker leads"
    fetched = f"fetched {_seconds(behind.fetched_ago_ms)} ago"
    if behind.records <= 0:
        return f"{fetched} and has all records"
    records = f"{behind.records} record{'s' * (behind.records != 1)} behind"
    if behind.caught_up_ago_ms < 0:
        return f"{fetched}, is {records} and never had all since this broker leads"
    return f"{fetched}, is {records} and had all {_seconds(behind.caught_up_ago_ms)} ago"


def _led(event: LeaderTold, now: Now) -> Happened:
    before = event.leader_before
    if event.leader == NO_LEADER:
        why = "the controller says that nobody leads"
    else:
        why = f"the controller says that broker {event.leader} leads"
        if before != NO_LEADER:
            is_so = "lives" if event.before_lives else "is not there"
            why += f"; broker {before}, which led, {is_so}"
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
        return "unassigned", "is no replica any more"
    if not event.is_alive:
        return "gone", f"is not there; it {words_of(behind)}"
    if event.by_controller:
        return "controller", "was taken out by the controller, though its broker lives"
    limit = f"(replica.lag.time.max.ms is {lag})"
    if behind.fetched_ago_ms < 0 or behind.fetched_ago_ms > event.lag_time_max_ms:
        return "silent", f"{words_of(behind)} {limit}: it is down, cut off or stands still"
    return "slow", f"{words_of(behind)} {limit}: it fetches, and does not keep up"


def _in(event: ReplicaIn, now: Now) -> Happened:
    why = "was taken in by the controller" if event.by_controller else "has caught up"
    return Happened(
        now.wall_ms, Kind.ISR, "in", f"broker {event.replica} {why}", event.replica,
        leader=event.leader, leader_before=event.leader, leader_epoch=event.leader_epoch,
        isr=event.isr, isr_before=event.isr_before,
    )  # fmt: skip


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"
