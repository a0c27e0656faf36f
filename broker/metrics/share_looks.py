"""Collects the facts for the verdict of a share group. Also stores, for each share group, the time
since which its number of completed records has not changed."""

from __future__ import annotations

from collections.abc import Generator

from broker.share.live_partition import LivePartition
from broker.share.partitions import SharePartitions
from protocol.now import Now
from share.partition.values import InFlightRange
from share.values import DeliveryState
from verdicts.share_rules import ExpiredFacts, RepeatedFacts, ShareFacts

REPEATED_AT = 3
"""A record that is not completed counts as delivered repeatedly if its delivery count is at least
this number."""
REPEATED_SHOWN = 5


class ShareLooks:
    """Collects the facts about share groups. Only the event loop's thread may use this class."""

    def __init__(self, partitions: SharePartitions) -> None:
        self._partitions = partitions
        self._stands: dict[str, tuple[int, int]] = {}
        """By group: the number of completed records, and the monotonic time in ms since which this
        number has not changed although records waited."""

    def forget(self, group_id: str) -> None:
        """Removes the state and the counts of a deleted group, so that its series end."""
        self._stands.pop(group_id, None)
        self._partitions.counts.forget(group_id)

    def facts(self, group_id: str, now: Now) -> Generator[int, None, ShareFacts]:
        """Collects, in steps, the facts about the share partitions of a group. Share partitions
        that are not in memory are left out.

        Yields the number of elements that each step has read.
        """
        waiting = held = 0
        found: list[tuple[InFlightRange, LivePartition]] = []
        for live in list(self._partitions.of_group(group_id)):
            share = live.share
            if share is None:
                continue
            waiting += max(0, live.partition.high_watermark - share.end_offset - 1)
            for piece in share.in_flight_pieces():
                for each in piece:
                    records = each.last_offset - each.first_offset + 1
                    if each.state == DeliveryState.ACQUIRED:
                        held += records
                    elif each.state == DeliveryState.AVAILABLE:
                        waiting += records
                    else:
                        continue
                    if each.delivery_count >= REPEATED_AT:
                        found.append((each, live))
                found.sort(key=lambda pair: -pair[0].delivery_count)
                del found[REPEATED_SHOWN:]
                yield len(piece)
            yield 1
        counts = self._partitions.counts.of(group_id)
        completed = counts.archived + sum(
            counts.outcomes[kind] for kind in ("accepted", "rejected", "gap")
        )
        before = self._stands.get(group_id)
        if before is None or before[0] != completed or not (waiting or held):
            before = self._stands[group_id] = (completed, now.mono_ms)
        repeated = [_repeated(each, live) for each, live in found]
        lock_ms = self._partitions.settings_of(group_id).limits.lock_duration_ms
        expired = [
            ExpiredFacts(
                member_id,
                [each.at_ms for each in expiries],
                [each.records for each in expiries],
                lock_ms,
            )
            for member_id, expiries in counts.expiries
        ]
        return ShareFacts(waiting, held, now.wall_ms - now.mono_ms + before[1], repeated, expired)


def _repeated(each: InFlightRange, live: LivePartition) -> RepeatedFacts:
    outcomes = live.ready.outcomes(each.first_offset, each.first_offset)
    last = outcomes[-1] if outcomes else None
    limits = live.limits
    assert limits is not None
    return RepeatedFacts(
        live.partition.topic,
        live.partition.index,
        each.first_offset,
        each.last_offset,
        each.delivery_count,
        limits.delivery_count_limit,
        None if not outcomes else outcomes[0].began_ms,
        None if last is None else last.member_id,
        "" if last is None else last.kind,
    )
