"""Fencing by leader epoch (KIP-320): errors for clients with older or newer metadata."""

from __future__ import annotations

from broker.topics.partition import Partition
from protocol.errors import FENCED_LEADER_EPOCH, NONE, UNKNOWN_LEADER_EPOCH


def epoch_error(partition: Partition, current_leader_epoch: int) -> int:
    """The error for a client that believes in ``current_leader_epoch``; -1: in none."""
    ours = partition.leader_epoch
    if current_leader_epoch in (-1, ours):
        return NONE
    return FENCED_LEADER_EPOCH if current_leader_epoch < ours else UNKNOWN_LEADER_EPOCH
