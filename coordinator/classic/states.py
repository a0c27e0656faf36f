"""The states of a classic group and their transitions, on one page.

This module defines the five states, their names and the legal transitions between them. The state
of a group changes only in ``Group.transition_to``. Every handler has one ``match group.state`` with
a case for each state.

                    first join                     all members joined, or the deadline
            EMPTY ------------> PREPARING_REBALANCE ----------------> AWAITING_SYNC
              ^                  |        ^      ^                     |        |
              +------------------+        |      +---------------------+        | the leader's
            no member is left             |       join, leave, expiry           | assignment
                                          |                                     v
                                          +---------------------------------- STABLE
            DEAD <- any: deleted, expired or unloaded      join, leave, expiry

A transaction marker is written in every state, even if the group does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class State(Enum):
    """The state of a group; the value is its name in responses, events and metrics."""

    EMPTY = "Empty"
    """The group has no members. It may have offsets, and member ids with which no client has joined
    yet.

    *Action*:

    - JoinGroup of a new member is accepted. Any other member id gets UNKNOWN_MEMBER_ID, also
      in SyncGroup, Heartbeat and LeaveGroup.
    - OffsetCommit and TxnOffsetCommit are accepted without a generation, from a simple
      consumer. With a generation they get UNKNOWN_MEMBER_ID.
    - OffsetFetch, DescribeGroups and ListGroups return the group's data.
    - DeleteGroups and OffsetDelete delete offsets, including pending offsets of transactions.

    *Transition*: PREPARING_REBALANCE with the first member, for at least the initial delay. DEAD
    after DeleteGroups, or when retention has removed the last offset.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are rejoining. Their JoinGroups are parked, and a deadline is always armed.

    *Action*:

    - JoinGroup is parked. SyncGroup gets REBALANCE_IN_PROGRESS.
    - Heartbeat gets REBALANCE_IN_PROGRESS and extends the session. LeaveGroup removes the
      member.
    - OffsetCommit of the last generation is accepted, so that consumers can commit their work
      before they rejoin. TxnOffsetCommit of the last generation, or without a member, is
      accepted too.
    - OffsetFetch, DescribeGroups (without metadata) and ListGroups return the group's data.
    - DeleteGroups gets NON_EMPTY_GROUP. OffsetDelete gets GROUP_SUBSCRIBED_TO_TOPIC for
      topics in use.

    *Transition*:

    - AWAITING_SYNC when every member has joined and no member id is pending, or at the
      deadline. The generation rises. Dynamic members that have not joined are removed.
    - EMPTY when no member is left. The generation rises too.

    The initial delay ends only when its time has passed. If no member has joined by the deadline
    and static members remain, the deadline is armed again.
    """

    AWAITING_SYNC = "CompletingRebalance"
    """The members have joined the new generation, and the group waits for the leader's assignment.
    A deadline is always armed.

    *Action*:

    - JoinGroup of a member whose protocols are unchanged gets the same response again.
    - SyncGroup is parked; the leader's SyncGroup contains the assignments.
    - Heartbeat succeeds and extends the session. LeaveGroup removes the member.
    - OffsetCommit gets REBALANCE_IN_PROGRESS. TxnOffsetCommit is accepted as in
      PREPARING_REBALANCE, because a transaction can't wait.
    - OffsetFetch, DescribeGroups (without metadata) and ListGroups return the group's data.
    - DeleteGroups gets NON_EMPTY_GROUP. OffsetDelete gets GROUP_SUBSCRIBED_TO_TOPIC for
      topics in use.

    *Transition*:

    - STABLE after the leader's SyncGroup.
    - PREPARING_REBALANCE when a member is added, changed or removed, when a static member
      rejoins, or at the deadline, which removes members that have not synced. Parked
      SyncGroups get REBALANCE_IN_PROGRESS.
    - PREPARING_REBALANCE if the assignment is too large to store. Parked SyncGroups get
      UNKNOWN_SERVER_ERROR.
    """

    STABLE = "Stable"
    """Every member has an assignment. A deadline is armed while a member has not fetched its
    assignment.

    *Action*:

    - JoinGroup of a follower whose protocols are unchanged gets the same response again.
    - SyncGroup returns the assignment. SyncGroup, Heartbeat and OffsetCommit are accepted and
      extend the session. TxnOffsetCommit is accepted and does not extend the session.
    - LeaveGroup removes the member.
    - OffsetFetch, DescribeGroups (with metadata) and ListGroups return the group's data.
    - DeleteGroups gets NON_EMPTY_GROUP. OffsetDelete gets GROUP_SUBSCRIBED_TO_TOPIC for
      topics in use.

    *Transition*: PREPARING_REBALANCE when the leader rejoins, a follower rejoins with other
    protocols, a member is added or lost, the sync deadline passes, or a static member returns with
    another subscription. A static member that returns unchanged changes only its member id.
    """

    DEAD = "Dead"
    """The group was deleted or has expired, or its shard was unloaded. The object exists only until
    it is removed.

    *Action*: OffsetFetch returns no offsets, DescribeGroups returns the state Dead, and ListGroups
    omits the group. DeleteGroups and OffsetDelete get GROUP_ID_NOT_FOUND. Every other request gets
    COORDINATOR_NOT_AVAILABLE.

    *Transition*: none.
    """


LEGAL_PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.AWAITING_SYNC}),
    State.AWAITING_SYNC: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.AWAITING_SYNC}),
    State.DEAD: frozenset(State) - {State.DEAD},
}
"""For each state, the states from which a group may enter it."""

_BY_FILTER_NAME = {state.value.lower(): state for state in State} | {
    "awaitingsync": State.AWAITING_SYNC  # the name of CompletingRebalance before Kafka 1.1
}


def state_filter(names: Iterable[str]) -> frozenset[State]:
    """Returns the states that a ListGroups filter names. The case of the names is ignored, and so
    are unknown names."""
    return frozenset(
        _BY_FILTER_NAME[name.lower()] for name in names if name.lower() in _BY_FILTER_NAME
    )
