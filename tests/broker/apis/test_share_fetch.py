"""Tests ShareFetch: acquired records, limits, waiting, releases and acquisition locks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.share_fetch import acquiring
from broker.apis.share_fetch.reading import read_batches
from protocol.errors import NONE
from tests.broker.mock_time import MockTime
from tests.broker.share_calls import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    acquired,
    stored,
    values,
)
from tests.broker.share_scene import Scene, on_scene


@pytest.mark.parametrize("version", [1, 2])
async def test_share_fetch_acquires_and_returns_records_in_each_version(
    tmp_path: Path, version: int
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b")
        scene.produce(b"c")
        member = scene.member("m", version=version)
        reply = member.open()
        assert acquired(reply) == [(0, 2, 1)]
        assert values(reply) == [b"a", b"b", b"c"]
        assert reply["acquisition_lock_timeout_ms"] == 30_000
        assert member.acknowledge((0, 2, [ACCEPT])) == NONE
        assert acquired(member.fetch()) == []

    await on_scene(tmp_path, work)


async def test_record_is_acquired_by_only_one_share_member_at_a_time(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        one, other = scene.member("one"), scene.member("other")
        for number in range(4):
            scene.produce(b"%d" % number)
        assert acquired(one.open(max_records=2)) == [(0, 1, 1)]
        assert acquired(other.open()) == [(2, 3, 1)]
        assert acquired(one.fetch()) == []
        assert one.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE])) == NONE
        assert acquired(other.fetch()) == [(1, 1, 2)]
        assert acquired(one.fetch()) == []

    await on_scene(tmp_path, work)


async def test_share_fetch_returns_only_batches_with_acquired_records(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for number in range(5):
            scene.produce(b"%d" % number)
        member = scene.member("m")
        reply = member.open(max_records=2)
        assert values(reply) == [b"0", b"1"]
        assert member.acknowledge((0, 1, [ACCEPT])) == NONE
        assert values(member.fetch(max_records=1)) == [b"2"]

    await on_scene(tmp_path, work)


async def test_share_fetch_reads_only_the_batches_that_it_can_acquire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def counted(*request: Any) -> Any:
        batches = read_batches(*request)
        found.append(len(batches.headers) if batches else 0)
        return batches

    monkeypatch.setattr(acquiring, "read_batches", counted)

    def work(scene: Scene) -> None:
        for number in range(6):
            scene.produce(b"%d" % number)
        member = scene.member("m")
        assert acquired(member.open(max_records=2)) == [(0, 1, 1)]
        assert member.acknowledge((0, 0, [RELEASE]), (1, 1, [ACCEPT])) == NONE
        assert acquired(member.fetch(max_records=2)) == [(0, 0, 2), (2, 2, 1)]

    await on_scene(tmp_path, work)
    assert [count for count in found if count] == [2, 3]


async def test_share_fetch_in_record_limit_mode_acquires_exactly_max_records(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(*[b"v"] * 10)
        exact = scene.member("exact")
        assert acquired(exact.open(max_records=3, share_acquire_mode=1)) == [(0, 2, 1)]
        optimized = scene.member("optimized")
        assert acquired(optimized.open(max_records=3)) == [(3, 9, 1)]

    await on_scene(tmp_path, work)


async def test_share_fetch_of_several_partitions_stops_at_max_records(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for partition in (0, 1):
            scene.produce(b"a", b"b", partition=partition)
        member = scene.member("m")
        first = member.open(0, 1, max_records=2)
        assert (acquired(first, 0), acquired(first, 1)) == ([(0, 1, 1)], [])
        second = member.fetch(max_records=2)
        assert (acquired(second, 0), acquired(second, 1)) == ([], [(0, 1, 1)])

    await on_scene(tmp_path, work, partitions=2)


async def test_share_session_gets_no_records_of_a_forgotten_partition(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        member.open(0, 1, max_wait_ms=0)
        forgotten = [{"topic_id": scene.topic_id, "partitions": [0]}]
        member.fetch(forgotten_topics_data=forgotten)
        for partition in (0, 1):
            scene.produce(b"a", partition=partition)
        reply = member.fetch(max_wait_ms=5_000)
        assert (acquired(reply, 0), acquired(reply, 1)) == ([], [(0, 0, 1)])

    await on_scene(tmp_path, work, partitions=2)


# -- waiting


async def test_waiting_share_fetch_gets_records_that_are_appended(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        member.open(max_wait_ms=0)
        scene.send_waiting(member)
        scene.until_waiting()
        scene.produce(b"late")
        assert values(scene.receive(member)) == [b"late"]

    await on_scene(tmp_path, work)


@pytest.mark.parametrize("end", ["release", "close", "disconnect"])
@pytest.mark.proves("share 5")
async def test_waiting_share_fetch_gets_records_that_another_member_releases(
    tmp_path: Path, end: str
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        holder, member = scene.member("holder"), scene.member("m")
        assert acquired(holder.open()) == [(0, 0, 1)]
        member.open(max_wait_ms=0)
        scene.send_waiting(member)
        scene.until_waiting()
        if end == "release":
            assert holder.acknowledge((0, 0, [RELEASE])) == NONE
        elif end == "close":
            assert holder.close()["error_code"] == NONE
        else:
            holder.wire.close()
        assert acquired(scene.receive(member)) == [(0, 0, 2)]

    await on_scene(tmp_path, work)


async def test_share_fetch_waits_for_min_bytes(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        member.open(max_wait_ms=0)
        scene.send_waiting(member, min_bytes=1_500)
        scene.until_waiting()
        scene.produce(b"x" * 1_000)
        scene.produce(b"y" * 1_000)
        assert acquired(scene.receive(member)) == [(0, 1, 1)]

    await on_scene(tmp_path, work)


async def test_share_fetch_returns_less_than_min_bytes_after_max_wait(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        member = scene.member("m")
        reply = member.open(max_wait_ms=50, min_bytes=10_000)
        assert acquired(reply) == [(0, 0, 1)]

    await on_scene(tmp_path, work)


async def test_waiting_share_fetch_of_a_disconnected_client_acquires_no_records(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        gone = scene.member("gone")
        gone.open(max_wait_ms=0)
        scene.send_waiting(gone)
        scene.until_waiting()
        gone.wire.close()
        scene.until_waiting(0)
        scene.produce(b"a")
        assert acquired(scene.member("m").open()) == [(0, 0, 1)]

    await on_scene(tmp_path, work)


# -- acquisition locks


@pytest.mark.proves("share 5")
async def test_record_is_delivered_again_when_its_acquisition_lock_ends(tmp_path: Path) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        scene.produce(b"a")
        holder, member = scene.member("holder"), scene.member("m")
        assert acquired(holder.open()) == [(0, 0, 1)]
        member.open(max_wait_ms=0)
        scene.move(time, 29_999)
        assert acquired(member.fetch()) == []
        scene.move(time, 1)
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, 2)]

    await on_scene(tmp_path, work, time=time)


@pytest.mark.proves("share 5")
async def test_record_is_archived_after_its_last_permitted_delivery(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"poison")
        member = scene.member("m")
        member.open(max_wait_ms=0)
        for count in range(1, 6):
            assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, count)]
            assert member.acknowledge((0, 0, [RELEASE])) == NONE
        assert acquired(member.fetch()) == []

    await on_scene(tmp_path, work)


async def test_renewed_acquisition_lock_lasts_its_full_duration_again(tmp_path: Path) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        scene.produce(b"a")
        holder, member = scene.member("holder"), scene.member("m")
        assert acquired(holder.open()) == [(0, 0, 1)]
        member.open(max_wait_ms=0)
        scene.move(time, 29_000)
        assert holder.acknowledge((0, 0, [RENEW]), is_renew_ack=True) == NONE
        scene.move(time, 29_999)
        assert acquired(member.fetch()) == []
        scene.move(time, 1)
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, 2)]

    await on_scene(tmp_path, work, time=time)


# -- stored state


@pytest.mark.proves("share 6")
async def test_acknowledged_records_are_not_delivered_again_after_a_restart(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b", b"c")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 2, 1)]
        assert member.acknowledge((0, 0, [ACCEPT]), (1, 1, [REJECT])) == NONE
        scene.forget_share_partitions()
        again = scene.member("again")
        assert acquired(again.open()) == [(2, 2, 1)]

    await on_scene(tmp_path, work)


async def test_new_share_group_begins_at_the_latest_offset_and_stores_this_offset(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"before")
        member = scene.member("m")
        assert acquired(member.open(max_wait_ms=0)) == []
        scene.until_loaded()
        assert stored(scene.broker, scene.loop, scene.topic_id).start_offset == 1
        scene.produce(b"after")
        assert values(member.fetch(max_wait_ms=5_000)) == [b"after"]

    await on_scene(tmp_path, work, start_offset=-1)


async def test_share_partition_drops_records_below_the_log_start_offset(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for value in (b"a", b"b", b"c"):
            scene.produce(value)
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 2, 1)]
        scene.delete_records(2)
        assert member.acknowledge((0, 2, [ACCEPT])) == NONE
        scene.produce(b"d")
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(3, 3, 1)]

    await on_scene(tmp_path, work)
