"""The states of a member and of a streams group, on one page.

A *member* has an epoch, *assigned* tasks and *revoking* tasks in each of the three roles. The
revoking tasks are those that the member must give up and has not confirmed to have given up.
Records store a member's state.

    STABLE       at the target's epoch it has its whole target
    UNREVOKED    it owns tasks that it must give up; its epoch is unchanged until it confirms
    UNRELEASED   it is at the target's epoch and waits for tasks: an active task that any process
                 has as an active task, or a task that its own process has in another role
    UNKNOWN      a later version wrote the state; the member must confirm that it owns no task

    STABLE     -> UNREVOKED    its target lost tasks that it owns
    STABLE     -> UNRELEASED   its target has tasks for which it must wait
    UNREVOKED  -> STABLE | UNRELEASED   a heartbeat no longer lists the revoking tasks
    UNREVOKED  -> UNREVOKED    a heartbeat no longer lists the revoking tasks, but the target has
                               lost further tasks since; the epoch rises by 1
    UNRELEASED -> STABLE       the last task for which it waited was released
    any state  -> removed      it leaves; its session expires; it is UNREVOKED for longer than its
                               rebalance timeout

A *group* has an epoch, which each change of members, topology, topics or settings of the assignor
raises. Its target assignment has the epoch at which it was computed. The state of a group is
derived, not stored.

    EMPTY        it has no members
    NOT_READY    the topics that its topology needs do not all exist with the right partitions
    ASSIGNING    the group's epoch is above the target's: the next heartbeat, or the end of the
                 initial rebalance delay, computes a target; in a large group it begins a sweep
                 that computes the target
    RECONCILING  a member is not STABLE at the target's epoch
    STABLE       every member has its target

Source: KIP-1071; Kafka 4.3.1 ``MemberState``, ``StreamsGroup.maybeUpdateGroupState``.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """The state of a member. The values are those of the record
    StreamsGroupCurrentMemberAssignmentValue."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3
    UNKNOWN = 127


STABLE = MemberState.STABLE.value


class StreamsGroupState(Enum):
    """The state of a streams group. The values are the names in responses."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


Task = tuple[str, int]
"""A subtopology id and a partition."""


class Role(Enum):
    """The role in which a member has a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class StatusCode(IntEnum):
    """The status codes in a response to StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
