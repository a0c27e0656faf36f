"""The states of a classic group and their transitions, on one page.

This module defines the five states, their names and the legal transitions between them. The state
of a group changes only in ``Group.transition_to``; every handler has one ``match group.state`` with
a case for each state.

                    first join                     all members joined, or the deadline
            EMPTY ------------> PREPARING_REBALANCE ----------------> AWAITING_SYNC
              ^                  |        ^      ^                     |        |
              +------------------+        |      +---------------------+        | the leader's
            no member is left             |       join, leave, expiry           | assignment
                                          |                                     v
                                          +---------------------------------- STABLE
            DEAD <- any: deleted, expired or unloaded      join, leave, expiry

A transaction's marker is written in every state and needs no group.

Error codes below: 15 COORDINATOR_NOT_AVAILABLE, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 68
NON_EMPTY_GROUP, 69 GROUP_ID_NOT_FOUND, 86 GROUP_SUBSCRIBED_TO_TOPIC.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class State(Enum):
    """The state of a group; the value is its name on the wire, in events and in metrics."""

    EMPTY = "Empty"
    """The group has no members. It may have offsets, and new member ids with which no client has
    joined yet.

    *Action*: JoinGroup of a new member is accepted. Any other member id gets 25, also in SyncGroup,
    Heartbeat and LeaveGroup. OffsetCommit and TxnOffsetCommit are accepted without a generation (a
    simple consumer), and get 25 with a generation. OffsetFetch, DescribeGroups and ListGroups
    answer. DeleteGroups and OffsetDelete delete, pending offsets included.

    *Transition*: the first member -> PREPARING_REBALANCE, held open for the initial delay.
    DeleteGroups, or retention when no offset is left -> DEAD."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are rejoining; their JoinGroups are parked. A deadline is always armed.

    *Action*: JoinGroup is parked. SyncGroup gets 27. Heartbeat gets 27 and extends the session.
    LeaveGroup removes the member. OffsetCommit of the last generation is accepted, so that
    consumers can commit their work before they rejoin. TxnOffsetCommit of such a member is
    accepted, and so is a TxnOffsetCommit without membership. OffsetFetch, DescribeGroups and
    ListGroups answer, without metadata. DeleteGroups gets 68; OffsetDelete 86 for topics in use.

    *Transition*: every known member has joined and no member id is pending, or the deadline has
    passed -> AWAITING_SYNC, dynamic members that have not joined are removed, and the generation
    rises. No member is left -> EMPTY, and the generation rises too. The initial delay ends only
    when its time has passed. If no member has joined by the deadline and static members remain, the
    deadline is armed again."""

    AWAITING_SYNC = "CompletingRebalance"
    """The members have joined the new generation, and the group waits for the leader's assignment.
    A deadline is always armed.

    *Action*: JoinGroup of a member whose protocols are unchanged gets the same response again.
    SyncGroup is parked; the leader's SyncGroup contains the assignments. Heartbeat gets 0 and
    extends the session. LeaveGroup removes the member. OffsetCommit gets 27. TxnOffsetCommit is
    accepted as in PREPARING_REBALANCE, because a transaction can't wait. OffsetFetch,
    DescribeGroups and ListGroups respond, without metadata. DeleteGroups gets 68; OffsetDelete 86
    for topics in use.

    *Transition*: the leader's SyncGroup -> STABLE. A new, changed or removed member, a static
    member that rejoins, or the deadline (members that have not synced are removed) ->
    PREPARING_REBALANCE; parked SyncGroups get 27. An assignment that is too large to store ->
    PREPARING_REBALANCE too; parked SyncGroups get -1.
    """

    STABLE = "Stable"
    """Every member has its assignment. A deadline is armed while a member has not fetched its
    assignment.

    *Action*: JoinGroup of an unchanged follower is answered again. SyncGroup gets the assignment
    and extends the session, as do Heartbeat (0) and OffsetCommit (accepted); TxnOffsetCommit is
    accepted and does not extend the session. LeaveGroup removes the member. OffsetFetch,
    DescribeGroups (in full) and ListGroups answer. DeleteGroups gets 68; OffsetDelete 86 for topics
    in use.

    *Transition*: the leader rejoins, a follower rejoins with other protocols, a member is added or
    lost, the sync deadline passes, or a static member returns with another subscription ->
    PREPARING_REBALANCE. A static member that returns unchanged changes only its id."""

    DEAD = "Dead"
    """The group was deleted or has expired, or its partition was unloaded. The object exists only
    until it is removed.

    *Action*: every request gets 15, except that OffsetFetch returns no offsets, DescribeGroups
    returns Dead, ListGroups omits the group, and DeleteGroups and OffsetDelete get 69.

    *Transition*: none.
    """


LEGAL_PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.AWAITING_SYNC}),
    State.AWAITING_SYNC: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.AWAITING_SYNC}),
    State.DEAD: frozenset(State) - {State.DEAD},
}
"""The states from which each state may be entered."""

_BY_FILTER_NAME = {state.value.lower(): state for state in State} | {
    "awaitingsync": State.AWAITING_SYNC  # the name of CompletingRebalance before Kafka 1.1
}


def state_filter(names: Iterable[str]) -> frozenset[State]:
    """Returns the states in a ListGroups filter, whose names may be in upper or lower case; unknown
    names are ignored."""
    return frozenset(
        _BY_FILTER_NAME[name.lower()] for name in names if name.lower() in _BY_FILTER_NAME
    )
