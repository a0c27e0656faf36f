"""The real file system: locks, replaced files, and descriptors that stay open while a reader uses
them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from log.errors import DirectoryLocked
from log.files.filesystem import OsFileSystem, read_whole, write_whole
from tests.simulated_files import SimulatedFiles

FS = OsFileSystem()


def open_here() -> list[str]:
    """Returns the paths of the open descriptors of this process, read from /proc."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor that lists the folder is closed now
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


ROOT = Path(__file__).parents[2]


def test_file_is_written_and_read_at_positions(tmp_path: Path) -> None:
    file = FS.open(str(tmp_path / "f"), create=True)
    file.write(0, b"abc")
    file.write(5, memoryview(b"xyz"))
    file.fsync()
    assert file.size() == 8
    assert file.read(0, 100) == b"abc\0\0xyz"
    assert file.read(6, 1) == b"y"
    assert file.read(8, 1) == b""
    file.truncate(2)
    assert file.read(0, 100) == b"ab"


def test_method_open_creates_a_missing_file_only_with_argument_create(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FS.open(str(tmp_path / "f"))
    assert not FS.exists(str(tmp_path / "f"))


def test_removed_file_stays_open_until_its_handle_is_dropped(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    FS.open(path, create=True).write(0, b"abc")
    file = FS.open(path)
    FS.rename(path, path + ".deleted")
    FS.remove(path + ".deleted")
    FS.remove(path + ".deleted")

    assert file.read(0, 3) == b"abc"
    assert path + ".deleted (deleted)" in open_here()
    del file
    assert path + ".deleted (deleted)" not in open_here()


def test_function_write_whole_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    write_whole(FS, path, b"first, and longer")
    write_whole(FS, path, b"second", durable=False)
    assert read_whole(FS, path) == b"second"
    assert FS.list(str(tmp_path)) == ["f"]


def test_interrupted_call_of_function_write_whole_keeps_the_old_content() -> None:
    fs = SimulatedFiles()
    fs.make_directory("/d")
    write_whole(fs, "/d/f", b"old")
    for operation in ("write", "fsync", "rename"):
        fs.fail(operation, "f.tmp" if operation != "rename" else "f", partial_bytes=1)
        with pytest.raises(OSError, match="Input/output"):
            write_whole(fs, "/d/f", b"new")
        assert fs.written("/d/f") == b"old"
    write_whole(fs, "/d/f", b"new")
    assert fs.written("/d/f") == b"new"


def test_directories_are_created_listed_and_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    FS.make_directory(path)
    FS.make_directory(path)
    FS.open(f"{path}/f", create=True)
    FS.fsync_directory(path)
    assert FS.list(path) == ["f"]
    assert FS.modified_ms(f"{path}/f") > 1_600_000_000_000
    FS.remove_directory(str(tmp_path / "a"))
    assert not FS.exists(path)


def test_directory_lock_is_refused_until_the_first_lock_is_released(
    tmp_path: Path,
) -> None:
    lock = FS.lock(str(tmp_path))
    with pytest.raises(DirectoryLocked, match=str(tmp_path)):
        FS.lock(str(tmp_path))
    lock.release()
    lock.release()
    FS.lock(str(tmp_path)).release()


def test_directory_lock_is_refused_to_another_process(tmp_path: Path) -> None:
    script = (
        "import sys; from log.errors import DirectoryLocked; from log.files.filesystem import *\n"
        "try: OsFileSystem().lock(sys.argv[1])\n"
        "except DirectoryLocked: print('refused')\n"
        "else: print('locked')"
    )

    def other() -> str:
        command = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    lock = FS.lock(str(tmp_path))
    assert other() == "refused"
    lock.release()
    assert other() == "locked"


def test_directory_lock_prevents_a_posix_lock_by_java(tmp_path: Path) -> None:
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: print('refused')"
    )
    lock = FS.lock(str(tmp_path))
    command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "refused"
    lock.release()
    with open(tmp_path / ".lock", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_bytes_of_a_partial_write_are_truncated_and_the_error_is_raised(tmp_path: Path) -> None:
    """The test limits the file size, so the operating system writes only a part of the data."""
    script = """
import resource, sys
from log.config import LogConfig
from log.errors import LogPoisoned
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record

log = PartitionLog.open(OsFileSystem(), sys.argv[1], "t", 0, LogConfig())
one = encode_batch([Record(0, 1, None, b"v" * 1000)])
log.append(one, 0, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
for count in (1, 3, 1):
    try:
        log.append(one * count, 0, 1)
        print("appended", count, log.active.file.size() == log.size_bytes)
    except LogPoisoned as error:
        print(error.final, log.active.file.size() == log.size_bytes, error)
print(log.log_end_offset)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.probe()
log.append(one, 0, 1)
print(log.log_end_offset, len(list(log.scan())))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "t-0")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    reason = f"a write to {path} failed: [Errno 27] File too large"
    assert done.stdout.splitlines() == [
        "appended 1 True",
        f"False True {reason}",
        f"False True {reason}",
        "2",
        "3 3",
    ]
