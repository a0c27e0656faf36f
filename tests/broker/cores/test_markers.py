"""Tests transaction markers: when they are written, and what happens when writes of markers
fail."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.cores.hosted_shard import Phase
from broker.cores.transactions import markers as sending
from broker.topics import partition as partitions_of_broker
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.web.views.transactions import place_view
from log.values import Marker
from tests.broker.edge import Taker
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of, partition_of
from tests.broker.serving import eventually, serving
from tests.broker.slow_disk import SlowFiles
from tests.broker.transactions import (
    PLACES,
    TOPIC,
    Producer,
    added,
    append,
    coordinating,
    ended,
    initialised,
    markers,
    served,
    state_now,
    state_partition,
)
from tests.simulated_files import SimulatedFiles
from transactions.calls import TV1, TV2, EndTransaction

DATA = "/data"
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "log.cleaner.enable": "false",
}


def coordinator(
    fs: SimulatedFiles, settings: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Broker]:
    return coordinating(DATA, {**SETTINGS, **(settings or {})}, fs=fs)


def end_of(place: int, broker: Broker) -> tuple[int, bool, int]:
    """Returns producer epoch, commit flag and coordinator epoch of the only marker in a
    partition."""
    (marker,) = markers(broker, place)
    return marker.epoch, marker.committed, marker.coordinator_epoch


def held_by(broker: Broker, topic: str, index: int) -> str:
    """Returns the sentence that explains why the last stable offset of the partition does not
    advance."""
    deque(broker.sources.lso_blockers.refresh(), maxlen=0)
    partition = partition_of(broker, topic, index)
    return str(place_view(broker.sources, topic, partition)["sentence"])


@pytest.mark.parametrize(("rules", "epoch"), [(TV1, 0), (TV2, 1)])
@pytest.mark.parametrize("committed", [True, False])
async def test_transaction_completes_after_each_partition_has_its_marker(
    rules: int, epoch: int, committed: bool
) -> None:
    async with coordinator(SimulatedFiles()) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer, rules=rules) == 0
        append(broker, producer, 1)
        assert partition_of(broker, TOPIC, 1).last_stable_offset == 0

        await ended(broker, producer, committed, rules)

        complete = "CompleteCommit" if committed else "CompleteAbort"
        await eventually("it is complete", lambda: state_now(broker, "t") == complete)
        assert [end_of(place, broker) for place in range(3)] == [(epoch, committed, 0)] * 3
        assert partition_of(broker, TOPIC, 1).last_stable_offset == 2
        await eventually("its end is in the log", lambda: not broker.markers.sendings)


async def test_produce_waits_until_markers_of_the_previous_transaction_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer may send the first Produce of its next transaction before the broker has written
    the markers of the previous one."""
    async with coordinator(SimulatedFiles()) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        held: list[Any] = []
        monkeypatch.setattr(broker.local_markers, "write", lambda *asked: held.append(asked[-1]))
        await ended(broker, producer, committed=True)
        await eventually("its markers are asked for", lambda: len(held) == 3)
        waiting = asyncio.ensure_future(broker.markers.wait("t", 3600))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()

        for ticket in held:
            ticket.take(0)

        await eventually("it goes on", waiting.done)
        assert state_now(broker, "t") == "CompleteCommit"


@pytest.mark.proves("transactions 29")
async def test_partition_of_a_deleted_topic_does_not_block_the_completion_of_a_transaction() -> (
    None
):
    async with coordinator(SimulatedFiles()) as broker:
        await broker.topics.create("gone", 1, {})
        producer = await initialised(broker, "t")
        assert await added(broker, producer, [("gone", [0]), (TOPIC, [0, 7])]) == 0
        append(broker, producer, 0, "gone")
        await broker.topics.delete("gone")
        await broker.topics.create("gone", 1, {})

        await ended(broker, producer, committed=True)

        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        made_anew = partition_of(broker, "gone")
        assert made_anew.last_stable_offset == made_anew.high_watermark
        assert len(markers(broker, 0)) == 1


