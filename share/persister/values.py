"""The records of ``__share_group_state``: their values, and the run that contains one record."""

from __future__ import annotations

import base64
from typing import NamedTuple

from protocol.slotted import slotted
from share.values import SharePartitionKey, StateBatch

UNKNOWN_COUNT = -1
"""The `delivery_complete_count` of a state whose start offset has not been chosen by a first fetch
yet."""


class SnapshotValue(NamedTuple):
    """A ShareSnapshotValue of version 0: the whole state of a share partition."""

    snapshot_epoch: int
    """The number of the snapshot record. The update records after this snapshot have the same
    number."""
    state_epoch: int
    leader_epoch: int
    start_offset: int
    create_ms: int
    """The wall time in ms at which the state was initialized, or at which a write last replaced the
    state by a snapshot."""
    write_ms: int
    """The wall time of the snapshot in ms. It is later than ``create_ms`` if
    `ShareStateShard.expire` has written the unchanged state again as a new snapshot."""
    batches: tuple[StateBatch, ...] = ()
    delivery_complete_count: int = UNKNOWN_COUNT


class UpdateValue(NamedTuple):
    """A ShareUpdateValue of version 0: a change of the state since the snapshot."""

    snapshot_epoch: int
    leader_epoch: int
    """The new leader epoch; -1 means unchanged."""
    start_offset: int
    """The new start offset; -1 means unchanged."""
    batches: tuple[StateBatch, ...] = ()
    delivery_complete_count: int = UNKNOWN_COUNT


@slotted
class ShareStateRun:
    """One record of ``__share_group_state``. It is a tombstone if ``value`` is None."""

    key: SharePartitionKey
    value: SnapshotValue | UpdateValue | None

    def __len__(self) -> int:
        return 1


def coordinator_key(key: SharePartitionKey) -> str:
    """Returns the text whose hash determines the partition of a key: ``group:topicId:partition``,
    with the topic id in Kafka's base64. Source: Kafka 4.3.1 ``SharePartitionKey.asCoordinatorKey``.
    """
    topic_id = base64.urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return f"{key.group_id}:{topic_id}:{key.partition}"
