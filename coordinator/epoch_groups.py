"""The groups of a shard whose members have epochs: consumer, share and streams groups. This module
has their calls, the replay of their records, their timers, and the effects of changed topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.calls import (
    ConsumerGroupDescribe,
    ConsumerHeartbeat,
    ShareGroupDescribe,
    ShareHeartbeat,
)
from coordinator.consumer import heartbeat as consumer
from coordinator.consumer import hosting as consumer_hosting
from coordinator.consumer import views as consumer_views
from coordinator.share import heartbeat as share
from coordinator.share import hosting as share_hosting
from coordinator.share import offsets as share_offsets
from coordinator.share import views as share_views
from coordinator.step import Handler, ShardState, Step, idle_or_stepped
from coordinator.streams import hosting as streams_hosting
from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from coordinator.timers import GroupTimer
from offsets.consumer_records import ConsumerGroupRun
from offsets.runs import GroupStateRun
from offsets.share_records import ShareGroupRun
from offsets.streams_records import StreamsGroupRun

HANDLERS: dict[type, Handler] = {
    ConsumerHeartbeat: idle_or_stepped(consumer.idle_heartbeat, consumer.heartbeat),
    ConsumerGroupDescribe: consumer_views.describe,
    ShareHeartbeat: idle_or_stepped(share.idle_heartbeat, share.heartbeat),
    ShareGroupDescribe: share_views.describe,
    **share_offsets.HANDLERS,
    StreamsHeartbeat: streams_hosting.heartbeat,
    StreamsGroupDescribe: streams_hosting.describe,
}
"""The handlers of the calls that exist only for consumer, share and streams groups."""
_REPLAYS: dict[type, Callable[[ShardState, Any], None]] = {
    ConsumerGroupRun: consumer_hosting.replay,
    ShareGroupRun: share_hosting.replay,
    StreamsGroupRun: streams_hosting.replay,
}


def replay(state: ShardState, run: GroupStateRun) -> None:
    _REPLAYS[type(run)](state, run)


def forget(state: ShardState, group_id: str, kept: type | None = None) -> None:
    """Removes the consumer, share or streams group with this id. ``kept`` is a type of records,
    such as ConsumerGroupRun: a group whose records have this type is not removed."""
    groups: tuple[tuple[type, dict[str, Any]], ...] = (
        (ConsumerGroupRun, state.consumer_groups),
        (ShareGroupRun, state.share_groups),
        (StreamsGroupRun, state.streams_groups),
    )
    for made, of_type in groups:
        if made is not kept:
            of_type.pop(group_id, None)


def names(state: ShardState) -> tuple[str, ...]:
    return (*state.consumer_groups, *state.share_groups, *state.streams_groups)


def wake(step: Step, group_id: str) -> bool:
    """Starts the timers of a loaded group. Returns False if no consumer, share or streams group has
    the id."""
    state = step.state
    if group_id in state.consumer_groups:
        consumer_hosting.wake(step, state.consumer_groups[group_id])
    elif group_id in state.share_groups:
        share_hosting.wake(step, state.share_groups[group_id])
    elif group_id in state.streams_groups:
        streams_hosting.wake(step, state.streams_groups[group_id])
    else:
        return False
    return True


def fire(step: Step, timer: GroupTimer) -> None:
    """Handles a timer that is due. Does nothing if the timer's member or group no longer exists."""
    consumer_hosting.fire(step, timer)
    share_hosting.fire(step, timer)
    streams_hosting.fire(step, timer)


def topic_changed(state: ShardState, name: str) -> None:
    """Marks each group that uses the changed topic ``name``. At the next heartbeat of a marked
    group, the coordinator checks whether the group's metadata hash has changed."""
    consumer_hosting.topic_changed(state, name)
    share_hosting.topic_changed(state, name)
    streams_hosting.topic_changed(state, name)