async def test_marker_is_written_after_its_prepare_record_is_flushed() -> None:
    """With flush settings the transaction log is flushed first, so that a power loss does not leave
    a transaction partly committed."""
    fs = SimulatedFiles()
    async with coordinator(fs, {"log.flush.interval.messages": "1"}) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        for place in range(3):
            append(broker, producer, place)
        fs.calls.clear()

        await ended(broker, producer, committed=True)
        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")

        data = f"{TOPIC}-0/00000000000000000000.log"
        state = f"{state_partition(broker, 't').name}/00000000000000000000.log"
        first = fs.calls.index(("write", f"{DATA}/{data}"))
        assert ("fsync", f"{DATA}/{state}") in fs.calls[:first]


async def test_slow_flush_of_the_prepare_record_delays_the_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets COORDINATOR_NOT_AVAILABLE after `request.timeout.ms`, but the EndTxn takes
    effect."""
    monkeypatch.setattr(sending, "RETRY_MS_MAX", 1)
    fs, time = SlowFiles(TRANSACTION_TOPIC), MockTime()
    settings = {**SETTINGS, "log.flush.interval.messages": "1"}
    async with serving(tmp_path, settings, fs=fs, time=time) as broker:
        await served(broker)
        await broker.topics.create(TOPIC, 3, {})
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        fs.kind.may_go.clear()
        replies: list[Any] = []
        call = EndTransaction(Taker(replies.append), *producer, True, TV2)
        broker.transactions.submit("t", call)
        await eventually("it is prepared", lambda: state_now(broker, "t") == "PrepareCommit")
        state_partition(broker, "t").expire()
        assert not replies
        time.move(broker.config["request.timeout.ms"])
        state_partition(broker, "t").expire()
        assert replies[0].error_code == 15, "COORDINATOR_NOT_AVAILABLE: ask again"
        assert state_now(broker, "t") == "PrepareCommit"
        assert not markers(broker, 0)

        fs.kind.may_go.set()

        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        assert [end_of(place, broker)[1] for place in range(3)] == [True] * 3


@pytest.mark.proves("transactions 29")
@pytest.mark.parametrize("fails", [False, True])
async def test_topic_deletion_during_a_marker_flush_does_not_block_the_completion_of_a_transaction(
    tmp_path: Path, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "RETRY_MS_FIRST", 1)
    fs = SlowFiles(TOPIC)
    async with serving(tmp_path, SETTINGS, fs=fs) as broker:
        await served(broker)
        await broker.topics.create(TOPIC, 3, {"flush.messages": "1"})
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        fs.kind.may_go.clear()
        await ended(broker, producer, committed=True)
        await eventually("markers are written", lambda: log_of(broker, TOPIC, 2).log_end_offset)
        deleting = asyncio.get_running_loop().create_task(broker.topics.delete(TOPIC))
        await eventually("it is gone", lambda: TOPIC not in broker.logs.topics)
        fs.kind.fails = fails
        fs.kind.may_go.set()
        await deleting
        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        assert broker.fatal is None


async def test_marker_is_written_when_an_unwritable_log_becomes_writable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions_of_broker, "PROBE_MS_FIRST", 1)
    monkeypatch.setattr(sending, "RETRY_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        ill, well = await initialised(broker, "ill"), await initialised(broker, "well")
        assert await added(broker, ill) == 0
        append(broker, ill, 1)
        assert await added(broker, well, [(TOPIC, [0])]) == 0
        fs.fail("write", ".log", count=1 << 30)
        fs._faults[-1].suffix = f"{TOPIC}-1/00000000000000000000.log"

        await ended(broker, ill, committed=True)
        await ended(broker, well, committed=True)
        await eventually("the other", lambda: state_now(broker, "well") == "CompleteCommit")
        await eventually("some rounds", lambda: broker.markers.sendings["ill"].rounds > 3)
        assert state_now(broker, "ill") == "PrepareCommit"
        assert broker.markers.late("ill") == ((TOPIC, 1),)
        assert broker.markers.late("well") == ()
        why = held_by(broker, TOPIC, 1)
        assert "transaction 'ill'" in why
        assert f"the markers are being written; {TOPIC}-1 can't append a marker" in why

        fs.heal()
        await eventually("all is", lambda: state_now(broker, "ill") == "CompleteCommit")
        assert [len(markers(broker, place)) for place in range(3)] == [2, 1, 1]


async def test_no_marker_is_sent_when_the_prepare_record_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions_of_broker, "PROBE_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        fs.fail("write", ".log")

        replies: list[Any] = []
        call = EndTransaction(Taker(replies.append), *producer, True, TV2)
        broker.transactions.submit("t", call)
        await eventually("an answer", lambda: replies)

        assert replies[0].error_code == 16, "NOT_COORDINATOR: the client looks for it again"
        hosted = broker.transactions.hosted_for("t")
        await eventually("it is loaded", lambda: hosted and hosted.phase is Phase.ACTIVE)
        assert state_now(broker, "t") == "Ongoing"
        assert not markers(broker, 0)
        await ended(broker, producer, committed=True)
        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")


async def test_marker_is_sent_again_when_the_group_shard_was_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "RETRY_MS_FIRST", 1)
    async with coordinator(SimulatedFiles()) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        producer = await initialised(broker, "t")
        assert await added(broker, producer, [(TOPIC, [0]), (OFFSETS_TOPIC, [1])]) == 0
        hosted = broker.groups.hosted_shards[1]
        hosted.phase = Phase.LOADING

        await ended(broker, producer, committed=True)

        await eventually("some rounds", lambda: broker.markers.sendings["t"].rounds > 2)
        assert broker.markers.sendings["t"].again in ({}, {(OFFSETS_TOPIC, 1): 6})
        assert len(markers(broker, 0)) == 1, "the others are not asked again"
        hosted.phase = Phase.ACTIVE
        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        assert len(markers(broker, 1, OFFSETS_TOPIC)) == 1


async def test_markers_of_the_offsets_topic_are_sent_first() -> None:
    """A consumer that fetches offsets immediately after EndTxn waits for the marker, so this order
    keeps the wait short."""
    async with coordinator(SimulatedFiles()) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        producer = await initialised(broker, "t")
        assert await added(broker, producer, [*PLACES, (OFFSETS_TOPIC, [1, 0])]) == 0
        asked: list[tuple[str, int]] = []
        write = broker.local_markers.write

        def noted(topic: str, partition: int, *more: Any) -> None:
            asked.append((topic, partition))
            write(topic, partition, *more)

        broker.local_markers.write = noted  # type: ignore[method-assign]
        await ended(broker, producer, committed=True)
        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        assert [topic for topic, _ in asked] == [OFFSETS_TOPIC] * 2 + [TOPIC] * 3


def append_later_marker(
    broker: Broker, producer: Producer, place: int, coordinator_epoch: int
) -> None:
    """Writes a marker of this producer, with the given later coordinator epoch, to partition
    ``place``."""
    marker = Marker(producer.producer_id, producer.epoch, coordinator_epoch, committed=False)
    partition_of(broker, TOPIC, place).append_marker(marker, broker.time.now().wall_ms)


@pytest.mark.parametrize("rules", [TV1, TV2])
async def test_marker_is_written_after_a_marker_of_a_later_coordinator_epoch(
    rules: int,
) -> None:
    """The partition has a marker whose coordinator epoch is higher than that of the coordinator.
    The coordinator raises its own epoch above that of the marker, and writes its marker. The
    transaction remains committed."""
    async with coordinator(SimulatedFiles()) as broker:
        producer = await initialised(broker, "t")
        append_later_marker(broker, producer, 1, 7)
        append_later_marker(broker, producer, 2, 30)
        assert await added(broker, producer, rules=rules) == 0
        for place in range(3):
            append(broker, producer, place)
        with capture_logs() as lines:
            await ended(broker, producer, committed=True, rules=rules)
            await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
        await eventually("its end is in the log", lambda: not broker.markers.sendings)

        ends = [
            [(each.committed, each.coordinator_epoch) for each in markers(broker, place)]
            for place in range(3)
        ]
        assert ends == [[(True, 0)], [(False, 7), (True, 31)], [(False, 30), (True, 31)]]
        for place in range(3):
            partition = partition_of(broker, TOPIC, place)
            assert partition.last_stable_offset == partition.log.log_end_offset
        assert state_partition(broker, "t").leader_epoch == 31
        (line,) = [line for line in lines if "markers of a later epoch" in line["event"]]
        assert (line["epoch"], line["later_epoch"]) == (0, 30)

        later = await initialised(broker, "later")
        assert await added(broker, later) == 0
        await ended(broker, later, committed=True)
        await eventually("the next", lambda: state_now(broker, "later") == "CompleteCommit")
        assert {markers(broker, place)[-1].coordinator_epoch for place in range(3)} == {31}


async def test_marker_of_offsets_topic_is_written_with_the_raised_coordinator_epoch() -> None:
    async with coordinator(SimulatedFiles()) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        producer = await initialised(broker, "t")
        told: list[int] = []
        marker = Marker(producer.producer_id, producer.epoch, 7, committed=False)
        broker.local_markers.write(OFFSETS_TOPIC, 1, marker, Taker(told.append))
        await eventually("the other coordinator's", lambda: told == [0])
        assert await added(broker, producer, [(OFFSETS_TOPIC, [1])]) == 0

        await ended(broker, producer, committed=True)

        await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
        ends = [each.coordinator_epoch for each in markers(broker, 1, OFFSETS_TOPIC)]
        assert ends == [7, 8]


async def test_raised_coordinator_epoch_is_flushed_before_its_marker() -> None:
    """An epoch that was not flushed could be assigned again after a power loss."""
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        producer = await initialised(broker, "t")
        append_later_marker(broker, producer, 1, 7)
        assert await added(broker, producer) == 0
        fs.calls.clear()

        await ended(broker, producer, committed=True)
        await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")

        state = f"{DATA}/{state_partition(broker, 't').name}"
        data = f"{DATA}/{TOPIC}-1/00000000000000000000.log"
        written = fs.calls.index(("write", data))
        assert ("fsync_directory", state) in fs.calls[:written]
        assert ("fsync", f"{state}/00000000000000000000.log") in fs.calls[:written]


async def test_coordinator_epoch_does_not_rise_above_its_maximum() -> None:
    """The maximum is 2**31 - 1. A higher epoch does not fit into a batch header."""
    fs = SimulatedFiles()
    highest = 2**31 - 1
    for _ in range(2):
        async with coordinator(fs) as broker:
            producer = await initialised(broker, "t")
            append_later_marker(broker, producer, 0, highest)
            assert await added(broker, producer, [(TOPIC, [0])]) == 0
            await ended(broker, producer, committed=True)
            await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
            assert markers(broker, 0)[-1].coordinator_epoch == highest
            assert state_partition(broker, "t").leader_epoch == highest
            assert not any(broker.internal_errors.counts.values())


async def test_marker_waits_until_the_raised_coordinator_epoch_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions_of_broker, "PROBE_MS_FIRST", 1)
    monkeypatch.setattr(sending, "RETRY_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        producer = await initialised(broker, "t")
        append_later_marker(broker, producer, 1, 7)
        assert await added(broker, producer) == 0
        await ended(broker, producer, committed=True)
        fs.fail("rename", "leader-epoch-checkpoint", count=1 << 30)
        await eventually("some rounds", lambda: broker.markers.sendings["t"].rounds > 3)
        assert state_now(broker, "t") in ("PrepareCommit", "")
        assert [each.coordinator_epoch for each in markers(broker, 1)] == [7]

        fs.heal()
        await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
        assert markers(broker, 1)[-1].committed
        assert markers(broker, 1)[-1].coordinator_epoch > 7


async def test_all_transactions_commit_while_the_coordinator_epoch_is_raised() -> None:
    async with coordinator(SimulatedFiles()) as broker:
        producers = [await initialised(broker, f"t-{number}") for number in range(20)]
        append_later_marker(broker, producers[0], 0, 7)
        for producer in producers:
            assert await added(broker, producer, [(TOPIC, [0])]) == 0
        replies: list[Any] = []
        for producer in producers:
            call = EndTransaction(Taker(replies.append), *producer, True, TV2)
            broker.transactions.submit(producer.transactional_id, call)
        await eventually("answers", lambda: len(replies) == len(producers))
        assert {reply.error_code for reply in replies} == {0}
        names = [producer.transactional_id for producer in producers]
        await eventually(
            "they are over",
            lambda: {state_now(broker, name) for name in names} == {"CompleteCommit"},
        )
        await eventually("all is in the log", lambda: not broker.markers.sendings)
        assert all(each.committed for each in markers(broker, 0)[1:])
        assert len(markers(broker, 0)) == 1 + len(producers)


async def test_marker_refused_for_a_newer_producer_epoch_is_not_sent_again() -> None:
    """The newer epoch of the producer has already ended the transaction in this partition."""
    async with coordinator(SimulatedFiles()) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        newer = Marker(producer.producer_id, producer.epoch + 5, 9, committed=False)
        partition_of(broker, TOPIC, 1).append_marker(newer, broker.time.now().wall_ms)

        await ended(broker, producer, committed=True)

        await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
        await eventually("its end is in the log", lambda: not broker.markers.sendings)
        assert [each.epoch for each in markers(broker, 1)] == [producer.epoch + 5]


async def test_markers_are_sent_to_other_partitions_when_one_partition_refuses_its_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction must not complete before its last marker is written. Otherwise the partition
    without a marker would block read_committed consumers forever."""
    monkeypatch.setattr(partitions_of_broker, "PROBE_MS_FIRST", 1)
    monkeypatch.setattr(sending, "RETRY_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        append(broker, producer, 0)
        newer = Marker(producer.producer_id, producer.epoch + 5, 9, committed=False)
        partition_of(broker, TOPIC, 1).append_marker(newer, broker.time.now().wall_ms)
        fs.fail("write", ".log", count=1 << 30)
        fs._faults[-1].suffix = f"{TOPIC}-0/00000000000000000000.log"

        await ended(broker, producer, committed=True)
        await eventually("some rounds", lambda: broker.markers.sendings["t"].rounds > 3)
        assert state_now(broker, "t") == "PrepareCommit"

        fs.heal()
        await eventually("it is over", lambda: state_now(broker, "t") == "CompleteCommit")
        assert partition_of(broker, TOPIC, 0).last_stable_offset == 2
        assert [each.epoch for each in markers(broker, 1)] == [producer.epoch + 5]


async def test_small_transaction_completes_while_a_large_transaction_writes_its_markers() -> None:
    fs = SimulatedFiles()
    async with coordinator(fs) as broker:
        await broker.topics.create("wide", 300, {})
        wide = await initialised(broker, "wide")
        assert await added(broker, wide, [("wide", range(300))]) == 0
        small = await initialised(broker, "small")
        assert await added(broker, small, [(TOPIC, [0])]) == 0
        broker.slicer.slice_ns = 0

        await ended(broker, wide, committed=True)
        await ended(broker, small, committed=True)

        async with asyncio.timeout(120):
            while state_now(broker, "small") != "CompleteCommit":
                # Each iteration of the event loop writes some markers of the wide transaction.
                await asyncio.sleep(0)
        assert state_now(broker, "wide") == "PrepareCommit"
        await eventually("the wide", lambda: state_now(broker, "wide") == "CompleteCommit")
        assert all(len(markers(broker, place, "wide")) == 1 for place in range(300))


@pytest.mark.proves("transactions 23")
@pytest.mark.parametrize("rules", [TV1, TV2])
@pytest.mark.parametrize("committed", [True, False])
async def test_prepared_transaction_is_completed_after_a_crash_after_any_write(
    committed: bool, rules: int
) -> None:
    """The test starts a broker on a copy of the disk after each write of a record or marker. The
    start completes a prepared transaction without its client. A transaction that was not prepared
    remains open."""
    fs = SimulatedFiles()
    found: list[SimulatedFiles] = []
    complete = "CompleteCommit" if committed else "CompleteAbort"
    async with coordinator(fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        plain = fs.fault

        def killed(operation: str, path: str) -> Any:
            if operation != "read":
                found.append(fs.as_killed())
            return plain(operation, path)

        fs.fault = killed  # type: ignore[method-assign]
        producer = await initialised(broker, "t")
        assert await added(broker, producer, [*PLACES, (OFFSETS_TOPIC, [1])], rules) == 0
        for place in range(3):
            append(broker, producer, place)
        await ended(broker, producer, committed, rules)
        await eventually("it is complete", lambda: state_now(broker, "t") == complete)
        fs.fault = plain  # type: ignore[method-assign]
        found.append(fs.as_killed())
    assert len(found) >= 11, "Empty, Ongoing, three batches, Prepare, four markers, Complete"

    states = []
    for disk in found:
        async with coordinator(disk) as again:
            await eventually(
                "what was prepared is complete",
                lambda: state_now(again, "t") in ("", "Empty", "Ongoing", complete),
            )
            states.append(state_now(again, "t"))
            is_over = states[-1] == complete
            for place in range(3):
                ends = markers(again, place)
                assert {each.committed for each in ends} == ({committed} if is_over else set())
                partition = partition_of(again, TOPIC, place)
                stable = partition.log.log_end_offset if is_over else 0
                assert partition.last_stable_offset == stable
            assert bool(markers(again, 1, OFFSETS_TOPIC)) is is_over
    order = ["", "Empty", "Ongoing", complete]
    assert list(dict.fromkeys(states)) == order
    assert states == sorted(states, key=order.index)


@pytest.mark.proves("transactions 18")
@pytest.mark.parametrize("seed", range(20))
async def test_transaction_is_open_or_completely_ended_after_power_loss_with_flush_settings(
    seed: int,
) -> None:
    chance = random.Random(seed)
    fs = SimulatedFiles()
    settings = {"log.flush.interval.messages": "1"}
    found: list[SimulatedFiles] = []
    async with coordinator(fs, settings) as broker:
        producer = await initialised(broker, "t")
        assert await added(broker, producer) == 0
        for place in range(3):
            append(broker, producer, place)
        await eventually(
            "records are stable",
            lambda: all(partition_of(broker, TOPIC, place).high_watermark for place in range(3)),
        )
        replies: list[Any] = []
        broker.transactions.submit("t", EndTransaction(Taker(replies.append), *producer, True, TV2))
        await eventually("a moment", lambda: chance.random() < 0.2)
        answered = bool(replies)
        fs.lose_power(chance)
        found.append(fs.as_killed())
        await eventually("the old one ends", lambda: state_now(broker, "t") == "CompleteCommit")

    async with coordinator(found[0], settings) as again:
        await eventually(
            "it is one or the other", lambda: state_now(again, "t") in ("CompleteCommit", "Ongoing")
        )
        if answered:
            assert state_now(again, "t") == "CompleteCommit", "EndTxn was answered"
        if state_now(again, "t") == "Ongoing":
            assert [markers(again, place) for place in range(3)] == [[], [], []]
