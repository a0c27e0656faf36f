"""The last sign of life of a member, and the request that its group awaits from it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from coordinator.classic.states import State
from coordinator.read_only import GroupView, MemberView
from coordinator.wording import seconds
from protocol.deadlines import NEVER
from protocol.now import Now

_LATELY_MS = 15_000
_REBALANCING = (State.PREPARING_REBALANCE, State.AWAITING_SYNC)


class Sign(StrEnum):
    """The request that a group waits for a member to send."""

    HEARTBEATS = "heartbeats"
    """`is_heard` says so."""
    SILENT = "silent"
    """It does not."""
    NOT_DUE = "not_due"
    """Nothing was heard of it since its group began to wait, and no heartbeat need have been: a
    client heartbeats three times within its session timeout."""
    CLOSED = "closed"
    """Its connection closed, and nothing was heard of it since: its process ended, or the network
    was cut."""
    NEW = "new"
    """It has been given an id and has not joined with it yet."""
    GONE = "gone"
    """It is not in the group any more."""


class Awaited(NamedTuple):
    """A member that its group waits for."""

    sign: Sign
    silent_ms: int | None
    """Since its last sign of life; None where that is not known."""
    words: str


def state_since_ms(group: GroupView, now: Now) -> int:
    """Since when a group is in its state, wall time.

    As its journal has it: by the wall clock, for the other one does not count pauses of the broker.
    """
    if group.state_timestamp_ms < 0:  # the record in the log did not say
        return now.wall_ms - (now.mono_ms - group.state_since_ms)
    return min(group.state_timestamp_ms, now.wall_ms)


def closed_for_ms(member: MemberView, now: Now) -> int | None:
    """How long ago its connection closed; None while it is open, or unknown."""
    return None if member.closed_ms is None else max(0, now.mono_ms - member.closed_ms)


def session_left_ms(member: MemberView, now: Now) -> int | None:
    """How long its session still runs; None while a request of it waits here."""
    if member.waits or member.session.due_ms == NEVER:
        return None
    return max(0, member.session.due_ms - now.mono_ms)


def silent_ms(member: MemberView, now: Now) -> int | None:
    """Milliseconds since the last request of a member; None while a request of it is parked.

    A parked request whose connection has closed does not count; the member's session may begin
    later than that.
    """
    closed_ms = closed_for_ms(member, now)
    if member.waits or member.session.due_ms == NEVER:
        return closed_ms
    silent = max(0, now.mono_ms - member.session.due_ms + member.session_timeout_ms)
    return silent if closed_ms is None else max(silent, closed_ms)


def is_heard(group: GroupView, member: MemberView, now: Now) -> bool:
    """Whether a member is alive by what is heard of it: lately, and since its group began to wait.

    A client heartbeats every 3 s by default, and three times within its session timeout.
    """
    if member.closed_ms is not None:
        return False
    silent = silent_ms(member, now)
    if silent is None:
        return True
    if silent > min(member.session_timeout_ms / 2, _LATELY_MS):
        return False
    return group.state not in _REBALANCING or now.mono_ms - silent > group.state_since_ms


def phase_end_ms(group: GroupView, now: Now) -> int | None:
    """When the phase ends if nothing more is heard of the silent members; monotonic.

    The coordinator removes a member when its session ends, so a join phase may end before its
    deadline, with the last of these sessions. A sync phase ends with the first: it is followed by
    the next rebalance. None while no phase runs.
    """
    waits = group.awaited()
    if waits.deadline_ms is None:
        return None
    left_ms = [_silence_left_ms(group, member_id, now) for member_id in waits.members]
    ends_ms = [now.mono_ms + each for each in left_ms if each is not None]
    if not ends_ms or (waits.phase != "sync" and len(ends_ms) < len(left_ms)):
        return waits.deadline_ms
    return min(waits.deadline_ms, min(ends_ms) if waits.phase == "sync" else max(ends_ms))


def _silence_left_ms(group: GroupView, member_id: str, now: Now) -> int | None:
    """How long the session of a silent member still runs; None for a member that heartbeats."""
    member = group.members.get(member_id)
    if member is None or is_heard(group, member, now):
        return None
    return session_left_ms(member, now)


def awaited(group: GroupView, member_id: str, now: Now) -> Awaited:
    """The request that the group awaits from a member now."""
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending:
            return Awaited(
                Sign.NEW, None, "it received its member id but has not joined with it yet"
            )
        return Awaited(Sign.GONE, None, "it is no longer a member of the group")
    silent = silent_ms(member, now)
    left_ms = session_left_ms(member, now)
    ends = "" if left_ms is None else f"; its session expires in {seconds(left_ms)}"
    closed_ms = closed_for_ms(member, now)
    if closed_ms is not None:
        return Awaited(Sign.CLOSED, silent, f"its connection closed {seconds(closed_ms)} ago{ends}")
    omits = "rejoin" if group.state is State.PREPARING_REBALANCE else "sync"
    if silent is None or is_heard(group, member, now):
        ago = "" if silent is None else f" (last {seconds(silent)} ago)"
        return Awaited(Sign.HEARTBEATS, silent, f"it still heartbeats{ago} but does not {omits}")
    if silent <= member.session_timeout_ms / 3:
        words = f"its last heartbeat was {seconds(silent)} ago, the next may not be due yet"
        return Awaited(Sign.NOT_DUE, silent, f"{words}{ends}")
    return Awaited(Sign.SILENT, silent, f"no heartbeat for {seconds(silent)}{ends}")
