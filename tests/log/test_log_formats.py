"""Tests of the files of a log. Their bytes equal examples that are written by hand."""

from __future__ import annotations

import pytest

from log.checkpoint import (
    clear_clean_shutdown,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
)
from log.errors import CorruptLog
from log.indexes.index_file import OffsetIndex, TimeIndex
from log.leader_epochs import SECTOR_BYTES, LeaderEpochs
from log.segment import file_name
from tests.log.log_tools import DIRECTORY, batch, open_log
from tests.simulated_files import SimulatedFiles

INDEX = "/i/00000000000000001000.index"
TIME_INDEX = "/i/00000000000000001000.timeindex"
CHECKPOINT = "/i/recovery-point-offset-checkpoint"
EPOCHS = "/i/leader-epoch-checkpoint"


@pytest.fixture
def fs() -> SimulatedFiles:
    fs = SimulatedFiles()
    fs.make_directory("/i")
    return fs


def test_segment_names_have_twenty_digits() -> None:
    assert file_name(0, ".log") == "00000000000000000000.log"
    assert file_name(2**63 - 1, ".index") == "09223372036854775807.index"


def test_offset_index_has_relative_offsets_and_positions(fs: SimulatedFiles) -> None:
    index = OffsetIndex(fs, INDEX, 1000, 1024)
    index.append(1005, 4096)
    index.append(1000 + 2**31 - 1, 2**31 - 1)
    index.store()

    assert fs.written(INDEX) == bytes.fromhex("00000005 00001000  7fffffff 7fffffff")


def test_time_index_has_timestamps_and_relative_offsets(fs: SimulatedFiles) -> None:
    index = TimeIndex(fs, TIME_INDEX, 1000, 1024)
    index.append(1, 1000)
    index.append(1, 1001)  # not added, because the timestamp is not larger
    index.append(-1, 1002)
    index.append(0x18BCFE56800, 1003)
    index.store()

    assert fs.written(TIME_INDEX) == bytes.fromhex(
        "0000000000000001 00000000  0000018bcfe56800 00000003"
    )


@pytest.mark.parametrize("padding", [0, 1, 7, 8, 16, 1 << 16])
@pytest.mark.parametrize("in_memory", [True, False])
def test_offset_index_with_or_without_zero_padding_is_loaded(
    fs: SimulatedFiles, padding: int, in_memory: bool
) -> None:
    fs.put(INDEX, bytes.fromhex("00000005 00001000  00000009 00002000") + bytes(padding))
    index = OffsetIndex(fs, INDEX, 1000, 1 << 20)
    index.load()
    if not in_memory:
        index.release()

    assert index.count == 2
    lookups = {1000: 0, 1004: 0, 1005: 4096, 1008: 4096, 1009: 8192, 2**40: 8192}
    assert {offset: index.lookup(offset) for offset in lookups} == lookups
    index.append(1010, 9000)
    index.store()
    assert fs.written(INDEX).hex(" ", 4) == "00000005 00001000 00000009 00002000 0000000a 00002328"


@pytest.mark.parametrize("padding", [0, 12, 1200])
def test_time_index_with_or_without_zero_padding_is_loaded(
    fs: SimulatedFiles, padding: int
) -> None:
    # The last relative offset, 256, ends with a zero byte.
    entries = "0000000000000064 00000005  00000000000000c8 00000100"
    fs.put(TIME_INDEX, bytes.fromhex(entries) + bytes(padding))
    index = TimeIndex(fs, TIME_INDEX, 1000, 1 << 20)
    index.load()

    assert index.last() == (200, 1256)
    lookups = {0: 1000, 99: 1000, 100: 1005, 199: 1005, 200: 1256, 2**60: 1256}
    assert {time: index.lookup(time) for time in lookups} == lookups


def test_lookup_in_an_empty_offset_index_returns_the_segment_start(fs: SimulatedFiles) -> None:
    assert OffsetIndex(fs, INDEX, 1000, 1024).lookup(1005) == 0
    index = TimeIndex(fs, TIME_INDEX, 1000, 1024)
    assert (index.lookup(7), index.last()) == (1000, (-1, 1000))


def test_index_has_an_entry_for_the_first_batch_after_each_index_interval() -> None:
    log = open_log(SimulatedFiles(), index_interval_bytes=100)
    log.append_encoded(b"".join(batch(offset, timestamp_ms=offset) for offset in range(8)), 0, 7, 7)

    index = log.active.index
    # A batch has 69 bytes, so every second batch begins more than 100 bytes after the last entry.
    assert [index.entry(number) for number in range(index.count)] == [
        (2, 138),
        (4, 276),
        (6, 414),
    ]
    times = log.active.time_index
    assert [times.entry(number) for number in range(times.count)] == [(2, 2), (4, 4), (6, 6)]


def test_offset_checkpoint_has_kafkas_text_format(fs: SimulatedFiles) -> None:
    offsets = {("t", 0): 5, ("__consumer_offsets", 49): 2**62}
    write_offsets(fs, CHECKPOINT, offsets)

    assert fs.written(CHECKPOINT) == b"0\n2\nt 0 5\n__consumer_offsets 49 4611686018427387904\n"
    assert read_offsets(fs, CHECKPOINT) == offsets
    assert fs.list("/i") == ["recovery-point-offset-checkpoint"]


