"""Implements `GroupView` for consumer groups. Metrics, verdicts and web pages read all groups
through this interface."""

from __future__ import annotations

from coordinator.classic.group import Awaited
from coordinator.consumer.group import ConsumerGroup, ConsumerMember, session_timeout_ms
from coordinator.consumer.states import ConsumerGroupState, MemberState
from coordinator.consumer.target import preferred_assignor
from coordinator.modern_group_view import ModernGroupView, ModernMemberView, encoded
from coordinator.read_only import MemberView, Reconciliation
from offsets.consumer_records import Assignment
from protocol.consumer_protocol import CONSUMER
from protocol.deadlines import NEVER

_KNOWN_STATES = frozenset(MemberState)
REVOKE = "revoke"
"""The phase in `Awaited` while the group waits for members to give up partitions."""


class ConsumerMemberView(ModernMemberView[ConsumerGroup, ConsumerMember]):
    """Implements `MemberView` for members of consumer groups."""

    __slots__ = ()

    @property
    def group_instance_id(self) -> str | None:
        return self._member.metadata.instance_id

    @property
    def session_timeout_ms(self) -> int:
        return session_timeout_ms(self._state.config, self._member)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Returns the time in ms within which the member must give up partitions. Clients use
        max.poll.interval.ms."""
        return self._member.metadata.rebalance_timeout_ms

    @property
    def subscription(self) -> list[str]:
        """Returns the topics to which the member subscribes, by name or by resolved regex."""
        metadata = self._member.metadata
        resolved = self._group.regexes.get(metadata.subscribed_regex or "")
        return sorted({*metadata.subscribed_topics, *(resolved.topics if resolved else ())})

    @property
    def assignment(self) -> bytes:
        """Returns the member's assigned partitions without deleted topics, encoded in the format of
        the classic consumer protocol."""
        member, names = self._member, self._state.topics.names
        kept = member.encoded
        if kept is None or kept[0] is not member.current:
            kept = member.encoded = (member.current, encoded(member.current.assigned, names))
        return kept[1]

    @property
    def reconciliation(self) -> Reconciliation:
        member, names = self._member, self._state.topics.names
        current, target = member.current, self._group.target_of(member.member_id)
        until_ms = member.rebalance.due_ms
        is_late = current.state == MemberState.UNREVOKED and until_ms != NEVER
        since_ms = until_ms - member.metadata.rebalance_timeout_ms
        state = current.state
        return Reconciliation(
            current.epoch,
            MemberState(state).name if state in _KNOWN_STATES else MemberState.UNKNOWN.name,
            {names[id_]: numbers for id_, numbers in target.items() if id_ in names},
            {names[id_]: sorted(own) for id_, own in current.revoking.items() if id_ in names},
            since_ms if is_late else None,
            until_ms if is_late else None,
            self._awaited(target),
        )

    def _awaited(self, target: Assignment) -> list[tuple[str, int, str]]:
        names, holders = self._state.topics.names, self._group.holders
        own = self._member.member_id
        return [
            (names[topic_id], partition, holder)
            for topic_id, partitions in target.items()
            for partition in partitions
            if topic_id in names and (holder := holders.get((topic_id, partition), own)) != own
        ]


class ConsumerGroupView(ModernGroupView[ConsumerGroup]):
    """Implements `GroupView` for consumer groups."""

    __slots__ = ()

    type = "consumer"
    protocol_type: str | None = CONSUMER

    def _member_view(self, member_id: str) -> MemberView:
        return ConsumerMemberView(self._state, self._group, self._group.members[member_id])

    @property
    def state(self) -> ConsumerGroupState:
        return self._group.state()

    @property
    def protocol_name(self) -> str | None:
        members = {name: each.metadata for name, each in self._group.members.items()}
        return preferred_assignor(members, self._state.config.consumer_assignors)

    def awaited(self) -> Awaited:
        """Returns the members that must give up partitions, and the earliest time at which one of
        them is removed."""
        members = self._group.members.values()
        late = [each for each in members if each.current.state == MemberState.UNREVOKED]
        due_ms = min((each.rebalance.due_ms for each in late), default=NEVER)
        if due_ms == NEVER:
            return Awaited("", None, ())
        return Awaited(REVOKE, due_ms, tuple(each.member_id for each in late))
