"""After an unclean stop: a torn tail is cut and told, damage of what was safe is refused."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.files.filesystem import File
from protocol.records.batch import read_header
from tests.log.log_tools import DIRECTORY, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

FIRST = f"{DIRECTORY}/00000000000000000000.log"
SECOND = f"{DIRECTORY}/00000000000000000003.log"
SMALL = {"segment_bytes": 220, "index_interval_bytes": 0}  # three batches of 69 bytes a segment


def three_batches() -> bytes:
    return b"".join(batch(offset, b"%d" % offset) for offset in range(3))


def two_segments() -> SimulatedFiles:
    """Offsets 0 to 2 in the first segment, 3 to 4 in the second, killed without a close."""
    fs = SimulatedFiles()
    append_values(open_log(fs, **SMALL), *(b"%d" % offset for offset in range(5)))
    assert len(fs.written(FIRST)) == 207
    assert len(fs.written(SECOND)) == 138
    return fs


def test_a_log_without_damage_is_checked_whole_and_reports_nothing() -> None:
    fs = two_segments()
    log = open_log(fs, **SMALL)

    assert log.recovery.cuts == []
    assert log.recovery.checked_bytes == 345
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert values(log) == [(offset, b"%d" % offset) for offset in range(5)]


@pytest.mark.parametrize("end", range(207))
def test_a_tail_torn_at_any_byte_is_cut_to_whole_batches(end: int) -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:end])

    log = open_log(fs)

    whole = end // 69
    assert values(log) == [(offset, b"%d" % offset) for offset in range(whole)]
    assert log.log_end_offset == whole
    if end % 69:
        [cut] = log.recovery.cuts
        assert (cut.file, cut.position, cut.bytes_cut) == (FIRST, whole * 69, end % 69)
        assert cut.reason
        assert cut.kept_as is None
    else:
        assert log.recovery.cuts == []
    assert len(fs.written(FIRST)) == whole * 69
    append_values(log, b"next")
    assert values(log)[-1] == (whole, b"next")


@pytest.mark.parametrize("position", range(207))
def test_a_bit_flipped_anywhere_never_yields_a_record_that_was_not_written(position: int) -> None:
    data = bytearray(three_batches())
    data[position] ^= 0x01
    fs = SimulatedFiles()
    fs.put(FIRST, bytes(data))

    log = open_log(fs)

    written = [(offset, b"%d" % offset) for offset in range(3)]
    found = values(log)
    in_batch, field = divmod(position, 69)
    if 12 <= field < 16:  # the leader epoch is outside of the checksum
        assert found == written
    elif field < 8:  # so is the base offset; that it ascends is checked, gaps are the cleaner's
        assert found[:in_batch] == written[:in_batch]
        assert [value for _, value in found] == [value for _, value in written[: len(found)]]
        assert len(found) == 3 or log.recovery.cuts
    else:
        assert found == written[:in_batch]
        assert log.recovery.cuts[0].position == in_batch * 69


@pytest.mark.parametrize("count", [1, 12, 60, 61, 4096, 3_000_000])
def test_zeros_behind_the_last_batch_are_a_torn_tail(count: int) -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches() + bytes(count))

    log = open_log(fs)

    assert log.log_end_offset == 3
    assert log.recovery.bytes_cut == count


def test_a_cut_takes_the_segments_behind_it_along() -> None:
    fs = two_segments()
    fs.names[FIRST].data[170] ^= 0xFF

    log = open_log(fs, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1")]
    assert [(cut.file, cut.position, cut.bytes_cut) for cut in log.recovery.cuts] == [
        (FIRST, 138, 69),
        (SECOND, 0, 138),
    ]
    assert not fs.exists(SECOND)


@pytest.mark.parametrize("position", [69 + 20, 69 + 10, 69 + 16, 69 + 65])
def test_whole_batches_behind_damage_are_cut_but_kept_beside(position: int) -> None:
    fs = SimulatedFiles()
    data = bytearray(three_batches())
    data[position] ^= 0x10
    fs.put(FIRST, bytes(data))

    log = open_log(fs)

    assert values(log) == [(0, b"0")]
    [cut] = log.recovery.cuts
    assert cut.kept_as == FIRST + ".cut"
    assert fs.written(cut.kept_as) == data[69:]
    append_values(log, b"1")
    log.close()
    assert values(open_log(fs, clean=True)) == [(0, b"0"), (1, b"1")]
    assert fs.written(cut.kept_as) == data[69:]


def test_later_segments_are_kept_beside_too() -> None:
    fs = two_segments()
    second = fs.written(SECOND)
    fs.names[FIRST].data[170] ^= 0xFF

    cuts = open_log(fs, **SMALL).recovery.cuts

    assert [cut.kept_as for cut in cuts] == [None, SECOND + ".cut"]
    assert fs.written(SECOND + ".cut") == second


@pytest.mark.parametrize("recovery_point", [3, 4, 5])
def test_damage_below_the_recovery_point_is_refused_with_file_and_position(
    recovery_point: int,
) -> None:
    fs = two_segments()
    fs.names[FIRST if recovery_point == 3 else SECOND].data[40] ^= 0xFF
    before = {path: fs.written(path) for path in (FIRST, SECOND)}

    with pytest.raises(CorruptLog) as caught:
        open_log(fs, recovery_point=recovery_point, **SMALL)

    assert caught.value.file == (FIRST if recovery_point == 3 else SECOND)
    assert caught.value.position == 0
    assert str(recovery_point) in str(caught.value)
    assert {path: fs.written(path) for path in (FIRST, SECOND)} == before


def test_a_log_that_ends_below_its_recovery_point_is_refused() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:138])

    with pytest.raises(CorruptLog, match="recovery point 3"):
        open_log(fs, recovery_point=3)
    with pytest.raises(CorruptLog, match="recovery point 3"):
        open_log(fs, recovery_point=3, clean=True)


def test_segments_below_the_recovery_point_are_not_read_again() -> None:
    fs = two_segments()
    log = open_log(fs, **SMALL)
    assert log.flush() == 5

    again = open_log(fs, recovery_point=log.recovery_point, **SMALL)

    assert again.recovery.checked_bytes == 138
    assert values(again) == [(offset, b"%d" % offset) for offset in range(5)]


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_headers_that_recovery_has_read_are_read_again_for_producers_alone(
    producer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers have their order and their snapshots; most logs have none."""
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(0, b"a", producer=(producer_id, 0, 0)), 0, 1)
    reads = []

    def spy(file: File, position: int, end: int) -> Iterator[Header]:
        reads.append(file.path)
        return headers(file, position, end)

    monkeypatch.setattr("log.fold.headers", spy)
    again = open_log(files)
    assert len(reads) == len(again.producers) == (producer_id >= 0)
    again.append(batch(0, b"b", producer=(8, 0, 0)), 0, 2)
    assert again.producers.highest_id == 8
    again.append(batch(0, b"c"), 0, 3)
    assert again.truncate_to(2, 4) == 2
    assert again.producers.highest_id == 8, "what recovery knew is not used for what came later"


