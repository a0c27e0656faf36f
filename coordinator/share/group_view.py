"""Implements `GroupView` for share groups; metrics, verdicts and pages read all groups through this
interface."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.classic.group import Awaited
from coordinator.modern_group_view import ModernGroupView, ModernMemberView, encoded
from coordinator.read_only import MemberView, Reconciliation
from coordinator.share.group import (
    ASSIGNOR,
    SHARE,
    ShareGroup,
    ShareGroupState,
    ShareMember,
    session_timeout_ms,
)


class ShareMemberView(ModernMemberView[ShareGroup, ShareMember]):
    """Implements `MemberView`."""

    __slots__ = ()

    group_instance_id: str | None = None
    rebalance_timeout_ms = 0

    @property
    def session_timeout_ms(self) -> int:
        """Returns the session timeout in ms."""
        return session_timeout_ms(self._state.config, self._member)

    @property
    def subscription(self) -> list[str]:
        """Returns the topics to which the member subscribes."""
        return list(self._member.metadata.subscribed_topics)

    @property
    def assignment(self) -> bytes:
        """Returns the member's partitions in the classic consumer protocol, without deleted
        topics."""
        return encoded(self._member.current.assigned, self._state.topics.names)

    @property
    def reconciliation(self) -> Reconciliation:
        """Returns the member's epoch and target. The member never has to give up partitions before
        other members get them."""
        names = self._state.topics.names
        target = self._group.targets.get(self._member.member_id, {})
        named = {names[id_]: numbers for id_, numbers in target.items() if id_ in names}
        return Reconciliation(self._member.current.epoch, "STABLE", named, {}, None, None, ())


class ShareGroupView(ModernGroupView[ShareGroup]):
    """Implements `GroupView`."""

    __slots__ = ()

    type = SHARE
    protocol_type: str | None = SHARE
    protocol_name: str | None = ASSIGNOR

    def _member_view(self, member_id: str) -> MemberView:
        return ShareMemberView(self._state, self._group, self._group.members[member_id])

    @property
    def state(self) -> ShareGroupState:
        """Returns the state, which is derived from the members."""
        return self._group.state()

    @property
    def share_partitions(self) -> Mapping[bytes, Collection[int]]:
        """Returns the partitions whose delivery state is initialized, by topic id."""
        return self._group.assignable()

    def awaited(self) -> Awaited:
        """Returns no members, since a share group never waits for its members."""
        return Awaited("", None, ())
