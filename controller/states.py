"""The state machines of partitions and replicas on one page.

The state of a partition changes only in ``Partition.transition_to``, that of a replica only in
``Partition.move_replica``; both check the tables below.

                        state node written             leader lost, none can follow
    NON_EXISTENT -> NEW -------------------> ONLINE <------------------------------> OFFLINE
         ^                                                  elected                     |
         +------------------------- its topic is being deleted -------------------------+

                                                          broker, disk or ISR is lost
    NON_EXISTENT -> NEW -> ONLINE <-----------------------------> OFFLINE <----+
         ^                                                           |         |
         |                                   StopReplica with delete |         | refused, or lost
         |                                                           v         |
         +-- SUCCESSFUL <- answered 0 --------------- DELETION_STARTED -> DELETION_INELIGIBLE
"""

from __future__ import annotations

from enum import Enum


class PartitionState(Enum):
    """Whether a partition has a state node, and a leader."""

    __hash__ = object.__hash__  # the tables below are read for many thousand partitions

    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted. No request contains it."""

    NEW = "NewPartition"
    """It has replicas and no state node: no replica was live when it was created, or the write is
    in flight. *Leaves*: a replica is live -> the node is created, with the first live replica as
    leader and all live ones in the ISR -> ONLINE. The node exists already -> it is read -> ONLINE
    or OFFLINE."""

    ONLINE = "OnlinePartition"
    """It has a live leader. *Leaves*: the leader is lost and no replica may lead -> leader -1 is
    written -> OFFLINE. A new leader, or a new ISR -> ONLINE again."""

    OFFLINE = "OfflinePartition"
    """It has no leader. *Leaves*: a member of the ISR returns, or an unclean election is allowed
    -> ONLINE. Its topic is deleted -> NON_EXISTENT."""


class ReplicaState(Enum):
    """The state of a replica, as the controller knows it."""

    __hash__ = object.__hash__

    NON_EXISTENT = "NonExistentReplica"
    """Not a replica, or deleted."""

    NEW = "NewReplica"
    """Just created or added by a reassignment: its LeaderAndIsr has is_new."""

    ONLINE = "OnlineReplica"
    """Its broker is live and got LeaderAndIsr."""

    OFFLINE = "OfflineReplica"
    """Its broker is down or shutting down, its disk failed, or it got StopReplica. It is removed
    from the ISR, unless it is the last member."""

    DELETION_STARTED = "ReplicaDeletionStarted"
    """StopReplica with delete is not answered yet."""

    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """The broker answered that the replica is deleted. When all replicas of a topic are in this
    state, its znodes are deleted."""

    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It can't be deleted now: its broker is down, or refused. The topic waits for the broker."""


LEGAL_PREVIOUS: dict[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
}
"""The states from which each state of a partition may be entered."""

LEGAL_PREVIOUS_REPLICA: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: frozenset(
        {
            ReplicaState.NEW,
            ReplicaState.ONLINE,
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_INELIGIBLE,
        }
    ),
    ReplicaState.OFFLINE: frozenset(
        {
            ReplicaState.NEW,
            ReplicaState.ONLINE,
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_INELIGIBLE,
        }
    ),
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
}
"""The states from which each state of a replica may be entered."""
