"""Read access to a shard: DescribeGroups, ListGroups, and `ShardView`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from coordinator.calls import DescribeGroup, ListGroups, Ticket
from coordinator.classic.group import Group
from coordinator.classic.states import State, state_filter
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.states import ConsumerGroupState
from coordinator.expiring import ExpiringOffset, expiring
from coordinator.groups import Groups
from coordinator.outcome import (
    DescribedMember,
    DescribeReply,
    ListedGroup,
    ListReply,
    Outcome,
    answered,
)
from coordinator.read_only import GroupView, OffsetsView
from coordinator.share.group import ShareGroup
from coordinator.step import ShardState
from coordinator.streams.group import StreamsGroup
from coordinator.streams.states import StreamsGroupState
from offsets.columns import TopicColumns
from offsets.pending import PendingOfProducer
from offsets.runs import GroupValue
from protocol.errors import NONE
from protocol.now import Now

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"
"""The type of streams groups in ListGroups v5."""


def describe(state: ShardState, call: DescribeGroup, now: Now) -> Outcome:  # noqa: ARG001
    """Describes a classic group. An unknown group, or a group of another type, is described as
    "Dead" without an error."""
    group = state.groups.get(call.group_id)
    if group is None:
        group_id = call.group_id
        is_other_type = state.has_group(group_id)
        reply = DescribeReply(NONE, call.group_id, is_other_type=is_other_type)
    else:
        match group.state:
            case State.STABLE:
                reply = _described(group, group.protocol_name)
            case State.EMPTY | State.PREPARING_REBALANCE | State.AWAITING_SYNC:
                reply = _described(group, None)
            case State.DEAD:
                reply = DescribeReply(NONE, call.group_id)
    return answered(call.ticket, reply)


def _described(group: Group, protocol_name: str | None) -> DescribeReply:
    """Describes a classic group. The description has a protocol name, metadata and assignments only
    if the group is STABLE."""
    members = [
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            b"" if protocol_name is None else member.metadata(protocol_name),
            b"" if protocol_name is None else member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribeReply(
        NONE,
        group.group_id,
        group.state.value,
        group.protocol_type or "",
        protocol_name or "",
        members,
    )


def list_groups(state: ShardState, call: ListGroups, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the groups of this shard that match the filters. DEAD groups are omitted."""
    states = state_filter(call.states) if call.states else frozenset(State)
    types = {name.lower() for name in call.types} or {CLASSIC, CONSUMER, SHARE, STREAMS}
    if CLASSIC not in types:
        states = frozenset()
    groups = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
        for group in state.groups.values()
        if group.state in states and group.state is not State.DEAD
    ]
    named = {name.lower().replace("_", "") for name in call.states}  # Kafka: "not_ready"
    others = (
        (CONSUMER, state.consumer_groups),
        (SHARE, state.share_groups),
        (STREAMS, state.streams_groups),
    )
    for kind, of_kind in others:
        for other in of_kind.values() if kind in types else ():
            name = other.state().value
            if not named or name.lower() in named:
                groups.append(ListedGroup(other.group_id, kind, name, kind))
    return answered(call.ticket, ListReply(NONE, groups))


class ShardView:
    """A read-only view of a shard's groups and offsets. Nothing is copied: a caller that reads many
    groups over several turns sees the changes in between. Callers must not change the objects."""

    __slots__ = (
        "_state", "consumer_groups", "groups", "offsets", "recorded", "share_groups",
        "streams_groups",
    )  # fmt: skip

    def __init__(self, state: ShardState, recorded: Mapping[str, tuple[int, GroupValue]]) -> None:
        self._state = state
        self.groups: Mapping[str, GroupView] = Groups(state)
        self.consumer_groups: Mapping[str, ConsumerGroup] = state.consumer_groups
        self.share_groups: Mapping[str, ShareGroup] = state.share_groups
        self.streams_groups: Mapping[str, StreamsGroup] = state.streams_groups
        self.offsets: OffsetsView = state.cache
        self.recorded = recorded
        """For each classic group, the log offset of its last record and the record."""

    def known(self) -> int:
        """The number of groups in the log, including groups that have only offsets. The number is
        valid during a load too."""
        offsets, pending = self.offsets.groups(), self._state.cache.pending.groups()
        alone = sum(group not in offsets for group in pending)
        of_epochs = (*self.consumer_groups, *self.share_groups, *self.streams_groups)
        of_records = (*self.recorded, *of_epochs)
        recorded = sum(group not in offsets and group not in pending for group in of_records)
        return len(offsets) + alone + recorded

    def live_records(self) -> int:
        """Returns the approximate number of records in the log that no later record supersedes. The
        function assumes one record per offset, one per classic group, two per consumer group, three
        per share or streams group, and three per member of a consumer, share or streams group."""
        consumers = sum(2 + 3 * len(group.members) for group in self.consumer_groups.values())
        others = [len(group.members) for group in self.share_groups.values()]
        others += [len(group.members) for group in self.streams_groups.values()]
        consumers += sum(3 + 3 * members for members in others)
        offsets = self.offsets.count() + self._state.cache.pending.count()
        return offsets + len(self._state.groups) + consumers

    def all_pending(self) -> Iterator[tuple[int, int, str, str, TopicColumns]]:
        """Yields producer id, producer epoch, group, topic and columns of all pending offsets, for
        snapshots."""
        return self._state.cache.pending.columns()

    def pending(self, group_id: str) -> Sequence[PendingOfProducer]:
        """Returns the open transactions in which offsets of the group were committed, by producer
        id."""
        return self._state.cache.pending.of_group(group_id)

    def counts(self) -> tuple[dict[str, int], int]:
        """Returns the number of groups in each state, by the state's name in responses, and the
        total number of members."""
        by_state = {each.value: 0 for each in (*State, *ConsumerGroupState, *StreamsGroupState)}
        members = 0
        for group in self.groups.values():
            by_state[group.state.value] += 1
            members += len(group.members)
        return by_state, members

    def expiring(self, group_id: str, until_ms: int) -> Iterable[ExpiringOffset]:
        """Returns the offsets of a group that retention may drop by the wall time ``until_ms``."""
        group = self._state.group_with_offsets(group_id)
        return () if group is None else expiring(self._state, group, until_ms)

    def expiring_counts(self) -> dict[int, int]:
        """Returns the number of offsets that expire soon, as the last check of each group found
        them. A key is a warning time in ms: the counted offsets expire within this time."""
        return {
            within_ms: sum(by_group.values())
            for within_ms, by_group in self._state.expiring.items()
        }

    def parked(self) -> Collection[Ticket]:
        sweeps = (sweep.ticket for sweep in self._state.sweeps if sweep.ticket is not None)
        deletions = self._state.share_deletions.values()
        waiting = (ticket for deletion in deletions for ticket in deletion.tickets)
        return {*self._state.parked, *sweeps, *waiting}
