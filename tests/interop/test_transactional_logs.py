"""Tests that a log with transactions leads to the same responses on Muster and on Apache Kafka, and
that each broker can open the data directory of the other broker.

Kafka 4.3.1 receives Produce and WriteTxnMarkers without verification by a coordinator. Of Muster,
only the log is tested. The tests compare the last stable offset and the aborted transactions of
each read, and the response to DescribeProducers. Some directories have open transactions.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from log.checkpoint import RECOVERY_POINT, read_offsets, write_offsets
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from log.values import Marker
from protocol.errors import NONE
from protocol.records.stored import iter_stored
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.brokers import KIND, KafkaBroker
from tests.interop.test_dump_log_segments import dump
from tests.log.log_tools import batch
from tests.log.test_log_markers import BATCHES, MARKERS, End, Send
from tests.waiting import until
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
FS = OsFileSystem()
NOW_MS = int(time.time() * 1000)
"""The current time in ms. When Kafka loads a log, it drops producers with old timestamps."""
READ_COMMITTED = 1


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Yields Apache Kafka 4.3.1, which accepts markers from any client, and verifies no transaction
    at its coordinator."""
    settings = {"transaction.partition.verification.enable": "false"}
    broker = KafkaBroker(tmp_path_factory.mktemp("transactional") / "kafka", settings)
    broker.start()
    yield broker
    broker.kill()


def created(wire: Wire, topic: str, **configs: str) -> None:
    assert create_topic(wire, topic, configs=configs)["error_code"] == NONE
    until("it is served", lambda: list_offset(wire, topic, -1)["error_code"] == NONE)


def write_marker(wire: Wire, topic: str, marker: Marker) -> int:
    sent = {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": marker.committed,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": 2 if marker.rules == 2 else 0,
    }
    answer = wire.call("WriteTxnMarkers", 2, {"markers": [sent]})
    error: int = answer["markers"][0]["topics"][0]["partitions"][0]["error_code"]
    return error


def ask(wire: Wire, topic: str, producer_id: int, what: Send | End, begin: int) -> int | str:
    """Sends one step of a table row: a batch or a marker. The records of this row begin at the
    offset ``begin``. Returns the response in the notation of the table."""
    end_offset: int = list_offset(wire, topic, -1)["offset"]
    if isinstance(what, End):
        marker = Marker(producer_id, what.epoch, what.coordinator_epoch, what.committed, what.rules)
        return write_marker(wire, topic, marker) or "+"
    [count] = what.sizes
    data = batch(
        0,
        *[b"v"] * count,
        producer=(producer_id, what.epoch, what.sequence),
        transactional=what.transactional,
    )
    owner = "t" if what.transactional else None
    answer = produce(wire, topic, data, version=9, transactional_id=owner)
    error, offset = answer["error_code"], answer["base_offset"]
    return error or ("+" if offset == end_offset else offset - begin)


def simple(row: tuple[Sequence[Send | End], Send | End, int | str]) -> bool:
    """Returns True if Kafka can run the history in ``row``: each request has only one batch, and a
    coordinator has assigned each epoch."""
    history, last, _ = row
    sends = [step for step in [*history, last] if isinstance(step, Send)]
    return all(len(step.sizes) == 1 and not step.from_zero for step in sends)


@pytest.mark.proves("transactions 35")
def test_each_error_in_musters_producer_state_tables_equals_kafkas_response(
    kafka: KafkaBroker,
) -> None:
    differences = []
    with Wire(kafka.port) as wire:
        created(wire, "tables")
        rows: list[tuple[Sequence[Send | End], Send | End, int | str]] = [*BATCHES, *MARKERS]
        for number, (history, last, answer) in enumerate(filter(simple, rows)):
            producer_id = 1000 + number
            begin: int = list_offset(wire, "tables", -1)["offset"]
            for step in history:
                assert ask(wire, "tables", producer_id, step, begin) == "+", (history, step)
            found = ask(wire, "tables", producer_id, last, begin)
            if found != answer:
                differences.append((history, last, answer, found))
    assert differences == []


# -- directories of the other broker


