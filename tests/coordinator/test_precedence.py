"""Each handler checks a request in a fixed order and returns the error of the first check that
fails.

The rows of each table are in the order of the checks. The call of a row fails the check of this row
and all checks of the rows below it. It must return the error of its own row. The call of the last
row has no error.
"""

from __future__ import annotations

import pytest

from coordinator.calls import (
    DeleteGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    OffsetCommit,
    OffsetDelete,
    SyncGroup,
    TopicOffsets,
)
from protocol.errors import NAMES
from tests.aligned import rows
from tests.coordinator.calls_for_tests import SUBSCRIPTION, Driver, join, sync

# "g" is a full group (group.max.size is 2): static member i1 leads, static member i2 follows.
# "none" is an unknown group. A call of "full" joins a third member into g.
LEADER = "i1-1"
FOLLOWER = "i2-2"


@pytest.fixture
def full() -> Driver:
    driver = Driver(max_size=2, offset_metadata_max_bytes=4, max_record_bytes=700)
    driver.handle(join(1, group_instance_id="i1"))
    driver.handle(sync(2, LEADER, 1, group_instance_id="i1", assignments=[(LEADER, b"1")]))
    driver.handle(join(3, group_instance_id="i2", fresh_id="2"))
    driver.handle(join(4, LEADER, group_instance_id="i1"))
    driver.handle(sync(5, LEADER, 2, group_instance_id="i1", assignments=[(LEADER, b"1")]))
    driver.handle(sync(6, FOLLOWER, 2, group_instance_id="i2"))
    return driver


JOIN = """
group | session | member  | instance | protocol | error
-     | 5999    | x-9     | i9       | lottery  | INVALID_GROUP_ID
g     | 5999    | x-9     | i9       | lottery  | INVALID_SESSION_TIMEOUT
g     | 1800001 | x-9     | i9       | lottery  | INVALID_SESSION_TIMEOUT
none  | 6000    | x-9     | i9       | lottery  | UNKNOWN_MEMBER_ID
g     | 6000    | x-9     | i9       | lottery  | GROUP_MAX_SIZE_REACHED
g     | 6000    | i2-2    | i9       | lottery  | INCONSISTENT_GROUP_PROTOCOL
g     | 6000    | i2-2    | i9       | range    | UNKNOWN_MEMBER_ID
g     | 6000    | i2-2    | i1       | range    | FENCED_INSTANCE_ID
g     | 1800000 | i2-2    | i2       | range    | NONE
"""


@pytest.mark.parametrize(
    ("group", "session", "member", "instance", "protocol", "error"), rows(JOIN)
)
def test_join_group_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, session: str, member: str, instance: str, protocol: str, error: str
) -> None:
    call: JoinGroup = join(
        "t",
        member,
        group_id=group,
        session_timeout_ms=int(session),
        group_instance_id=instance or None,
        protocols=[(protocol, SUBSCRIPTION)],
    )
    assert NAMES[full.error(call)] == error


SYNC = """
group | member  | instance | generation | type    | name   | error
-     | x-9     | i9       | 7          | connect | sticky | INVALID_GROUP_ID
none  | x-9     | i9       | 7          | connect | sticky | UNKNOWN_MEMBER_ID
g     | x-9     | i9       | 7          | connect | sticky | UNKNOWN_MEMBER_ID
g     | x-9     | i2       | 7          | connect | sticky | FENCED_INSTANCE_ID
g     | x-9     | -        | 7          | connect | sticky | UNKNOWN_MEMBER_ID
g     | i2-2    | i2       | 7          | connect | sticky | ILLEGAL_GENERATION
g     | i2-2    | i2       | 2          | connect | sticky | INCONSISTENT_GROUP_PROTOCOL
g     | i2-2    | i2       | 2          | -       | sticky | INCONSISTENT_GROUP_PROTOCOL
g     | i2-2    | i2       | 2          | -       | -      | NONE
"""


@pytest.mark.parametrize(
    ("group", "member", "instance", "generation", "type_", "name", "error"), rows(SYNC)
)
def test_sync_group_returns_the_error_of_its_first_failing_check(
    full: Driver,
    group: str,
    member: str,
    instance: str,
    generation: str,
    type_: str,
    name: str,
    error: str,
) -> None:
    call = SyncGroup(
        "t", group, int(generation), member, instance or None, type_ or None, name or None, []
    )
    assert NAMES[full.error(call)] == error


HEARTBEAT = """
group | member  | instance | generation | error
-     | x-9     | i9       | 7          | INVALID_GROUP_ID
none  | x-9     | i9       | 7          | UNKNOWN_MEMBER_ID
g     | x-9     | i9       | 7          | UNKNOWN_MEMBER_ID
g     | x-9     | i2       | 7          | FENCED_INSTANCE_ID
g     | x-9     | -        | 7          | UNKNOWN_MEMBER_ID
g     | i2-2    | i2       | 7          | ILLEGAL_GENERATION
g     | i2-2    | i2       | 2          | NONE
g     | i2-2    | -        | 2          | NONE
"""


