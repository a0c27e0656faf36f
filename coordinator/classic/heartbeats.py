"""Computes, for each member that a group waits for, whether the member still sends heartbeats and
when its session expires."""

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
    """The coordinator's last observation of a member for which a rebalance waits. It depends on the
    member's requests and on the state of its connection."""

    HEARTBEATS = "heartbeats"
    """The member has sent a heartbeat or another request recently (see `is_heard`)."""
    SILENT = "silent"
    """The member has not sent a request recently (see `is_heard`)."""
    NOT_DUE = "not_due"
    """The member has not sent a request since its group began to wait, but its next heartbeat may
    not be due yet. A client heartbeats three times per session timeout."""
    CLOSED = "closed"
    """The member's connection closed, and the member has not sent a request since. Its process
    ended, or the network failed."""
    NEW = "new"
    """The client received a member id and has not joined with this id yet."""
    GONE = "gone"


class Awaited(NamedTuple):
    """A member for which its group waits."""

    sign: Sign
    silent_ms: int | None
    """Milliseconds since the member's last request; None if the time is unknown or a request of the
    member is parked."""
    words: str


def state_since_ms(group: GroupView, now: Now) -> int:
    """Returns the wall time in ms at which a group entered its state.

    This is the time in the group's record, as in the journal. If the record has no time, it is
    computed from the monotonic clock. The result is then less exact, because this clock does not
    count pauses of the broker.
    """
    if group.state_timestamp_ms < 0:  # the record has no timestamp
        return now.wall_ms - (now.mono_ms - group.state_since_ms)
    return min(group.state_timestamp_ms, now.wall_ms)


def closed_for_ms(member: MemberView, now: Now) -> int | None:
    """Returns the milliseconds since the member's connection closed; None if the connection is open
    or its state is unknown."""
    return None if member.closed_ms is None else max(0, now.mono_ms - member.closed_ms)


def session_left_ms(member: MemberView, now: Now) -> int | None:
    """Returns the milliseconds until the member's session expires; None if a request of the member
    is parked."""
    if member.waits or member.session.due_ms == NEVER:
        return None
    return max(0, member.session.due_ms - now.mono_ms)


def silent_ms(member: MemberView, now: Now) -> int | None:
    """Returns the time in ms since the member's last request or since the close of its connection,
    whichever is longer.

    While a request of the member is parked, returns the time since the close, or None if the
    connection is open.
    """
    closed_ms = closed_for_ms(member, now)
    if member.waits or member.session.due_ms == NEVER:
        return closed_ms
    silent = max(0, now.mono_ms - member.session.due_ms + member.session_timeout_ms)
    return silent if closed_ms is None else max(silent, closed_ms)


def is_heard(group: GroupView, member: MemberView, now: Now) -> bool:
    """Returns whether a member has sent a request recently. In a rebalance, the request must also
    be newer than the beginning of the phase.

    "Recently" means within the last 15 s and within half of the member's session timeout. By
    default, a client heartbeats every 3 s, and three times per session timeout. A request that is
    parked on an open connection counts as recent.
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
    """Returns the monotonic time in ms at which the current phase of a rebalance ends if the
    awaited members send no request; None if the group is in no phase.

    The coordinator removes a member when its session expires. A join phase may therefore end before
    its deadline, when the last awaited session expires. A sync phase ends when the first awaited
    session expires, because the removal begins the next rebalance.
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
    """Returns the milliseconds until the session of a silent member expires; None for a member that
    heartbeats."""
    member = group.members.get(member_id)
    if member is None or is_heard(group, member, now):
        return None
    return session_left_ms(member, now)


def awaited(group: GroupView, member_id: str, now: Now) -> Awaited:
    """Returns the last sign of life of the member ``member_id``, for which the group waits, and a
    description of this sign in words."""
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending:
            return Awaited(
                Sign.NEW, None, "the member received its id but has not joined with the id yet"
            )
        return Awaited(Sign.GONE, None, "the member is no longer in the group")
    silent = silent_ms(member, now)
    left_ms = session_left_ms(member, now)
    ends = "" if left_ms is None else f"; the session expires in {seconds(left_ms)}"
    closed_ms = closed_for_ms(member, now)
    if closed_ms is not None:
        return Awaited(Sign.CLOSED, silent, f"the connection closed {seconds(closed_ms)} ago{ends}")
    omits = "rejoin" if group.state is State.PREPARING_REBALANCE else "sync"
    if group.type == "consumer":
        omits = "give up its partitions"
    if silent is None or is_heard(group, member, now):
        ago = "" if silent is None else f" (last {seconds(silent)} ago)"
        return Awaited(
            Sign.HEARTBEATS, silent, f"the member still heartbeats{ago} but does not {omits}"
        )
    if silent <= member.session_timeout_ms / 3:
        words = f"the last heartbeat was {seconds(silent)} ago; the next may not be due yet"
        return Awaited(Sign.NOT_DUE, silent, f"{words}{ends}")
    return Awaited(Sign.SILENT, silent, f"no heartbeat for {seconds(silent)}{ends}")