Told = tuple[list[Any], list[Any], list[Any]]
TIMES = (0, NOW_MS, NOW_MS + 1, NOW_MS + 5_000, NOW_MS + 3_600_000)
"""The timestamps of records and markers in ms. The markers that Kafka writes have later timestamps
than the records."""


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
def test_transaction_markers_have_the_timestamp_type_of_their_topic(
    kafka: KafkaBroker, tmp_path: Path, timestamps: str
) -> None:
    """If the topic uses log append time, a marker has the bit for log append time in its
    attributes, like every other batch."""
    marker = Marker(7, 0, 3, committed=False)
    config = LogConfig(message_timestamp_type=timestamps)
    log = PartitionLog.open(FS, str(tmp_path), "ours", 0, config)
    data = batch(0, b"v", producer=(7, 0, 0), transactional=True)
    log.append(bytes(data), 0, NOW_MS)
    log.append_marker(marker, 0, NOW_MS)
    with Wire(kafka.port) as wire:
        created(wire, timestamps, **{"message.timestamp.type": timestamps})
        assert produce(wire, timestamps, data, transactional_id="t")["error_code"] == NONE
        assert write_marker(wire, timestamps, marker) == NONE
        kafkas = fetch(wire, timestamps, 1)["records"]
    [_, ours] = [header.attributes for _, header in log.scan()]
    assert ours == (0x38 if timestamps == "LogAppendTime" else 0x30)
    assert [header.attributes for header, _ in iter_stored(kafkas)] == [ours]


def told_by(wire: Wire, topic: str) -> Told:
    """Returns results of requests to the broker at ``wire``. They must be equal for Muster and
    Kafka: the aborted transactions of many reads, the producers, and offsets by timestamp."""
    end: int = list_offset(wire, topic, -1)["offset"]
    reads: list[Any] = []
    for offset in range(0, end, 3):
        for size in (1, 400, 1 << 20):
            found = fetch(
                wire, topic, offset, isolation_level=READ_COMMITTED, partition_max_bytes=size
            )
            aborted = found["aborted_transactions"] or []
            starts = [(each["producer_id"], each["first_offset"]) for each in aborted]
            reads.append((offset, size, found["last_stable_offset"], sorted(starts)))
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = wire.call("DescribeProducers", 0, {"topics": topics})
    [partition] = answer["topics"][0]["partitions"]
    producers = sorted([tuple(each.values()) for each in partition["active_producers"]])
    by_time = []
    for level in (0, READ_COMMITTED):
        for timestamp in (*TIMES, -3):
            found = list_offset(wire, topic, timestamp, isolation_level=level)
            by_time.append((level, timestamp, found["timestamp"], found["offset"]))
    return reads, producers, by_time


def known_to(log: PartitionLog) -> Told:
    """Returns what Muster's code reads from a log: the same facts that `told_by` reads from the
    responses of a broker."""
    reads: list[Any] = []
    stable = log.first_unstable_offset
    for offset in range(0, log.log_end_offset, 3):
        for size in (1, 400, 1 << 20):
            starts: list[tuple[int, int]] = []
            if offset < stable:
                info = log.read(offset, size, max_offset=stable)
                starts = log.aborted_in(info, offset, stable)
            reads.append((offset, size, stable, sorted(starts)))
    producers = [
        (
            producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.coordinator_epoch,
            log.producers.open_transactions.get(producer_id, -1),
        )
        for producer_id in log.producers.ids()
        if (producer := log.producers.get(producer_id)) is not None
    ]
    by_time = []
    for level, limit in ((0, log.log_end_offset), (READ_COMMITTED, stable)):
        for timestamp in (*TIMES, -3):
            at = (
                log.offset_of_max_timestamp()
                if timestamp == -3
                else log.offset_for_timestamp(timestamp)
            )
            is_seen = at is not None and at.offset < limit
            by_time.append((level, timestamp, *(at[:2] if at and is_seen else (-1, -1))))
    return reads, sorted(producers), by_time


def assert_alike(ours: Told, kafkas: Told) -> None:
    """Compares the values of Muster and Kafka. Kafka may list more aborted transactions, because it
    searches to the next index entry."""
    assert ours[1:] == kafkas[1:]
    assert [read[:3] for read in ours[0]] == [read[:3] for read in kafkas[0]]
    for mine, theirs in zip(ours[0], kafkas[0], strict=True):
        assert set(mine[3]) <= set(theirs[3]), (mine, theirs)
    assert any(read[3] for read in ours[0])


