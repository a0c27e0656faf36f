"""Tests the shards of `__transaction_state`: loads, failures, epochs, and unreadable records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from threading import Barrier
from time import process_time
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.apis import list_transactions
from broker.broker import Broker
from broker.config.config import BadConfig
from broker.cores.hosted_shard import HostedShard, Phase
from broker.topics import partition as partitions_of_broker
from broker.topics.registry import TRANSACTION_TOPIC
from log.partition_log import PartitionLog
from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from tests.broker.edge import Taker
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of, partition_of, write_records
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import metadata
from tests.broker.transactions import (
    TOPIC,
    added,
    append,
    coordinating,
    ended,
    initialised,
    markers,
    served,
    state_now,
    state_partition,
    told,
)
from tests.simulated_files import SimulatedFiles
from transactions.calls import (
    TV2,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
)
from transactions.record_codec import encode_key, encode_value
from transactions.states import State
from transactions.values import TransactionValue

PARTITIONS = 3
SETTINGS = {
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "log.cleaner.enable": "false",
}
IDS = [
    next(f"t{n}" for n in range(100) if partition_for(f"t{n}", PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
"""One transactional id for each partition."""
ILL = 1
KEY = encode_key(IDS[ILL])
VALUE = encode_value(TransactionValue(7, 0, 60_000, State.EMPTY, (), 1, -1), 1)
STRANGER = next(f"x{n}" for n in range(9) if partition_for(f"x{n}", PARTITIONS) != ILL)


def coordinator(
    directory: Path | str, settings: Mapping[str, str] | None = None, **parts: Any
) -> AbstractAsyncContextManager[Broker]:
    return coordinating(directory, {**SETTINGS, **(settings or {})}, **parts)


def write(directory: Path, *pairs: tuple[bytes | None, bytes | None]) -> None:
    write_records(directory, TRANSACTION_TOPIC, ILL, *pairs)


async def filled(directory: Path) -> None:
    """Stores one transactional id in each partition of ``__transaction_state``."""
    async with coordinator(directory) as broker:
        for name in IDS:
            await initialised(broker, name)


def shard_of(broker: Broker, transactional_id: str) -> HostedShard[Any]:
    hosted = broker.transactions.hosted_for(transactional_id)
    assert hosted is not None
    return hosted


# -- unreadable records


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"", VALUE, "the key is missing, or too short to contain a version"),
        (KEY[:-1], VALUE, "but claims an id of"),
        (KEY, b"", "too short to contain a version"),
        (KEY, b"\0\2" + VALUE[2:], "the value has version 2, expected 0 or 1"),
        (KEY, VALUE[:-3], "TransactionLogValue"),
        (encode_key(STRANGER), VALUE, f"transactional id '{STRANGER}' belongs to partition"),
    ],
)
async def test_unreadable_transaction_record_makes_only_its_partition_unavailable(
    tmp_path: Path, key: bytes, value: bytes | None, why: str
) -> None:
    await filled(tmp_path)
    write(tmp_path, (KEY, VALUE), (key, value))
    async with coordinator(tmp_path) as broker:
        replies = [
            await told(broker, lambda ticket, name=name: DescribeTransaction(ticket, name))
            for name in IDS
        ]
        assert [reply.error_code for reply in replies] == [0, NOT_COORDINATOR, 0]
        health = broker.health()
        assert health["state"] == "ready"
        reason = health["unreadable"][f"{TRANSACTION_TOPIC}-{ILL}"]
        assert why in reason
        setting = "transaction.state.log.load.skip.records"
        assert f"{setting}={TRANSACTION_TOPIC}-{ILL}:2 " in reason
        length = log_of(broker, TRANSACTION_TOPIC, ILL).log_end_offset
        assert length == 3, "nothing is done to its log"

    with capture_logs() as lines:
        async with coordinator(tmp_path, {setting: f"{TRANSACTION_TOPIC}-{ILL}:2"}) as broker:
            reply = await told(broker, lambda ticket: DescribeTransaction(ticket, IDS[ILL]))
            assert (reply.error_code, reply.producer_id) == (0, 7), "record 1 is there"
            assert "unreadable" not in broker.health()
    (line,) = [line for line in lines if line["event"] == "record skipped by setting"]
    assert (line["topic"], line["partition"], line["offset"]) == (TRANSACTION_TOPIC, ILL, 2)


async def test_transaction_record_with_a_key_of_a_later_version_is_skipped_and_logged(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    write(tmp_path, (b"\0\7future", b"x"))
    with capture_logs() as lines:
        async with coordinator(tmp_path) as broker:
            assert state_now(broker, IDS[ILL]) == "Empty"
    (line,) = [
        line for line in lines if line["event"] == "records of unknown types skipped while loading"
    ]
    assert (line["topic"], line["kinds"]) == (TRANSACTION_TOPIC, {7: 1})


async def test_setting_transaction_state_log_load_skip_records_rejects_a_record_of_consumer_offsets(
    tmp_path: Path,
) -> None:
    wrong = {"transaction.state.log.load.skip.records": "__consumer_offsets-1:2"}
    with pytest.raises(BadConfig, match=r"__transaction_state-PARTITION:OFFSET"):
        async with serving(tmp_path, wrong):
            pass


# -- loads


async def test_healthz_lists_a_transaction_partition_that_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    gate = asyncio.Event()
    from broker.cores import shard_lifecycle as life

    load = life.load

    async def held(hosted: Any, *more: Any) -> None:
        if hosted.log.topic == TRANSACTION_TOPIC and hosted.index == ILL:
            await gate.wait()
        await load(hosted, *more)

    monkeypatch.setattr(life, "load", held)
    async with serving(tmp_path, SETTINGS) as broker:
        others = [shard_of(broker, name) for name in IDS if name != IDS[ILL]]
        await eventually("one waits", lambda: all(o.phase is Phase.ACTIVE for o in others))
        reply = await told(broker, lambda ticket: InitProducerId(ticket, IDS[ILL], 1000, -1, -1))
        assert reply.error_code == COORDINATOR_LOAD_IN_PROGRESS
        health = broker.health()
        assert health["state"] == "loading"
        assert health["transactions"]["partitions"] == PARTITIONS
        assert health["transactions"]["transactional_ids_loaded"] == 2
        gate.set()
        await eventually("the load", lambda: broker.health() == {"state": "ready"})
        assert state_now(broker, IDS[ILL]) == "Empty"


async def test_load_keeps_last_value_of_each_transactional_id_and_applies_tombstones(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    later = encode_value(TransactionValue(9, 4, 60_000, State.COMPLETE_ABORT, (), 2, 1), 0)
    gone = next(f"g{n}" for n in range(99) if partition_for(f"g{n}", PARTITIONS) == ILL)
    write(tmp_path, (encode_key(gone), VALUE), (KEY, later), (encode_key(gone), None))
    async with coordinator(tmp_path) as broker:
        view = broker.transactions.view_of(IDS[ILL])
        assert view.get(gone) is None
        assert (view.get(IDS[ILL]).value.producer_epoch, view.live_records()) == (4, 1)


async def test_load_of_20_000_transactional_ids_takes_less_than_10_s_of_cpu_time(
    tmp_path: Path,
) -> None:
    """The load takes 0.25 s of CPU time. The bound is higher for slow machines."""
    await filled(tmp_path)
    names = [f"m{n}" for n in range(60_000) if partition_for(f"m{n}", PARTITIONS) == ILL]
    for start in range(0, len(names), 1000):
        write(tmp_path, *((encode_key(name), VALUE) for name in names[start : start + 1000]))
    began_s = process_time()
    async with coordinator(tmp_path) as broker:
        assert broker.transactions.view_of(IDS[ILL]).known() == len(names) + 1
        assert process_time() - began_s < 10


# -- epochs


async def test_loads_of_shards_wait_for_the_disk_concurrently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    together = Barrier(PARTITIONS, timeout=60)
    begin_epoch = PartitionLog.begin_epoch

    def begin_together(log: PartitionLog, above: int = -1) -> None:
        together.wait()
        begin_epoch(log, above)

    monkeypatch.setattr(PartitionLog, "begin_epoch", begin_together)
    async with coordinator(tmp_path) as broker:
        assert {shard_of(broker, name).phase for name in IDS} == {Phase.ACTIVE}


async def test_markers_and_transaction_log_batches_have_a_higher_epoch_after_each_restart(
    tmp_path: Path,
) -> None:
    epochs = []
    for life in range(3):
        async with coordinator(tmp_path) as broker:
            producer = await initialised(broker, IDS[0])
            assert await added(broker, producer) == 0
            append(broker, producer, 0)
            await ended(broker, producer, committed=True)
            await eventually("it ends", lambda: state_now(broker, IDS[0]) == "CompleteCommit")
            epochs.append(markers(broker, 0)[-1].coordinator_epoch)
            state = partition_of(broker, TRANSACTION_TOPIC, 0)
            *_, (_, last) = state.log.scan()
            assert last.partition_leader_epoch == epochs[-1]
            answer = await asked(broker, lambda wire: metadata(wire, TRANSACTION_TOPIC))
            (told_of,) = answer["topics"]
            by_index = {each["partition_index"]: each for each in told_of["partitions"]}
            empty = state_partition(broker, IDS[1]).index
            assert by_index[0]["leader_epoch"] == life
            assert by_index[empty]["leader_epoch"] == 0
    assert epochs == [0, 1, 2]
    text = (tmp_path / f"{TRANSACTION_TOPIC}-0" / "leader-epoch-checkpoint").read_text()
    assert text.splitlines()[2:][0] == "0 0"
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["0", "1", "2"]


@pytest.mark.proves("transactions 22")
async def test_marker_of_an_earlier_coordinator_epoch_is_refused(tmp_path: Path) -> None:
    """The error is TRANSACTION_COORDINATOR_FENCED."""
    async with coordinator(tmp_path) as broker:
        producer = await initialised(broker, IDS[0])
    async with coordinator(tmp_path) as broker:
        assert await added(broker, producer) == 0
        append(broker, producer, 0)
        await ended(broker, producer, committed=True)
        await eventually("it ends", lambda: state_now(broker, IDS[0]) == "CompleteCommit")
        late = await write_markers(broker, producer.producer_id, producer.epoch + 1, 0)
        assert late == [52]


async def write_markers(
    broker: Broker, producer_id: int, epoch: int, coordinator_epoch: int, version: int = 1
) -> list[int]:
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": coordinator_epoch,
    }
    answer = await asked(
        broker, lambda wire: wire.call("WriteTxnMarkers", version, {"markers": [marker]})
    )
    return [
        partition["error_code"]
        for each in answer["markers"]
        for topic in each["topics"]
        for partition in topic["partitions"]
    ]


# -- disk failures


async def test_failed_flush_of_the_state_log_stops_the_broker_without_markers() -> None:
    fs = SimulatedFiles()
    async with coordinator("/data", {"log.flush.interval.messages": "1"}, fs=fs) as broker:
        producer = await initialised(broker, IDS[0])
        assert await added(broker, producer) == 0
        fs.fail("fsync", ".log", count=1 << 30)
        replies: list[Any] = []
        call = EndTransaction(Taker(replies.append), *producer, True, TV2)
        broker.transactions.submit(IDS[0], call)
        await eventually("it stops", broker.stopped.is_set)
        assert [reply.error_code for reply in replies] == [NOT_COORDINATOR]
        assert broker.fatal is not None
        assert f"{TRANSACTION_TOPIC}-0 can no longer be written safely" in broker.fatal
        assert not markers(broker, 0)
        fs.heal()


async def test_unwritable_transaction_shard_serves_reads_and_refuses_writes() -> None:
    fs = SimulatedFiles()
    async with coordinator("/data", fs=fs) as broker:
        producer = await initialised(broker, IDS[0])
        fs.fail("write", ".log", count=1 << 30)
        code = await told(broker, lambda t: AddPartitions(t, *producer, [(TOPIC, [0])], TV2))
        assert code == NOT_COORDINATOR
        hosted = shard_of(broker, IDS[0])
        await eventually("it is loaded", lambda: hosted.phase is Phase.UNWRITABLE)
        code = await told(broker, lambda t: AddPartitions(t, *producer, [(TOPIC, [0])], TV2))
        assert code == COORDINATOR_NOT_AVAILABLE
        assert (await told(broker, lambda t: DescribeTransaction(t, IDS[0]))).error_code == 0
        fs.heal()
        await eventually("it is well", lambda: hosted.phase is Phase.ACTIVE)
        assert hosted.partition.leader_epoch == 1, "another load, another epoch"
        assert await added(broker, producer) == 0


async def test_transaction_completes_when_its_complete_commit_record_is_written_after_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions_of_broker, "PROBE_MS_FIRST", 50)
    fs = SimulatedFiles()
    async with coordinator("/data", fs=fs) as broker:
        producer = await initialised(broker, IDS[0])
        assert await added(broker, producer) == 0
        state_log = f"{TRANSACTION_TOPIC}-0/00000000000000000000.log"
        plain = fs.fault
        writes = 0

        def ill(operation: str, path: str) -> Any:
            nonlocal writes
            if operation == "write" and path.endswith(state_log):
                writes += 1
                if writes == 2:  # The first write is Prepare, and the second write is Complete.
                    fs.fail("write", state_log, count=3)
            return plain(operation, path)

        fs.fault = ill  # type: ignore[method-assign]
        await ended(broker, producer, committed=True)
        await eventually("its end was tried in vain", lambda: writes > 2)
        await eventually("it ends", lambda: state_now(broker, IDS[0]) == "CompleteCommit")
        assert all(markers(broker, place) for place in range(3))


# -- time


@pytest.mark.proves("transactions 24")
async def test_transaction_that_timed_out_while_broker_was_down_is_aborted(
    tmp_path: Path,
) -> None:
    """The broker loads the start time of the transaction, so the time during which the broker was
    down counts."""
    time = MockTime()
    async with coordinator(tmp_path, time=time) as broker:
        producer = await initialised(broker, IDS[0], timeout_ms=30_000)
        assert await added(broker, producer) == 0
        append(broker, producer, 0)
    time.move(31_000)
    async with coordinator(tmp_path, time=time) as broker:
        assert state_now(broker, IDS[0]) == "Ongoing"
        time.move(10_000)
        broker.transactions.tick()
        await eventually("it is aborted", lambda: state_now(broker, IDS[0]) == "CompleteAbort")
        (marker,) = markers(broker, 0)
        assert (marker.committed, marker.epoch) == (False, producer.epoch + 1)


async def test_prepared_transaction_is_completed_at_the_next_start(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as broker:
        producer = await initialised(broker, IDS[0])
        assert await added(broker, producer) == 0
        append(broker, producer, 0)
        broker.markers.stop()
        await ended(broker, producer, committed=True)
        assert state_now(broker, IDS[0]) == "PrepareCommit"
        assert not markers(broker, 0)
    async with coordinator(tmp_path) as broker:
        await eventually("it ends", lambda: state_now(broker, IDS[0]) == "CompleteCommit")
        assert [each.coordinator_epoch for each in markers(broker, 0)] == [1]


async def test_list_transactions_reads_the_ids_of_a_shard_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard with 20,000 ids would need 27 ms if it were read in one slice."""
    monkeypatch.setattr(list_transactions, "IDS_AT_ONCE", 10)
    pieces: list[int] = []
    async with serving(tmp_path, {"transaction.state.log.num.partitions": "1"}) as broker:
        await served(broker)
        names = [f"id-{number}" for number in range(25)]
        for name in names:
            await initialised(broker, name)
        submit = broker.transactions.submit

        def noted(hosted: Any, call: Any) -> None:
            pieces.append(len(call.among))
            submit(hosted, call)

        monkeypatch.setattr(broker.transactions, "submit", noted)
        answer = await asked(broker, lambda wire: wire.call("ListTransactions", 2, {}))
        found = [each["transactional_id"] for each in answer["transaction_states"]]
        assert (found, pieces) == (names, [10, 10, 5])
