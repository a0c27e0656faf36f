"""Files in memory and on disk, for which a test can simulate a full disk and failing fsyncs."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.test_mode.files.disk_faults import DiskFaults
from broker.test_mode.files.faulty_files import FaultyFiles
from log.errors import DirectoryLocked
from log.files.filesystem import DiskSpace, FileSystem, OsFileSystem, read_whole, write_whole
from tests.log.file_systems import in_memory

UNDER: dict[str, Callable[[Path], FileSystem]] = {
    "real": lambda _: OsFileSystem(),
    "memory": in_memory,
}


@pytest.fixture(params=UNDER)
def under(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return UNDER[request.param](tmp_path)


def refused(work: Callable[[], object], code: int = errno.ENOSPC) -> bool:
    """Returns True if ``work`` raises an OSError with the errno ``code``, and False if it raises an
    OSError with another errno or no error."""
    try:
        work()
    except OSError as error:
        return error.errno == code
    return False


def test_full_disk_refuses_every_write_that_needs_space(under: FileSystem, tmp_path: Path) -> None:
    fs, d = FaultyFiles(under, DiskFaults()), str(tmp_path)
    file = fs.open(f"{d}/f", create=True)
    file.write(0, b"abcdef")
    write_whole(fs, f"{d}/whole", b"old")

    full = fs.faults.disk_full()
    assert refused(lambda: file.write(6, b"g"))
    assert refused(lambda: file.write(4, b"xyz")), "and not a part of it either"
    assert refused(lambda: file.truncate(7))
    assert refused(lambda: file.reserve(100))
    assert refused(lambda: file.opened().write(6, b"g"))
    assert refused(lambda: fs.open(f"{d}/g", create=True))
    assert refused(lambda: fs.make_directory(f"{d}/sub"))
    assert refused(lambda: fs.link(f"{d}/f", f"{d}/g"))
    assert refused(lambda: write_whole(fs, f"{d}/whole", b"new"))
    assert full.hits == 9

    assert file.read(0, 99) == b"abcdef"
    file.write(0, b"ABC")
    file.truncate(4)
    file.fsync()
    fs.open(f"{d}/f", create=True)
    fs.make_directory(d)
    fs.rename(f"{d}/f", f"{d}/h", file)
    assert file.path == f"{d}/h"
    assert read_whole(fs, f"{d}/whole") == b"old"
    fs.remove(f"{d}/whole")
    assert fs.list(d) == ["h"]
    space = fs.space(d)
    assert space is None or space.usable_bytes == 0 < space.total_bytes
    assert full.hits == 9

    full.finish()
    full.finish()
    file.write(4, b"efgh")
    assert file.read(0, 99) == b"ABCdefgh"
    fs.make_directory(f"{d}/sub")
    assert full.hits == 9


def test_disk_is_full_until_every_disk_full_fault_has_ended(
    under: FileSystem, tmp_path: Path
) -> None:
    fs = FaultyFiles(under, DiskFaults())
    first, second = fs.faults.disk_full(), fs.faults.disk_full()
    first.finish()
    assert refused(lambda: fs.make_directory(f"{tmp_path}/d"))
    assert (first.hits, second.hits) == (0, 1)
    fs.faults.end_all()
    fs.make_directory(f"{tmp_path}/d")


def test_fail_fsync_fault_fails_the_given_number_of_fsyncs(
    under: FileSystem, tmp_path: Path
) -> None:
    fs, d = FaultyFiles(under, DiskFaults()), str(tmp_path)
    file = fs.open(f"{d}/f", create=True)
    twice = fs.faults.fail_fsync(times=2)
    file.write(0, b"x")
    assert refused(file.fsync, errno.EIO)
    assert refused(lambda: fs.fsync_directory(d), errno.EIO)
    file.fsync()
    fs.fsync_directory(d)
    assert twice.hits == 2

    always = fs.faults.fail_fsync()
    assert all(refused(file.fsync, errno.EIO) for _ in range(5))
    always.finish()
    file.fsync()
    assert (twice.hits, always.hits) == (2, 5)


def test_file_system_of_a_killed_broker_refuses_every_change(
    under: FileSystem, tmp_path: Path
) -> None:
    faults, d = DiskFaults(), str(tmp_path)
    dead = FaultyFiles(under, faults)
    lock = dead.lock(d)
    file = dead.open(f"{d}/f", create=True)
    file.write(0, b"before")
    full = faults.disk_full()
    with pytest.raises(DirectoryLocked):
        FaultyFiles(under, faults).lock(d)

    dead.kill()
    for change in (
        lambda: file.write(0, b"after!"),
        lambda: file.truncate(0),
        lambda: file.reserve(10),
        file.fsync,
        lambda: dead.open(f"{d}/g", create=True),
        lambda: dead.rename(f"{d}/f", f"{d}/g"),
        lambda: dead.link(f"{d}/f", f"{d}/g"),
        lambda: dead.remove(f"{d}/f"),
        lambda: dead.make_directory(f"{d}/sub"),
        lambda: dead.remove_directory(d),
        lambda: dead.fsync_directory(d),
        lambda: dead.lock(d),
    ):
        assert refused(change, errno.EIO)

    alive = FaultyFiles(under, faults)
    held = alive.lock(d)
    lock.release()  # The killed owner releases the lock, but the owner no longer has the lock.
    with pytest.raises(DirectoryLocked):
        alive.lock(d)
    held.release()
    assert alive.list(d) == [".lock", "f"]
    assert read_whole(alive, f"{d}/f") == b"before"
    assert refused(lambda: alive.make_directory(f"{d}/sub")), "the disk is full for it too"
    full.finish()
    alive.make_directory(f"{d}/sub")


def test_full_disk_reports_no_usable_space() -> None:
    from broker.test_mode.files.memory_files import MemoryFiles
    from broker.time import Time

    fs = FaultyFiles(MemoryFiles(Time(), capacity_bytes=100), DiskFaults())
    assert fs.space("/") == DiskSpace(100, 100)
    full = fs.faults.disk_full()
    assert fs.space("/") == DiskSpace(100, 0)
    full.finish()
    assert fs.space("/") == DiskSpace(100, 100)
