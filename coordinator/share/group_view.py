"""Implements `GroupView` for share groups. Metrics, verdicts and web pages read all groups through
this interface."""

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
    """Implements `MemberView` for members of share groups."""

    __slots__ = ()

    group_instance_id: str | None = None
    rebalance_timeout_ms = 0

    @property
    def session_timeout_ms(self) -> int:
        return session_timeout_ms(self._state.config, self._member)

    @property
    def subscription(self) -> list[str]:
        return list(self._member.metadata.subscribed_topics)

    @property
    def assignment(self) -> bytes:
        """Returns the member's partitions without deleted topics, encoded as in the classic
        consumer protocol."""
        return encoded(self._member.current.assigned, self._state.topics.names)

    @property
    def reconciliation(self) -> Reconciliation:
        """Returns the member's epoch and target. A member of a share group gets its target at once,
        without a revocation."""
        names = self._state.topics.names
        target = self._group.targets.get(self._member.member_id, {})
        named = {names[id_]: numbers for id_, numbers in target.items() if id_ in names}
        return Reconciliation(self._member.current.epoch, "STABLE", named, {}, None, None, ())


class ShareGroupView(ModernGroupView[ShareGroup]):
    """Implements `GroupView` for share groups."""

    __slots__ = ()

    type = SHARE
    protocol_type: str | None = SHARE
    protocol_name: str | None = ASSIGNOR

    def _member_view(self, member_id: str) -> MemberView:
        return ShareMemberView(self._state, self._group, self._group.members[member_id])

    @property
    def state(self) -> ShareGroupState:
        return self._group.state()

    @property
    def share_partitions(self) -> Mapping[bytes, Collection[int]]:
        """Returns the partitions whose delivery state is initialized, by topic id."""
        return self._group.assignable()

    def awaited(self) -> Awaited:
        """Returns no members, because a share group never waits for its members."""
        return Awaited("", None, ())