class Writer:
    """Writes transactions of three producers. Some are committed, some are aborted, and one stays
    open."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sequences: dict[int, int] = {}
        self.opened: set[int] = set()

    def steps(self, count: int) -> Iterator[bytes | Marker]:
        for _ in range(count):
            if self.opened and self.chance.random() < 0.3:
                yield self._end(self.chance.choice(sorted(self.opened)))
            else:
                yield self._batch(self.chance.choice([51, 52, 53]))
        for producer_id in sorted(self.opened - {53}):
            yield self._end(producer_id)
        yield self._batch(53)

    def _end(self, producer_id: int) -> Marker:
        self.opened.discard(producer_id)
        return Marker(producer_id, 4, 2, self.chance.random() < 0.5)

    def _batch(self, producer_id: int) -> bytes:
        sequence = self.sequences.get(producer_id, 0)
        values = [b"value %d" % self.chance.randrange(9)] * self.chance.randint(1, 4)
        self.sequences[producer_id] = sequence + len(values)
        self.opened.add(producer_id)
        return batch(
            0,
            *values,
            timestamp_ms=NOW_MS,
            producer=(producer_id, 4, sequence),
            transactional=True,
        )


def fill_kafka(wire: Wire, topic: str) -> None:
    created(wire, topic, **{"segment.bytes": str(1 << 20), "index.interval.bytes": "200"})
    for step in Writer(1).steps(80):
        if isinstance(step, Marker):
            assert write_marker(wire, topic, step) == NONE
        else:
            assert produce(wire, topic, step, transactional_id="t")["error_code"] == NONE


def fill_ours(folder: Path, topic: str) -> PartitionLog:
    config = LogConfig(segment_bytes=3000, index_interval_bytes=200)
    log = PartitionLog.open(FS, str(folder), topic, 0, config)
    for step in Writer(2).steps(80):
        if isinstance(step, Marker):
            log.append_marker(step, 0, NOW_MS)
        else:
            log.append(step, 0, NOW_MS)
    assert len(log.segments) > 2
    assert log.first_unstable_offset < log.log_end_offset
    return log


def our_view(folder: Path, clean: bool) -> Told:
    config = LogConfig(index_interval_bytes=200)
    return known_to(PartitionLog.open(FS, str(folder), "kafkas", 0, config, clean=clean))


def test_muster_and_kafka_read_each_others_logs_with_open_transactions(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    with Wire(kafka.port) as wire:
        fill_kafka(wire, "kafkas")
        created(wire, "ours")
        kafkas = told_by(wire, "kafkas")
    kafka.stop()
    for clean in (True, False):
        copy = tmp_path / f"copy-{clean}"
        shutil.copytree(kafka.partition_folder("kafkas", 0), copy)
        assert_alike(our_view(copy, clean), kafkas)
        for suffix in (".txnindex", ".snapshot"):
            for file in copy.glob("*" + suffix):
                file.unlink()
        assert_alike(our_view(copy, clean=False), kafkas)

    folder = kafka.partition_folder("ours", 0)
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    log = fill_ours(folder, "ours")
    ours = known_to(log)
    end = log.log_end_offset
    log.close()
    dumped = dump(kafka.version, sorted(folder.glob("*.txnindex")))
    for producer_id, first_offset in {each for read in ours[0] for each in read[3]}:
        assert f"producerId: {producer_id} firstOffset: {first_offset} " in dumped
    snapshots = dump(kafka.version, sorted(folder.glob("*.snapshot"))[-1:])
    assert "producerId: 53 producerEpoch: 4 coordinatorEpoch: 2" in snapshots
    points = str(kafka.data / RECOVERY_POINT)
    write_offsets(FS, points, {**read_offsets(FS, points), ("ours", 0): end})

    kafka.start()  # as after a clean shutdown: Kafka uses Muster's files unchanged
    with Wire(kafka.port) as wire:
        until("it is served", lambda: list_offset(wire, "ours", -1)["offset"] == end)
        assert_alike(ours, told_by(wire, "ours"))
    kafka.kill()
    kafka.start()  # Kafka rebuilds the files
    with Wire(kafka.port) as wire:
        until("it is served", lambda: list_offset(wire, "ours", -1)["offset"] == end)
        assert_alike(ours, told_by(wire, "ours"))
        assert write_marker(wire, "ours", Marker(53, 4, 1, True)) != NONE, "the coordinator is old"
        assert write_marker(wire, "ours", Marker(53, 4, 2, False)) == NONE
        found = fetch(wire, "ours", end - 1, isolation_level=READ_COMMITTED)
        assert found["last_stable_offset"] == end + 1
        data = found["records"]
        assert [header.is_control for header, _ in iter_stored(data)][-1]
