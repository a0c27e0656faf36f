"""The state machines of partitions and replicas on one page.

The state of a partition changes only in ``Partition.transition_to``, and the state of a replica
only in ``Partition.move_replica``. These functions check the tables below.

                        state node written             leader lost, no replica may lead
    NON_EXISTENT -> NEW -------------------> ONLINE <------------------------------> OFFLINE
         ^                                                  elected                     |
         +------------------------- its topic is being deleted -------------------------+

                                                          broker or disk has failed
    NON_EXISTENT -> NEW -> ONLINE <-----------------------------> OFFLINE <----+
         ^                                                           |         |
         |                                   StopReplica with delete |         | refused, or lost
         |                                                           v         |
         +-- SUCCESSFUL <- answered 0 --------------- DELETION_STARTED -> DELETION_INELIGIBLE
"""

from __future__ import annotations

from enum import Enum


class PartitionState(Enum):
    """The state of a partition: whether it has a state node, and a leader."""

    __hash__ = object.__hash__  # the tables below are read for many thousand partitions

    NON_EXISTENT = "NonExistentPartition"
    """The partition was never created, or is deleted. Requests do not contain it."""

    NEW = "NewPartition"
    """The partition has replicas but no state node: no replica was live when the partition was
    created, or the write is in flight. *Transition*: a replica is live -> the node is created, with
    the first live replica as leader and all live replicas in the ISR -> ONLINE. The node already
    exists -> the node is read -> ONLINE or OFFLINE."""

    ONLINE = "OnlinePartition"
    """The partition has a live leader. *Transition*: the leader is lost and no replica may lead ->
    leader -1 is written -> OFFLINE. A new leader, or a new ISR -> ONLINE again."""

    OFFLINE = "OfflinePartition"
    """The partition has no leader. *Transition*: a member of the ISR returns, or an unclean
    election is allowed -> ONLINE. The topic is deleted -> NON_EXISTENT."""


class ReplicaState(Enum):
    """The state of a replica in the controller."""

    __hash__ = object.__hash__

    NON_EXISTENT = "NonExistentReplica"
    """The broker has no replica, or the replica is deleted."""

    NEW = "NewReplica"
    """The replica was just created or added by a reassignment: its LeaderAndIsr has is_new."""

    ONLINE = "OnlineReplica"
    """The broker is live and has received a LeaderAndIsr for the replica."""

    OFFLINE = "OfflineReplica"
    """The broker is down or shutting down, its disk failed, or it received StopReplica. The replica
    is removed from the ISR, unless it is the last member."""

    DELETION_STARTED = "ReplicaDeletionStarted"
    """The broker has not responded to StopReplica with delete yet."""

    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """The broker has responded that the replica is deleted. When all replicas of a topic are in
    this state, the topic's znodes are deleted."""

    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The replica can't be deleted now, because its broker is down or rejected the deletion. The
    topic's deletion waits for the broker."""


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
