"""Tests of the limit on open file descriptors: any number of logs can be read and written under the
limit."""

from __future__ import annotations

import errno
import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from tests.log.cleaning_tools import SETTINGS, RandomLog, all_records, clean_log
from tests.log.log_tools import NOW_MS, append_values, batch, values

ROOT = Path(__file__).parents[2]


def open_under(path: Path) -> int:
    """Returns the number of descriptors that this process has for files below ``path``."""
    gc.collect()
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
        except FileNotFoundError:  # the descriptor that lists the folder is closed now
            continue
    return count


def logs_in(path: Path, fs: OsFileSystem, count: int, config: LogConfig) -> list[PartitionLog]:
    return [PartitionLog.open(fs, str(path / f"t-{n}"), "t", n, config) for n in range(count)]


SMALL = LogConfig(segment_bytes=220, index_interval_bytes=0, file_delete_delay_ms=0)


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors as Linux shows them")
def test_many_logs_share_few_file_descriptors(tmp_path: Path) -> None:
    fs = OsFileSystem(open_files_max=20)
    logs = logs_in(tmp_path, fs, 60, SMALL)
    for value in (b"0", b"1", b"2", b"3", b"4"):
        for log in logs:
            append_values(log, value)
        assert open_under(tmp_path) <= 20

    expected = [(offset, b"%d" % offset) for offset in range(5)]
    for log in logs:
        assert values(log) == expected
        assert log.offset_for_timestamp(NOW_MS) is not None
    assert open_under(tmp_path) <= 20
    for log in logs[:5]:
        log.flush()
        log.close()
    assert open_under(tmp_path) <= 20
    assert fs.files.count() <= 20


def test_process_with_few_descriptors_serves_many_logs(tmp_path: Path) -> None:
    """The process may open 64 files and has already opened 30 others. The test opens the logs
    twice: with the limit that `open_files_max` computes, and with a limit far above 64."""
    script = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from log.config import LogConfig
from log.files.filesystem import OsFileSystem, open_files_max
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record

others = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
one = encode_batch([Record(0, 1, None, b"v")])
for limit in (open_files_max(), 10_000):
    fs = OsFileSystem(limit)
    logs = [
        PartitionLog.open(fs, f"{sys.argv[1]}/{limit}-{n}", "t", n, LogConfig(segment_bytes=140))
        for n in range(80)
    ]
    for _ in range(5):
        for log in logs:
            log.append(one, 0, 1)
    print(limit, {len(list(log.scan())) for log in logs}, {len(log.segments) for log in logs})
    for log in logs[:5]:
        log.close()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["32 {5} {3}", "10000 {5} {3}"]


def test_least_recently_used_descriptor_is_closed(tmp_path: Path) -> None:
    fs = OsFileSystem(open_files_max=3)
    busy = fs.open(str(tmp_path / "busy"), create=True)
    descriptor = busy.opened()
    for number in range(20):
        busy.write(0, b"busy")
        fs.open(str(tmp_path / str(number)), create=True).write(0, b"idle")
    assert busy.opened() is descriptor


def test_earlier_reads_and_scans_can_use_a_segment_that_retention_has_deleted(
    tmp_path: Path,
) -> None:
    fs = OsFileSystem(open_files_max=1)
    [log, other] = logs_in(tmp_path, fs, 2, SMALL)
    append_values(log, *(b"%d" % offset for offset in range(7)))
    info = log.read(0, 1000)
    data = info.data
    scan = log.scan()
    first = next(scan)
    rest = [(0, b"0"), (1, b"1")]
    assert values(log)[:2] == rest

    log.delete_records(6)
    log.apply_retention(NOW_MS)
    log.apply_retention(NOW_MS + 1)
    append_values(other, b"takes the descriptor")

    assert info.data == data
    assert [buffer for buffer, _ in (first, *scan)] == [
        b"".join(batch(n, b"%d" % n) for n in numbers)
        for numbers in ((0, 1, 2), (0, 1, 2), (0, 1, 2), (3, 4, 5), (3, 4, 5), (3, 4, 5), (6,))
    ]
    assert os.listdir(tmp_path / "t-0").count("00000000000000000000.log.deleted") == 0


def test_scan_of_a_segment_continues_after_a_cleaned_segment_has_replaced_it(
    tmp_path: Path,
) -> None:
    fs = OsFileSystem(open_files_max=1)
    config = LogConfig(**SETTINGS)
    log = PartitionLog.open(fs, str(tmp_path / "t-0"), "t", 0, config)
    writer = RandomLog(log, random.Random(1))
    writer.append(24)
    writer.end_all()
    log.roll()
    before = [buffer for buffer, _ in log.scan()]
    reader = log.scan()
    seen = [next(reader)[0]]

    clean_log(log, 0, writer.now_ms)

    assert seen + [buffer for buffer, _ in reader] == before
    assert [buffer for buffer, _ in log.scan()] != before
    assert all_records(log)


def test_read_of_a_replaced_file_raises_estale(tmp_path: Path) -> None:
    fs = OsFileSystem(open_files_max=1)
    path = str(tmp_path / "f")
    file = fs.open(path, create=True)
    file.write(0, b"mine")
    (tmp_path / "g").write_bytes(b"another's")
    os.replace(tmp_path / "g", path)
    fs.open(str(tmp_path / "h"), create=True).write(0, b"h")
    fs.open(str(tmp_path / "i"), create=True).write(0, b"i")

    with pytest.raises(OSError, match="was replaced") as caught:
        file.read(0, 4)
    assert caught.value.errno == errno.ESTALE


def test_concurrent_reads_of_one_descriptor_return_the_requested_bytes(tmp_path: Path) -> None:
    fs = OsFileSystem(open_files_max=1)
    files = [fs.open(str(tmp_path / str(number)), create=True) for number in range(6)]
    for number, file in enumerate(files):
        file.write(0, b"%d" % number * 100)
    wrong: list[object] = []

    def read(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(400):
                number = chance.randrange(len(files))
                data = files[number].read(0, 100)
                if data != b"%d" % number * 100:
                    wrong.append((number, data))
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
