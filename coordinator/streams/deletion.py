"""The tombstones of a streams group.

Source: Kafka 4.3.1 ``StreamsGroup.createGroupTombstoneRecords``.
"""

from __future__ import annotations

from coordinator.streams.group import StreamsGroup
from offsets.streams_records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupRun,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
)


def tombstones(group: StreamsGroup) -> StreamsGroupRun:
    """Returns the tombstones of a group in the order that Kafka's loader requires: members first.
    As in Kafka, there is a tombstone of record type 20 even if the log does not have such a record.
    """
    members = sorted(group.members)
    records: list[StreamsRecord] = [StreamsCurrentRecord(member_id, None) for member_id in members]
    records += [StreamsTargetRecord(member_id, None) for member_id in members]
    records.append(StreamsTargetEpochRecord(None))
    records += [StreamsMemberRecord(member_id, None) for member_id in members]
    records += (StreamsEpochRecord(None), StreamsTopologyRecord(None))
    return StreamsGroupRun(group.group_id, records)
