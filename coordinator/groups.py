"""All groups of a shard, of every type, through one read-only interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.consumer.group_view import ConsumerGroupView
from coordinator.read_only import GroupView
from coordinator.share.group_view import ShareGroupView
from coordinator.step import ShardState


class Groups(Mapping[str, GroupView]):
    """All groups of a shard by id. The mapping is a live view; do not use it after the shard has
    changed."""

    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def __getitem__(self, group_id: str) -> GroupView:
        classic = self._state.groups.get(group_id)
        if classic is not None:
            return classic
        consumers = self._state.consumer_groups.get(group_id)
        if consumers is not None:
            return ConsumerGroupView(self._state, consumers)
        shares = self._state.share_groups.get(group_id)
        if shares is not None:
            return ShareGroupView(self._state, shares)
        streams = self._state.streams_groups[group_id]
        from coordinator.streams.group_view import StreamsGroupView

        return StreamsGroupView(self._state, streams)

    def __iter__(self) -> Iterator[str]:
        yield from self._state.groups
        yield from self._state.consumer_groups
        yield from self._state.share_groups
        yield from self._state.streams_groups

    def __len__(self) -> int:
        state = self._state
        of_epochs = len(state.consumer_groups) + len(state.share_groups) + len(state.streams_groups)
        return len(state.groups) + of_epochs

    def __contains__(self, group_id: object) -> bool:
        state = self._state
        return (
            group_id in state.groups
            or group_id in state.consumer_groups
            or group_id in state.share_groups
            or group_id in state.streams_groups
        )
