"""Tests ShareFetch with share.isolation.level=read_committed, and share fetches that wait for the
disk or for the share coordinator."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from log.values import Marker
from protocol.errors import COORDINATOR_NOT_AVAILABLE, FENCED_STATE_EPOCH, NONE
from tests.broker.partitions import partition_of
from tests.broker.share_calls import (
    ACCEPT,
    GAP,
    RELEASE,
    acquired,
    entry_of,
    stored,
)
from tests.broker.share_scene import Scene, on_scene
from tests.log import log_tools
from tests.log.log_tools import NOW_MS
from tests.simulated_files import SimulatedFiles


class Producers:
    """Appends records of transactional producers and their markers to partition 0 of topic t."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.partition = partition_of(scene.broker, "t")
        self.sequences: dict[int, int] = {}

    def send(self, producer_id: int, value: bytes = b"v") -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        producer = (producer_id, 0, sequence)
        data = log_tools.batch(0, value, producer=producer, transactional=True)
        self.scene.in_loop(lambda: self.partition.append(data, NOW_MS))

    def end(self, producer_id: int, committed: bool) -> None:
        marker = Marker(producer_id, 0, 0, committed)
        self.scene.in_loop(lambda: self.partition.append_marker(marker, NOW_MS))


def read_committed(scene: Scene) -> None:
    configs = {"share.isolation.level": "read_committed"}
    scene.in_loop(lambda: scene.broker.registry.group_configs.update({"g": configs}))


@pytest.mark.proves("share 12")
async def test_read_committed_share_group_skips_aborted_records_and_stops_at_open_transaction(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        read_committed(scene)
        producers = Producers(scene)
        producers.send(7)  # 0, aborted
        producers.send(8)  # 1, committed
        producers.send(7)  # 2, aborted
        producers.end(7, False)  # 3
        producers.end(8, True)  # 4
        producers.send(9)  # 5, open
        producers.send(8)  # 6, after the last stable offset
        member = scene.member("m")
        assert acquired(member.open()) == [(1, 1, 1), (3, 4, 1)]
        assert acquired(member.fetch()) == []
        assert member.acknowledge((1, 1, [ACCEPT]), (3, 4, [GAP])) == NONE
        scene.send_waiting(member)
        scene.until_waiting()
        producers.end(8, True)  # 7: the transaction of 9 is still open
        producers.end(9, True)  # 8
        assert acquired(scene.receive(member)) == [(5, 8, 1)]

    await on_scene(tmp_path, work)


async def test_read_committed_share_fetch_continues_after_records_that_are_all_aborted(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        read_committed(scene)
        producers = Producers(scene)
        for _ in range(3):
            producers.send(7, b"x" * 1_000)
        producers.end(7, False)
        scene.produce(b"after")
        member = scene.member("m")
        assert acquired(member.open(max_bytes=1_200)) == [(3, 3, 1)]

    await on_scene(tmp_path, work)


async def test_read_uncommitted_share_group_gets_aborted_records_and_markers(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        producers = Producers(scene)
        producers.send(7)
        producers.end(7, False)
        assert acquired(scene.member("m").open()) == [(0, 1, 1)]

    await on_scene(tmp_path, work)


# -- the log on disk


async def test_share_fetches_that_wait_for_the_disk_acquire_different_records() -> None:
    fs = SimulatedFiles()

    def work(scene: Scene) -> None:
        one, other = scene.member("one"), scene.member("other")
        for member in (one, other):
            member.open(max_wait_ms=0)
        scene.until_loaded()
        for value in (b"a", b"b"):
            scene.produce(value)
        disk = fs.disk = threading.Event()
        try:
            for member in (one, other):
                scene.send_waiting(member, max_wait_ms=20_000, max_records=1, share_acquire_mode=1)
            scene.until_waiting()
        finally:
            disk.set()
        found = sorted(acquired(scene.receive(member)) for member in (one, other))
        assert found == [[(0, 0, 1)], [(1, 1, 1)]]

    await on_scene(Path("/data"), work, fs=fs)


# -- writes that fail


@pytest.mark.proves("share 4")
async def test_share_acknowledgement_that_cannot_be_stored_has_no_effect(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 0, 1)]
        scene.refuse(COORDINATOR_NOT_AVAILABLE)
        assert member.acknowledge((0, 0, [ACCEPT])) == COORDINATOR_NOT_AVAILABLE
        scene.refuse(NONE)
        assert member.acknowledge((0, 0, [ACCEPT])) == NONE

    await on_scene(tmp_path, work)


async def test_share_partition_is_loaded_again_after_fenced_state_epoch(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for value in (b"a", b"b"):
            scene.produce(value)
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 1, 1)]
        scene.initialize(epoch=2, start_offset=1)
        assert member.acknowledge((0, 0, [RELEASE])) == FENCED_STATE_EPOCH
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(1, 1, 1)]
        assert stored(scene.broker, scene.loop, scene.topic_id).state_epoch == 2

    await on_scene(tmp_path, work)


@pytest.mark.proves("share 4")
async def test_released_records_are_not_delivered_before_their_release_is_stored(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        holder, member = scene.member("holder"), scene.member("m")
        assert acquired(holder.open()) == [(0, 0, 1)]
        member.open(max_wait_ms=0)
        scene.hold_writes()
        holder.wire.send("ShareFetch", 2, holder.request(acknowledge=[(0, 0, [RELEASE])]))
        assert acquired(member.fetch()) == []
        scene.let_writes()
        entry = entry_of(holder.wire.receive()[1])
        assert entry["acknowledge_error_code"] == NONE
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, 2)]

    await on_scene(tmp_path, work)
