"""Tests of the checkers: each fault that is planted into the delivery of share groups must be
detected by the simulation.

A function named after the fault replaces correct code with `monkeypatch`. If `MOST_SEEDS`
simulations do not detect a fault, the test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.apis.share_fetch import acquiring
from broker.apis.shared.share_acknowledgements import ShareAcknowledgements
from broker.share import partitions
from broker.share.live_partition import LivePartition
from broker.share.partitions import SharePartitions
from protocol.errors import NONE
from protocol.now import Now
from share.partition.ranges import AVAILABLE, Range, Ranges
from share.partition.share_partition import SharePartition
from share.partition.values import AckBatch
from share.persister.calls import StateReply
from share.persister.shard import ShareStateShard
from share.persister.values import UpdateValue
from share.values import DeliveryState
from tests.simulation.share.world import ShareWorld
from tests.simulation.whole.runs import PLAYED_S_MAX, find_fault
from tests.tiers import sampled

MOST_SEEDS = 40
SECONDS = 30

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledgements_are_answered_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    real = SharePartitions.store

    def write(self: SharePartitions, live: LivePartition, change: Any, done: Any) -> None:
        if done is not None:
            done(NONE, None)
        real(self, live, change, None)

    patch.setattr(SharePartitions, "store", write)


def acknowledgements_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    def write(self: SharePartitions, live: LivePartition, change: Any, done: Any) -> None:
        live.writes += 1
        self._stored(live, change, done, StateReply(NONE))

    patch.setattr(SharePartitions, "store", write)


def members_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.refusal

    def refusal(
        self: SharePartition, member_id: str, batches: Sequence[AckBatch], is_renew: bool = False
    ) -> Any:
        found = real(self, member_id, batches, is_renew)
        return None if found is not None and "another member" in found.message else found

    patch.setattr(SharePartition, "refusal", refusal)


def released_records_are_archived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        SharePartition,
        "_limited",
        lambda _self, state, _: DeliveryState.ARCHIVED if state == AVAILABLE else state,
    )


def last_delivery_does_not_archive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_limited", lambda _self, state, _: state)


def delivery_count_is_lost_by_a_release(patch: pytest.MonkeyPatch) -> None:
    real = Ranges.settle

    def settle(self: Ranges, settled: Range, state: DeliveryState) -> None:
        real(self, settled, state)
        if state == AVAILABLE:
            settled.count = 0

    patch.setattr(Ranges, "settle", settle)


def stored_delivery_counts_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    real = partitions.ReadState
    shown = ShareStateShard._read

    def read(self: ShareStateShard, call: Any, now: Any) -> Any:
        reply, records = shown(self, call, now)
        if reply.state is not None:
            batches = tuple(
                each._replace(delivery_count=0) if each.delivery_state == 0 else each
                for each in reply.state.batches
            )
            reply = StateReply(NONE, state=reply.state._replace(batches=batches))
        return reply, records

    from share.persister import shard

    patch.setitem(shard._HANDLERS, real, read)


def updates_are_lost_by_a_load(patch: pytest.MonkeyPatch) -> None:
    real = ShareStateShard.replay

    def replay(self: ShareStateShard, run: Any, base_offset: int) -> None:
        if isinstance(run.value, UpdateValue) and run.value.batches and base_offset % 3 == 0:
            run = type(run)(run.key, run.value._replace(batches=()))
        real(self, run, base_offset)

    patch.setattr(ShareStateShard, "replay", replay)


def sessions_that_end_release_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "release_member", lambda *_: None)
    patch.setattr(SharePartition, "expire", lambda *_: None)


def locks_end_at_once(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition._new_lock

    def new_lock(self: SharePartition, member_id: str, now: Now) -> Any:
        begins_ms = now.mono_ms - self._settings.lock_duration_ms + 200
        return real(self, member_id, now._replace(mono_ms=begins_ms))

    patch.setattr(SharePartition, "_new_lock", new_lock)


def renewals_do_not_extend_the_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranges, "lock_again", lambda *_: None)


def records_of_all_members_are_released(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.release_member

    def release_member(self: SharePartition, member_id: str) -> Any:
        held = [each.lock.member_id for each in self._ranges if each.lock is not None]
        return real(self, held[0] if held else member_id)

    patch.setattr(SharePartition, "release_member", release_member)


def reads_do_not_lock_the_share_partition(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: two concurrent requests read the same records, and the second request gets
    the records that the first one has acquired."""
    real = SharePartition.acquire

    def acquire(self: SharePartition, member_id: str, fetched: Any, *more: Any) -> Any:
        for each in self._ranges:
            if each.lock is not None and each.transition is None and each.lock.records == 1:
                self._ranges.settle(each, AVAILABLE)
                break
        return real(self, member_id, fetched, *more)

    patch.setattr(SharePartition, "acquire", acquire)


def aborted_records_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acquiring, "aborted_ranges", lambda *_: ())


def in_flight_records_are_not_limited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranges, "window", lambda _: 0)


def refused_acknowledgement_is_applied_in_part(patch: pytest.MonkeyPatch) -> None:
    real = ShareAcknowledgements._acknowledge

    def acknowledge(
        self: ShareAcknowledgements, live: LivePartition, place: Any, batches: list[AckBatch]
    ) -> None:
        if live.ready.refusal(self._member_id, batches, self._is_renew) is not None:
            self._missing += 1
            self._partitions.acknowledge(
                live, self._member_id, batches[:1], lambda *_: None, is_renew=self._is_renew
            )
            self._missing -= 1
        real(self, live, place, batches)

    patch.setattr(ShareAcknowledgements, "_acknowledge", acknowledge)


def only_the_first_piece_is_released(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.expire

    def expire(self: SharePartition, now_ms: int) -> Any:
        change = real(self, now_ms)
        self._ended = set()
        return change

    patch.setattr(SharePartition, "expire", expire)


PLANTS = [
    only_the_first_piece_is_released,
    acknowledgements_are_answered_before_they_are_stored,
    acknowledgements_are_not_stored,
    members_are_not_compared,
    released_records_are_archived,
    last_delivery_does_not_archive,
    delivery_count_is_lost_by_a_release,
    stored_delivery_counts_are_not_loaded,
    updates_are_lost_by_a_load,
    sessions_that_end_release_nothing,
    locks_end_at_once,
    renewals_do_not_extend_the_lock,
    records_of_all_members_are_released,
    reads_do_not_lock_the_share_partition,
    aborted_records_are_delivered,
    in_flight_records_are_not_limited,
    refused_acknowledgement_is_applied_in_part,
]

FOUND_SOON = {last_delivery_does_not_archive, aborted_records_are_delivered, locks_end_at_once}
"""Planted faults that are detected in a second. The campaign covers the other faults."""


@pytest.mark.proves("share 16")
@pytest.mark.planted("simulated share groups")
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulation_of_share_groups_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(ShareWorld, range(MOST_SEEDS), SECONDS)