def test_after_a_clean_stop_nothing_is_checked() -> None:
    fs = two_segments()
    open_log(fs, **SMALL).close()

    log = open_log(fs, clean=True, recovery_point=5, **SMALL)

    assert log.recovery.checked_bytes == 0
    assert log.log_end_offset == 5
    assert values(log, 4) == [(4, b"4")]


def test_a_clean_stop_with_half_a_batch_at_the_end_is_refused() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:200])

    with pytest.raises(CorruptLog) as caught:
        open_log(fs, clean=True)
    assert caught.value.position == 138


def test_scanning_tells_a_damaged_batch_even_after_a_clean_stop() -> None:
    fs = SimulatedFiles()
    data = bytearray(three_batches())
    data[69 + 65] ^= 0x01
    fs.put(FIRST, bytes(data))
    log = open_log(fs, clean=True)

    with pytest.raises(CorruptLog) as caught:
        values(log)
    assert (caught.value.file, caught.value.position) == (FIRST, 69)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "foreign", "half an entry"])
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_are_made_again_when_missing_or_wrong(
    suffix: str, damage: str, clean: bool
) -> None:
    fs = two_segments()
    open_log(fs, **SMALL).close()
    path = FIRST.removesuffix(".log") + suffix
    good = fs.written(path)
    data = fs.names[path].data
    if damage == "missing":
        fs.lose(path)
    elif damage == "half an entry":
        data += b"\x00\x00\x01"
    else:
        data[:] = {"empty": b"", "zeros": bytes(10_000), "foreign": b"\xff" * len(good)}[damage]

    log = open_log(fs, clean=clean, recovery_point=5, **SMALL)

    for offset in range(5):
        data = log.read(offset, 69).data
        assert read_header(data).base_offset == offset
    if damage in ("missing", "foreign"):
        assert fs.written(path) == good
        [sentence] = log.recovery.rebuilt
        assert path in sentence


