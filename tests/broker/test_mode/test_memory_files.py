"""Properties of files in memory that files on disk do not have: a capacity, and space that is freed
when the last open file closes."""

from __future__ import annotations

import errno
import gc
import threading

import pytest

from broker.test_mode.files.memory_disk import Capacity, Directory, Inode
from broker.test_mode.files.memory_files import MemoryFile, MemoryFiles
from broker.time import Time
from log.files.filesystem import DiskSpace


def made(fs: MemoryFiles, path: str, size: int) -> MemoryFile:
    file = fs.open(path, create=True)
    file.write(0, bytes(size))
    return file


def test_write_above_the_capacity_stores_a_prefix_and_raises_an_error() -> None:
    fs = MemoryFiles(Time(), capacity_bytes=100)
    file = made(fs, "/f", 90)
    with pytest.raises(OSError, match="No space") as caught:
        file.write(90, b"x" * 20)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/f")
    assert file.read(85, 99) == bytes(5) + b"x" * 10
    with pytest.raises(OSError, match="No space"):
        file.write(100, b"y")
    file.write(0, b"written over")
    file.truncate(60)
    file.write(60, bytes(40))
    with pytest.raises(OSError, match="No space"):
        file.truncate(101)
    assert file.size() == 100


def test_space_of_a_deleted_open_file_is_freed_when_the_file_is_closed() -> None:
    fs = MemoryFiles(Time(), capacity_bytes=100)
    fs.make_directory("/d")
    held = made(fs, "/f", 30)
    made(fs, "/g", 30)
    made(fs, "/d/h", 30)
    assert fs.space("/") == DiskSpace(100, 10)
    fs.link("/g", "/second")
    fs.remove("/g")
    assert fs.space("/") == DiskSpace(100, 10), "it has another name"
    fs.remove("/second")
    assert fs.space("/") == DiskSpace(100, 40)
    fs.remove("/f")
    assert fs.space("/") == DiskSpace(100, 40), "it is open"
    del held
    assert fs.space("/") == DiskSpace(100, 70)
    fs.remove_directory("/d")
    assert fs.space("/") == DiskSpace(100, 100)


def test_reserved_space_of_a_file_in_memory_counts_as_used() -> None:
    fs = MemoryFiles(Time(), capacity_bytes=100)
    file = made(fs, "/f", 10)
    file.reserve(80)
    assert fs.space("/") == DiskSpace(100, 20)
    with pytest.raises(OSError, match="No space"):
        made(fs, "/g", 50)
    fs.remove("/g")
    with pytest.raises(OSError, match="No space"):
        file.reserve(200)
    file.write(10, bytes(70))
    assert fs.space("/") == DiskSpace(100, 20)
    file.truncate(5)
    assert fs.space("/") == DiskSpace(100, 95)


def test_free_space_in_memory_is_unknown_when_no_capacity_is_set() -> None:
    fs = MemoryFiles(Time())
    made(fs, "/f", 1000).reserve(1 << 40)
    assert fs.space("/") is None


def test_modification_time_of_a_file_in_memory_uses_the_mock_clock() -> None:
    wall_s = 1_000_000.5
    fs = MemoryFiles(Time(wall_s=lambda: wall_s))
    file = made(fs, "/f", 1)
    assert fs.modified_ms("/f") == 1_000_000_500
    wall_s = 2_000_000.0
    assert fs.modified_ms("/f") == 1_000_000_500
    file.write(0, b"x")
    assert fs.modified_ms("/f") == 2_000_000_000
    wall_s = 3_000_000.0
    file.truncate(0)
    assert fs.modified_ms("/f") == 3_000_000_000


def test_files_of_a_renamed_directory_are_ordered_by_name() -> None:
    """A seed must reproduce a run exactly, but the order of a Python set differs between
    processes."""
    files = MemoryFiles(Time())
    files.make_directory("/t-0")
    for number in range(20):
        made(files, f"/t-0/{number:02}.log", 1)
    files.rename("/t-0", "/t-0.x-delete")
    assert list(files.names) == [f"/t-0.x-delete/{number:02}.log" for number in range(20)]


def test_concurrent_changes_of_a_file_in_memory_are_consistent() -> None:
    """A reader gets only bytes that the file contained at some time, although other threads change
    the file."""
    fs = MemoryFiles(Time(), capacity_bytes=1 << 30)
    file = made(fs, "/f", 0)
    wrong: list[object] = []
    rounds = 300

    def write() -> None:
        for number in range(rounds):
            file.truncate(0)
            for at in range(20):
                file.write(at * 1000, b"%c" % (65 + number % 26) * 1000)
            fs.rename("/f", "/g", file) if fs.exists("/f") else fs.rename("/g", "/f", file)

    def read() -> None:
        while writer.is_alive():
            for at in range(20):
                data = file.read(at * 1000, 1000)
                if len(data) not in (0, 1000) or len(set(data)) > 1:
                    wrong.append(data)
            fs.list("/")

    def make() -> None:
        number = 0
        while writer.is_alive():
            number += 1
            made(fs, f"/{number}", 10_000)
            fs.remove(f"/{number}")

    writer = threading.Thread(target=write)
    others = [threading.Thread(target=work) for work in (read, read, make)]
    for thread in (writer, *others):
        thread.start()
    for thread in (writer, *others):
        thread.join(60)
    assert wrong == []
    assert fs.capacity.taken_bytes == 20_000


def test_file_systems_in_memory_are_freed_without_garbage_collection() -> None:
    gc.collect()
    gc.disable()
    before = parts()
    try:
        for _ in range(1000):
            fs = MemoryFiles(Time())
            fs.make_directory("/data/t-0")
            lock = fs.lock("/data")
            file = made(fs, "/data/t-0/f", 10_000)
            fs.rename("/data/t-0", "/data/t-1")
        assert left(before) == ["Capacity"] + ["Directory"] * 3 + ["Inode"] * 2, "of the last one"
        del fs, lock, file
        assert left(before) == []
    finally:
        gc.enable()


def parts() -> list[object]:
    """Returns all inodes, directories and disk capacities of files in memory that exist in this
    process."""
    return [each for each in gc.get_objects() if isinstance(each, Inode | Directory | Capacity)]


def left(before: list[object]) -> list[str]:
    """Returns the class names of the live objects that are not in ``before``."""
    known = set(map(id, before))
    return sorted(type(each).__name__ for each in parts() if id(each) not in known)
