"""Derives events from a change of the in-sync replicas: an event for each removed replica, with its
lag, and an event for each added replica."""

from __future__ import annotations

from collections.abc import Iterator

from replication.events import Behind, Event, ReplicaIn, ReplicaOut
from replication.leader import NEVER, UNKNOWN, LedReplicas
from replication.values import PartitionState


def behind(led: LedReplicas, replica: int, now_ms: int) -> Behind:
    """Returns how far a replica is behind its leader."""
    follower = led.followers.get(replica)
    if follower is None or follower.end_offset == UNKNOWN:
        return Behind(-1, -1, -1)
    return Behind(
        led.end_offset - follower.end_offset,
        _ago(follower.fetched_ms, now_ms),
        _ago(follower.caught_up_ms, now_ms),
    )


def _ago(then_ms: int, now_ms: int) -> int:
    return -1 if then_ms == NEVER else max(0, now_ms - then_ms)


def isr_events(
    led: LedReplicas,
    topic: str,
    partition: int,
    after: PartitionState,
    now_ms: int,
    *,
    by_controller: bool,
) -> Iterator[Event]:
    """Yields the events for a change of the ISR from the present state of ``led`` to ``after``.
    Call this before the change is applied to ``led``."""
    before = led.state.isr
    if before == after.isr:
        return
    place = topic, partition
    for replica in before:
        if replica not in after.isr and replica != led.node_id:
            yield ReplicaOut(
                *place, replica, after.isr, before, led.node_id, after.leader_epoch,
                by_controller, led.rules.is_alive(replica), replica in after.replicas,
                behind(led, replica, now_ms), led.rules.lag_time_max_ms,
            )  # fmt: skip
    for replica in after.isr:
        if replica not in before:
            yield ReplicaIn(
                *place, replica, after.isr, before, led.node_id, after.leader_epoch, by_controller
            )
