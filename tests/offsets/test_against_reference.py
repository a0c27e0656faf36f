"""Tests that offset values and group values have the same bytes as in the reference codec, which
interprets Kafka's message schemas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsets.record_values import group_value, offset_value, read_group_value, read_offset_value
from offsets.runs import GroupMember, GroupValue
from protocol import log_records
from tests.offsets.strategies import group_values, int32, int64, names

versions = st.integers(0, 4)


@given(versions, int64, int32, names, int64, int64)
def test_offset_value_is_decoded_as_by_the_reference_codec(
    version, offset, leader_epoch, metadata, committed, expires
) -> None:
    value = {
        "offset": offset,
        "leader_epoch": leader_epoch,
        "metadata": metadata,
        "commit_timestamp": committed,
        "expire_timestamp": expires,
    }
    data = version.to_bytes(2, "big") + log_records.encode("OffsetCommitValue", version, value)
    stored = read_offset_value(data)
    assert stored == (
        offset,
        leader_epoch if version >= 3 else -1,
        metadata,
        committed,
        expires if version == 1 else -1,
    )
    if version == 3 or (version == 1 and expires != -1):
        assert offset_value(*stored) == data


@given(versions, group_values)
def test_value_of_a_group_record_equals_that_of_the_reference_codec(
    version: int, group: GroupValue
) -> None:
    value = {
        "protocol_type": group.protocol_type,
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "current_state_timestamp": group.state_timestamp_ms,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout": member.rebalance_timeout_ms,
                "session_timeout": member.session_timeout_ms,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in group.members
        ],
    }
    data = version.to_bytes(2, "big") + log_records.encode("GroupMetadataValue", version, value)
    stored = read_group_value(data)
    assert stored == as_version_has_it(group, version)
    if version == 3:
        assert group_value(group) == data


def as_version_has_it(group: GroupValue, version: int) -> GroupValue:
    """Returns the group without the fields that do not exist in value version ``version``."""
    return GroupValue(
        group.protocol_type,
        group.generation_id,
        group.protocol_name,
        group.leader,
        group.state_timestamp_ms if version >= 2 else -1,
        [
            GroupMember(
                member.member_id,
                member.group_instance_id if version >= 3 else None,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms if version >= 1 else member.session_timeout_ms,
                member.session_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in group.members
        ],
    )
