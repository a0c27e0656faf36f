"""The states of a member and of a consumer group, on one page.

A *member* has an epoch, *assigned* partitions and *revoking* partitions. The revoking partitions
are those that the member must give up and has not confirmed to have given up. Records store a
member's state.

    STABLE       it owns its assigned partitions; at the target's epoch it has its whole target
    UNREVOKED    it owns partitions that it must give up; its epoch is unchanged until it confirms
    UNRELEASED   it is at the target's epoch and waits for partitions that other members hold
    UNKNOWN      a later version wrote the state; the member must confirm that it owns no partition

    STABLE     -> UNREVOKED    its target lost partitions that it owns
    STABLE     -> UNRELEASED   its target has partitions that other members hold
    UNREVOKED  -> STABLE | UNRELEASED   a heartbeat no longer lists the revoking partitions
    UNRELEASED -> STABLE       the last partition for which it waited was released
    any state  -> removed      it leaves; its session expires; it is UNREVOKED for longer than its
                               rebalance timeout

A *group* has an epoch, which each change of members, subscriptions or topics raises. Its target
assignment has the epoch at which it was computed. The state of a group is derived, not stored.

    EMPTY        it has no members
    ASSIGNING    the group's epoch is above the target's: the next heartbeat computes a target
    RECONCILING  a member is not STABLE at the target's epoch
    STABLE       every member has its target

Source: KIP-848; Kafka 4.3.1 ``MemberState``, ``ConsumerGroup.maybeUpdateGroupState``.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """The state of a member. The values are those of the record
    ConsumerGroupCurrentMemberAssignmentValue."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127


STABLE = MemberState.STABLE.value


class ConsumerGroupState(Enum):
    """The state of a consumer group. The values are the names in responses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