@pytest.mark.parametrize(("group", "member", "instance", "generation", "error"), rows(HEARTBEAT))
def test_heartbeat_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, member: str, instance: str, generation: str, error: str
) -> None:
    call = Heartbeat("t", group, int(generation), member, instance or None)
    assert NAMES[full.error(call)] == error


LEAVE = """
group | member  | instance | error
-     | x-9     | i9       | INVALID_GROUP_ID
none  | x-9     | i9       | UNKNOWN_MEMBER_ID
g     | x-9     | i9       | UNKNOWN_MEMBER_ID
g     | x-9     | i2       | FENCED_INSTANCE_ID
g     | x-9     | -        | UNKNOWN_MEMBER_ID
g     | -       | -        | UNKNOWN_MEMBER_ID
g     | i2-2    | -        | NONE
g     | -       | i2       | NONE
"""


@pytest.mark.parametrize(("group", "member", "instance", "error"), rows(LEAVE))
def test_leave_group_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, member: str, instance: str, error: str
) -> None:
    reply = full.answer(LeaveGroup("t", group, [Leaver(member, instance or None, None)]))
    first = reply.members[0][2] if reply.members else reply.error_code
    assert NAMES[first] == error


COMMIT = """
group | member  | instance | generation | partitions | metadata | error
none  | x-9     | i9       | 7          | 99         | fives    | ILLEGAL_GENERATION
g     | x-9     | i9       | 7          | 99         | fives    | UNKNOWN_MEMBER_ID
g     | x-9     | i2       | 7          | 99         | fives    | FENCED_INSTANCE_ID
g     | x-9     | -        | 7          | 99         | fives    | UNKNOWN_MEMBER_ID
g     | -       | -        | -1         | 99         | fives    | UNKNOWN_MEMBER_ID
g     | i2-2    | i2       | -1         | 99         | fives    | ILLEGAL_GENERATION
g     | i2-2    | i2       | 7          | 99         | fives    | ILLEGAL_GENERATION
g     | i2-2    | i2       | 2          | 99         | fives    | INVALID_COMMIT_OFFSET_SIZE
g     | i2-2    | i2       | 2          | 2          | fives    | OFFSET_METADATA_TOO_LARGE
g     | i2-2    | i2       | 2          | 2          | four     | NONE
none  | x-9     | i9       | -1         | 2          | four     | NONE
"""


@pytest.mark.parametrize(
    ("group", "member", "instance", "generation", "partitions", "metadata", "error"), rows(COMMIT)
)
def test_offset_commit_returns_the_error_of_its_first_failing_check(
    full: Driver,
    group: str,
    member: str,
    instance: str,
    generation: str,
    partitions: str,
    metadata: str,
    error: str,
) -> None:
    size = int(partitions)
    # Only the first partition has the metadata.
    columns = (range(size), [5] * size, [-1] * size, [metadata] + [None] * (size - 1))
    topic = TopicOffsets("t", *columns, None)
    call = OffsetCommit("t", group, int(generation), member, instance or None, -1, [topic])
    errors = full.answer(call).errors
    first = errors if isinstance(errors, int) else errors[0][0]
    assert NAMES[first] == error
    if not isinstance(errors, int):
        assert set(errors[0][1:]) == {0}, "the other partitions are committed"


DELETE = """
group | error
-     | GROUP_ID_NOT_FOUND
none  | GROUP_ID_NOT_FOUND
g     | NON_EMPTY_GROUP
"""


@pytest.mark.parametrize(("group", "error"), rows(DELETE))
def test_delete_group_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, error: str
) -> None:
    assert NAMES[full.error(DeleteGroup("t", group))] == error


OFFSET_DELETE = """
group | type     | topic | error
-     | consumer | t     | INVALID_GROUP_ID
none  | consumer | t     | GROUP_ID_NOT_FOUND
k     | connect  | t     | NON_EMPTY_GROUP
g     | consumer | t     | GROUP_SUBSCRIBED_TO_TOPIC
g     | consumer | u     | NONE
"""


@pytest.mark.parametrize(("group", "type_", "topic", "error"), rows(OFFSET_DELETE))
def test_offset_delete_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, type_: str, topic: str, error: str
) -> None:
    full.handle(join(70, group_id="k", protocol_type="connect"))
    assert full.shard.view.groups["g"].protocol_type == "consumer"
    assert type_ == (
        full.shard.view.groups[group].protocol_type if group in "gk" and group else type_
    )
    reply = full.answer(OffsetDelete("t", group, [(topic, [0])]))
    first = reply.error_code or reply.topics[0][1][0][1]
    assert NAMES[first] == error