@pytest.mark.parametrize("recovery_point", [0, 2])
def test_a_segment_behind_a_hole_that_power_loss_left_is_cut(recovery_point: int) -> None:
    fs = two_segments()
    del fs.names[FIRST].data[138:]

    log = open_log(fs, recovery_point=recovery_point, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1")]
    [cut] = log.recovery.cuts
    assert (cut.file, cut.bytes_cut, cut.kept_as) == (SECOND, 138, SECOND + ".cut")
    append_values(log, b"new")
    assert values(log)[-1] == (2, b"new")


def test_in_a_compacted_topic_a_hole_is_a_cleaners() -> None:
    fs = two_segments()
    del fs.names[FIRST].data[138:]

    log = open_log(fs, cleanup_policy="compact", **SMALL)

    assert [offset for offset, _ in values(log)] == [0, 1, 3, 4]
    assert log.recovery.cuts == []


def test_a_hole_that_a_cleaner_left_is_none() -> None:
    fs = two_segments()
    fs.names[FIRST].data[:] = batch(1, b"1")  # offsets 0 and 2 were cleaned away

    log = open_log(fs, **SMALL)

    assert values(log) == [(1, b"1"), (3, b"3"), (4, b"4")]
    assert log.recovery.cuts == []


def test_leftovers_of_deletions_and_cleanings_are_settled() -> None:
    fs = two_segments()
    base = os.path.splitext(SECOND)[0]
    cleaned = batch(3, b"3") + batch(4, b"4")
    fs.put(f"{DIRECTORY}/00000000000000000000.log.deleted", b"old")
    fs.put(f"{DIRECTORY}/00000000000000000009.index", b"orphan")
    fs.put(f"{DIRECTORY}/00000000000000000003.log.swap", cleaned[69:])

    log = open_log(fs, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1"), (2, b"2"), (4, b"4")]
    assert set(log.recovery.removed) == {
        f"{DIRECTORY}/00000000000000000009.index",
        *(f"{base}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")),
    }
    log.apply_retention(0)
    assert not fs.exists(f"{DIRECTORY}/00000000000000000000.log.deleted")


def test_a_cleaning_that_had_not_ended_is_dropped() -> None:
    fs = two_segments()
    fs.put(f"{DIRECTORY}/00000000000000000000.log.cleaned", b"half")
    fs.put(f"{DIRECTORY}/00000000000000000003.log.swap", b"half")

    log = open_log(fs, **SMALL)

    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3, 4]
    assert [name for name in fs.list(DIRECTORY) if not name.endswith((".log", "index"))] == [
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_log_below_its_start_offset_begins_anew_there() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches())

    log = open_log(fs, log_start_offset=10)

    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.recovery.bytes_cut == 207
    assert fs.list(DIRECTORY)[:2] == ["00000000000000000000.log.cut", "00000000000000000010.log"]


@pytest.mark.parametrize("seed", range(20))
def test_no_loss_of_power_brings_an_epoch_back_that_was_begun(seed: int) -> None:
    """Markers in other partitions have it, and these refuse a lower one."""
    chance = random.Random(seed)
    fs = SimulatedFiles()
    begun = []
    for life in range(5):
        log = open_log(fs)
        append_values(log, b"%d" % life)
        log.begin_epoch()
        begun.append(log.epochs.latest)
        fs.lose_power(chance)
    assert begun == sorted(set(begun))
