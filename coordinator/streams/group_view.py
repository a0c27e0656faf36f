"""Implements `GroupView` for streams groups. Metrics, verdicts and web pages read all groups
through this interface.

The generation is the group's epoch. The partitions of a member are those that its active tasks
read, encoded as in the classic consumer protocol.
"""

from __future__ import annotations

from coordinator.classic.group import Awaited
from coordinator.consumer.group_view import REVOKE
from coordinator.modern_group_view import ModernGroupView, ModernMemberView
from coordinator.read_only import MemberView, Reconciliation
from coordinator.streams.explained import (
    MemberTasks,
    StreamsLook,
    WaitingTask,
    awaited_tasks,
    look,
    member_tasks,
)
from coordinator.streams.group import STREAMS, StreamsGroup, StreamsMember, session_timeout_ms
from coordinator.streams.inputs import inputs
from coordinator.streams.reporting import encoded
from coordinator.streams.states import MemberState, Role, StreamsGroupState
from protocol.deadlines import NEVER
from protocol.now import Now


class StreamsMemberView(ModernMemberView[StreamsGroup, StreamsMember]):
    """Implements `MemberView` for members of streams groups."""

    __slots__ = ()

    group_instance_id: str | None = None

    @property
    def session_timeout_ms(self) -> int:
        return session_timeout_ms(self._state.config, self._member)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Returns the time in ms within which the member must give up tasks that are not in its
        target."""
        return self._member.metadata.rebalance_timeout_ms

    @property
    def subscription(self) -> list[str]:
        """Returns the topics that the group reads."""
        return sorted(self._group.subscribed_names())

    @property
    def assignment(self) -> bytes:
        """Returns the partitions that the member's active tasks read, encoded as in the classic
        consumer protocol."""
        return encoded(self._group, self._member.current.active, self._state.topics)

    @property
    def reconciliation(self) -> Reconciliation:
        """Returns the member's progress towards its target, in terms of the partitions that active
        tasks read."""
        group, member, image = self._group, self._member, self._state.topics
        current, until_ms = member.current, member.rebalance.due_ms
        target = group.target_of(member.member_id).active
        revoking = inputs(group, current.revoking_active, image)
        must_revoke = current.state == MemberState.UNREVOKED and until_ms != NEVER
        timeout_ms = member.metadata.rebalance_timeout_ms
        return Reconciliation(
            current.epoch,
            MemberState(current.state).name,
            inputs(group, target, image),
            revoking,
            until_ms - timeout_ms if must_revoke else None,
            until_ms if must_revoke else None,
            self._waits_for(),
        )

    def tasks(self) -> MemberTasks:
        return member_tasks(self._group, self._member)

    def awaited_tasks(self) -> tuple[WaitingTask, ...]:
        """Returns the tasks in the target that other members must give up before this member can
        get them."""
        return awaited_tasks(self._group, self._member)

    def _waits_for(self) -> list[tuple[str, int, str]]:
        """Returns the partitions for which the member waits, because another member still has the
        active task that reads them. Each result has the topic, the partition and the id of the
        other member."""
        group, member, image = self._group, self._member, self._state.topics
        found = []
        for name, partitions in group.target_of(member.member_id).active.items():
            for partition in partitions:
                holders = group.holders(Role.ACTIVE, (name, partition)) - {member.member_id}
                for topic in inputs(group, {name: (partition,)}, image) if holders else ():
                    found.append((topic, partition, min(holders)))
        return found


class StreamsGroupView(ModernGroupView[StreamsGroup]):
    """Implements `GroupView` for streams groups."""

    __slots__ = ()

    type = STREAMS
    protocol_type: str | None = STREAMS
    protocol_name: str | None = "sticky"

    def _member_view(self, member_id: str) -> MemberView:
        return StreamsMemberView(self._state, self._group, self._group.members[member_id])

    @property
    def state(self) -> StreamsGroupState:
        return self._group.state()

    @property
    def state_since_ms(self) -> int:
        """Returns the monotonic time in ms of the last change of members, target or assignments.
        Without a change since the load, returns the time of the load.

        In the state NOT_READY, returns the start of the problem with the topics instead. A change
        of the members does not end this problem.
        """
        problem = self._problem_since
        return self._group.changed_ms if problem is None else problem.mono_ms

    @property
    def state_timestamp_ms(self) -> int:
        """Returns the wall time in ms of the last change of the group's epoch; -1 if unknown. In
        the state NOT_READY, returns the start of the problem with the topics."""
        problem = self._problem_since
        return self._group.epoch_ms if problem is None else problem.wall_ms

    @property
    def not_ready_since(self) -> Now | None:
        """Returns the time since which the topics of the topology have had a problem; None if they
        have no problem. This time is kept when all members have left the group."""
        return self._group.not_ready_since

    @property
    def _problem_since(self) -> Now | None:
        since = self._group.not_ready_since
        if since is None or self._group.state() is not StreamsGroupState.NOT_READY:
            return None
        return since

    def look(self) -> StreamsLook:
        """Returns the group's topology, and the reason why the group assigns no tasks."""
        return look(self._group, self._state.topics)

    def awaited(self) -> Awaited:
        """Returns the members that must give up tasks, and the earliest time at which one of them
        is removed."""
        members = self._group.members.values()
        late = [each for each in members if each.current.state == MemberState.UNREVOKED]
        due_ms = min((each.rebalance.due_ms for each in late), default=NEVER)
        if due_ms == NEVER:
            return Awaited("", None, ())
        return Awaited(REVOKE, due_ms, tuple(each.member_id for each in late))
