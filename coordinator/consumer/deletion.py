"""The tombstones of a consumer group.

Source: Kafka 4.3.1 ``ConsumerGroup.createGroupTombstoneRecords``.
"""

from __future__ import annotations

from coordinator.consumer.group import ConsumerGroup
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)


def tombstones(group: ConsumerGroup) -> ConsumerGroupRun:
    """Returns the tombstones of a group in the order that Kafka's loader requires: members first.
    As in Kafka, there are tombstones of record types 6 and 4 even if the log does not have such
    records."""
    members = sorted(group.members)
    records: list[ConsumerRecord] = [CurrentRecord(member_id, None) for member_id in members]
    records += [TargetRecord(member_id, None) for member_id in members]
    records.append(TargetEpochRecord(None))
    records += [MemberRecord(member_id, None) for member_id in members]
    records += [RegexRecord(regex, None) for regex in sorted(group.regexes)]
    records += (TopicsRecord(), EpochRecord(None))
    return ConsumerGroupRun(group.group_id, records)
