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
    """The state of a partition in the controller: whether the partition has a state znode, and a
    leader."""

    __hash__ = object.__hash__  # the tables below are read for many thousand partitions

    NON_EXISTENT = "NonExistentPartition"
    """The partition was never created, or is deleted. The controller's requests to brokers do not
    contain it."""

    NEW = "NewPartition"
    """The partition has replicas but no state znode: no replica was live when the partition was
    created, or the write is in flight. Next states:

    - A replica is live: the znode is created, with the first live replica as leader and all live
      replicas in the ISR. The state becomes ONLINE.
    - The znode already exists: the znode is read. The state becomes ONLINE or OFFLINE.
    """

    ONLINE = "OnlinePartition"
    """The partition has a leader. If the leader is lost and no replica may lead, leader -1 is
    written and the state becomes OFFLINE. The state stays ONLINE when a new leader or a new ISR is
    written."""

    OFFLINE = "OfflinePartition"
    """The partition has no leader. The state becomes ONLINE when an ISR member returns or an
    unclean election is allowed. The state becomes NON_EXISTENT when the topic is deleted."""


class ReplicaState(Enum):
    """The state of a replica in the controller."""

    __hash__ = object.__hash__

    NON_EXISTENT = "NonExistentReplica"
    """The broker has no replica, or the replica is deleted."""

    NEW = "NewReplica"
    """The replica was just created, or added by a reassignment. The field is_new of its
    LeaderAndIsr is true."""

    ONLINE = "OnlineReplica"
    """The broker is live, and the controller has sent it a LeaderAndIsr for the replica."""

    OFFLINE = "OfflineReplica"
    """The broker is down or shutting down, its disk failed, or the broker received StopReplica for
    the replica. The replica is removed from the ISR, unless it is the last ISR member."""

    DELETION_STARTED = "ReplicaDeletionStarted"
    """The controller waits for the broker's response to StopReplica with delete."""

    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """The broker has responded that the replica is deleted. The topic's znodes are deleted when all
    replicas of the topic are in this state."""

    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The replica can't be deleted now, because its broker is down or rejected the deletion. The
    deletion of the topic waits for the broker."""


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
"""For each state of a partition, the states from which a partition may enter it."""

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
"""For each state of a replica, the states from which a replica may enter it."""