@pytest.mark.parametrize("data", [None, b"", b"0\n0\n"])
def test_missing_or_empty_checkpoint_has_no_offsets(fs: SimulatedFiles, data: bytes | None) -> None:
    if data is not None:
        fs.put(CHECKPOINT, data)
    assert read_offsets(fs, CHECKPOINT) == {}


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"1\n0\n", 0),
        (b"x\n0\n", 0),
        (b"0\n", 2),
        (b"0\n2\nt 0 5\n", 10),
        (b"0\n1\nt 0\n", 4),
        (b"0\n2\nt 0 5\nt 1 five\n", 10),
        (b"0\n1\nt 0 5\nt 1 6\n", 16),
        (bytes(20), 0),
    ],
)
def test_damaged_checkpoint_is_reported_with_its_position(
    fs: SimulatedFiles, data: bytes, position: int
) -> None:
    fs.put(CHECKPOINT, data)
    with pytest.raises(CorruptLog) as caught:
        read_offsets(fs, CHECKPOINT)
    assert (caught.value.file, caught.value.position) == (CHECKPOINT, position)


def test_clean_shutdown_marker_is_written_read_and_cleared(fs: SimulatedFiles) -> None:
    assert not read_clean_shutdown(fs, "/i")
    write_clean_shutdown(fs, "/i")
    assert fs.written("/i/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert read_clean_shutdown(fs, "/i")
    clear_clean_shutdown(fs, "/i")
    assert not read_clean_shutdown(fs, "/i")
    clear_clean_shutdown(fs, "/i")


def test_leader_epochs_of_a_new_log_begin_with_epoch_0_at_the_log_start() -> None:
    fs = SimulatedFiles()
    open_log(fs, log_start_offset=7)
    assert fs.written(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 7\n"


def begun_epochs(fs: SimulatedFiles) -> LeaderEpochs:
    fs.put(EPOCHS, b"0\n2\n0 0\n3 7\n")
    epochs = LeaderEpochs(fs, "/i")
    assert epochs.load()
    return epochs


@pytest.mark.parametrize(
    ("begins_at", "written"),
    [(9, b"0\n3\n0 0\n3 7\n4 9\n"), (7, b"0\n2\n0 0\n4 7\n")],
)
def test_new_leader_epoch_is_written_into_the_existing_epoch_file(
    fs: SimulatedFiles, begins_at: int, written: bytes
) -> None:
    epochs = begun_epochs(fs)
    there = fs.names[EPOCHS]

    epochs.assign(4, begins_at)

    assert fs.written(EPOCHS) == written
    assert fs.names[EPOCHS] is there


def test_leader_epoch_file_is_replaced_when_it_exceeds_512_bytes_or_shrinks(
    fs: SimulatedFiles,
) -> None:
    epochs = begun_epochs(fs)
    for epoch in range(4, 100):
        there, size = fs.names[EPOCHS], len(fs.written(EPOCHS))
        epochs.assign(epoch, 1000 + epoch)
        is_one_sector = len(fs.written(EPOCHS)) <= SECTOR_BYTES
        assert (fs.names[EPOCHS] is there) == is_one_sector
    assert size > SECTOR_BYTES

    epochs.assign(100, 5)
    assert fs.written(EPOCHS) == b"0\n2\n0 0\n100 5\n"
    assert LeaderEpochs(fs, "/i").load()


def test_leader_epoch_file_in_another_format_is_replaced(fs: SimulatedFiles) -> None:
    fs.put(EPOCHS, b"0\n1\n00 0\n")
    epochs = LeaderEpochs(fs, "/i")
    assert epochs.load()
    epochs.assign(4, 9)
    assert fs.written(EPOCHS) == b"0\n2\n0 0\n4 9\n"


@pytest.mark.parametrize("partial_bytes", range(16))
def test_failed_write_of_a_leader_epoch_keeps_the_old_file(
    fs: SimulatedFiles, partial_bytes: int
) -> None:
    epochs = begun_epochs(fs)
    before = fs.written(EPOCHS)
    fs.fail("write", "checkpoint", partial_bytes=partial_bytes)

    with pytest.raises(OSError, match="Input/output error"):
        epochs.assign(4, 9)

    assert fs.written(EPOCHS) == before
    assert epochs.entries == [(0, 0), (3, 7)]
    epochs.assign(4, 9)
    assert LeaderEpochs(fs, "/i").load()
    assert fs.written(EPOCHS).endswith(b"\n4 9\n")


@pytest.mark.parametrize(("epoch", "begins_at"), [(4, 9), (12, 7), (4, 7)])
def test_power_loss_during_an_epoch_write_leaves_the_old_or_new_epochs(
    fs: SimulatedFiles, epoch: int, begins_at: int
) -> None:
    epochs = begun_epochs(fs)
    old, before = fs.written(EPOCHS), list(epochs.entries)
    epochs.assign(epoch, begins_at)
    new, after = fs.written(EPOCHS), list(epochs.entries)
    for left in (old, new, new[: len(old)], old + bytes(len(new) - len(old))):
        fs.put(EPOCHS, left)
        epochs = LeaderEpochs(fs, "/i")
        assert not epochs.load() or epochs.entries in (before, after)


@pytest.mark.parametrize(
    "data", [b"", bytes(8), b"0\n1\n0 ", b"0\n2\n0 0\n", b"1\n0\n", b"0\n1\n0 1"]
)
def test_damaged_leader_epochs_are_not_loaded(fs: SimulatedFiles, data: bytes) -> None:
    fs.put("/i/leader-epoch-checkpoint", data)
    epochs = LeaderEpochs(fs, "/i")
    assert not epochs.load()
    assert epochs.entries == []
