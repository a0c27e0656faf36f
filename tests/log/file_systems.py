"""The file systems with which tests run, each with an empty directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from broker.test_mode.files.disk_faults import DiskFaults
from broker.test_mode.files.faulty_files import FaultyFiles
from broker.test_mode.files.memory_files import MemoryFiles
from broker.time import Time
from log.files.filesystem import FileSystem, OsFileSystem
from tests.simulated_files import SimulatedFiles


def in_memory(directory: Path) -> MemoryFiles:
    fs = MemoryFiles(Time())
    fs.make_directory(str(directory))
    return fs


def simulated(directory: Path) -> SimulatedFiles:
    fs = SimulatedFiles(now_ms=int(Time().wall_s() * 1000))
    fs.make_directory(str(directory))
    return fs


MADE: dict[str, Callable[[Path], FileSystem]] = {
    "real": lambda _: OsFileSystem(),
    "real, few descriptors": lambda _: OsFileSystem(open_files_max=1),
    "real, with faults": lambda _: FaultyFiles(OsFileSystem(), DiskFaults()),
    "memory": in_memory,
    "memory, with faults": lambda directory: FaultyFiles(in_memory(directory), DiskFaults()),
    "simulated": simulated,
}
