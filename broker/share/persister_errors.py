"""The errors of the share coordinator, and the corresponding errors for clients. Source: Kafka
4.3.1 ``SharePartition.fetchPersisterError``."""

from __future__ import annotations

from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)

TEMPORARY = frozenset({NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS})
"""Errors after which the same call may succeed later."""
FENCED = frozenset({FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST, GROUP_ID_NOT_FOUND})
"""Error codes of a write to the share coordinator that show that the state in memory differs from
the stored state."""
_SHOWN = {
    NOT_COORDINATOR: COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS: COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH: NOT_LEADER_OR_FOLLOWER,
}
_UNCHANGED = frozenset(
    {
        NONE,
        COORDINATOR_NOT_AVAILABLE,
        GROUP_ID_NOT_FOUND,
        UNKNOWN_TOPIC_OR_PARTITION,
        FENCED_STATE_EPOCH,
    }
)


def shown(error_code: int) -> int:
    """Returns the error code for clients that corresponds to an error code of the share
    coordinator."""
    if error_code in _UNCHANGED:
        return error_code
    return _SHOWN.get(error_code, UNKNOWN_SERVER_ERROR)
