"""Sends requests that test the rules of Kafka 4.3.1 for share partitions. Each test is for one
rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import NONE
from share.values import DeliveryState, StateBatch
from tests.broker.mock_time import MockTime
from tests.broker.share_calls import ACCEPT, REJECT, RELEASE, acquired, stored
from tests.broker.share_scene import Scene, on_scene
from tests.waiting import until

AVAILABLE, ACKNOWLEDGED = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED
LOCKS = 100
LOCK_MS = 30_000


def batches(scene: Scene) -> tuple[StateBatch, ...]:
    return stored(scene.broker, scene.loop, scene.topic_id).batches


@pytest.mark.proves("share 5")
async def test_record_is_archived_when_the_lock_of_its_fifth_delivery_expires(
    tmp_path: Path,
) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        scene.produce(b"poison")
        member = scene.member("m")
        member.open(max_wait_ms=0, max_records=0)
        for count in range(1, 6):
            assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, count)]
            scene.move(time, LOCK_MS)
        until("it is archived", lambda: batches(scene)[0].delivery_state == DeliveryState.ARCHIVED)
        assert acquired(member.fetch()) == []

    await on_scene(tmp_path, work, time=time)


@pytest.mark.proves("share 5")
async def test_closed_share_session_does_not_reduce_delivery_counts(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        member = scene.member("m")
        for count in (1, 2, 3):
            assert acquired(member.open()) == [(0, 0, count)]
            member.close()
            assert batches(scene) == (StateBatch(0, 0, AVAILABLE, count),)

    await on_scene(tmp_path, work)


async def test_releases_and_lock_expiries_are_stored_but_acquisitions_are_not(
    tmp_path: Path,
) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 1, 1)]
        assert batches(scene) == ()
        assert member.acknowledge((0, 0, [RELEASE])) == NONE
        assert batches(scene) == (StateBatch(0, 0, AVAILABLE, 1),)
        scene.move(time, LOCK_MS)
        until("the expiry is stored", lambda: batches(scene) == (StateBatch(0, 1, AVAILABLE, 1),))

    await on_scene(tmp_path, work, time=time)


async def test_start_offset_advances_only_past_leading_records_in_a_final_state(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b", b"c", b"d")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 3, 1)]

        def start_offset() -> int:
            (live,) = scene.in_loop(lambda: list(scene.broker.share_partitions.of_group("g")))
            return live.ready.start_offset

        assert member.acknowledge((2, 2, [ACCEPT])) == NONE
        assert start_offset() == 0
        assert member.acknowledge((0, 0, [ACCEPT]), (1, 1, [REJECT])) == NONE
        assert start_offset() == 3

    await on_scene(tmp_path, work)


async def test_acknowledgement_stores_the_start_offset_that_was_valid_before_it(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 1, 1)]
        assert member.acknowledge((0, 1, [ACCEPT])) == NONE
        state = stored(scene.broker, scene.loop, scene.topic_id)
        assert (state.start_offset, state.delivery_complete_count) == (0, 2)  # the lag is 0
        scene.produce(b"c")
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(2, 2, 1)]
        assert member.acknowledge((2, 2, [ACCEPT])) == NONE
        assert stored(scene.broker, scene.loop, scene.topic_id).start_offset == 2

    await on_scene(tmp_path, work)


async def test_share_partition_at_its_lock_limit_delivers_only_released_records(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(*[b"v"] * LOCKS)
        scene.produce(b"beyond the limit")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, LOCKS - 1, 1)]
        assert acquired(member.fetch()) == []
        assert member.acknowledge((LOCKS - 1, LOCKS - 1, [RELEASE])) == NONE
        assert acquired(member.fetch()) == [(LOCKS - 1, LOCKS - 1, 2)]
        assert member.acknowledge((0, 0, [ACCEPT])) == NONE
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(LOCKS, LOCKS, 1)]

    settings = {"group.share.partition.max.record.locks": str(LOCKS)}
    await on_scene(tmp_path, work, settings=settings)


async def test_released_and_new_records_are_delivered_in_the_order_of_offsets(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        scene.produce(b"b")
        scene.produce(b"c")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 2, 1)]
        assert member.acknowledge((1, 1, [RELEASE])) == NONE
        scene.produce(b"d")
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(1, 1, 2), (3, 3, 1)]

    await on_scene(tmp_path, work)


async def test_reloaded_share_partition_delivers_released_but_not_accepted_records(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b", b"c")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 2, 1)]
        assert member.acknowledge((0, 0, [RELEASE]), (1, 1, [ACCEPT])) == NONE
        assert acquired(member.fetch()) == [(0, 0, 2)]
        scene.forget_share_partitions()
        # 0 has its stored count; 2 was never stored, so that its delivery is not counted.
        assert acquired(scene.member("again").open()) == [(0, 0, 2), (2, 2, 1)]

    await on_scene(tmp_path, work)
