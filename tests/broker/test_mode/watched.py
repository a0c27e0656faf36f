"""A program that makes a broker perform all its file operations, and prints the accesses to the
disk.

Usage: `python -m tests.broker.test_mode.watched memory|real DIRECTORY`, where DIRECTORY is the data
directory. The last printed line lists the disk accesses of the Python process after its imports:
every write, every start of a process, and every read in the data directory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from http.client import HTTPConnection
from typing import Any

import broker.web.site  # noqa: F401 - what is imported later is read from the disk
from broker.broker import Broker
from broker.test_mode.cleaner_thread import CleanerThread
from broker.test_mode.files.disk_faults import DiskFaults
from broker.test_mode.files.faulty_files import FaultyFiles
from broker.test_mode.files.memory_files import MemoryFiles
from broker.time import Time
from broker.topics.cleaner import cleaning
from log.files.filesystem import FileSystem, OsFileSystem
from tests.broker.serving import asked, eventually, serving
from tests.broker.test_mode.in_memory import SETTINGS, client, commit, committed, consume, produce
from tests.broker.topic_calls import create_topic
from tests.wire import Wire

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.utime", "os.fork", "os.posix_spawn", "os.exec", "subprocess.Popen",
    "tempfile.mkstemp", "tempfile.mkdtemp", "shutil.rmtree",
)  # fmt: skip


def watch(directory: str) -> list[str]:
    """Starts to watch the file operations of the interpreter. Returns a list that receives every
    later disk access."""
    touched: list[str] = []

    def is_data(path: object) -> bool:
        return isinstance(path, str | bytes) and os.fsdecode(path).startswith(directory)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if (flags & WRITES and path != os.devnull) or is_data(path):
                touched.append(f"open {path}")
        elif event in CHANGES or (event in ("os.listdir", "os.scandir") and is_data(given[0])):
            touched.append(f"{event} {given[0]}")

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noted(*given: Any, **named: Any) -> Any:
            if given and is_data(given[0]):
                touched.append(f"{function.__name__} {given[0]}")
            return function(*given, **named)

        return noted

    # The interpreter has no audit event for these functions.
    for name in ("stat", "lstat", "statvfs", "access"):
        setattr(os, name, noting(getattr(os, name)))
    sys.addaudithook(hook)
    return touched


async def live(fs: FileSystem, time: Time, directory: str, first: bool) -> None:
    """Runs a broker that uses all file operations, from its start to its stop."""
    settings = {
        **SETTINGS,
        "http.listener": "127.0.0.1:0",
        "log.flush.interval.messages": "1",
        "log.cleaner.backoff.ms": "20",
        "log.segment.bytes": "20000",
        "log.preallocate": "true",
    }
    faults = DiskFaults()
    files = FaultyFiles(fs, faults)
    cleaner = partial(CleanerThread, time, files)
    async with serving(directory, settings, fs=files, time=time, new_cleaner=cleaner) as broker:
        broker.start_http()
        if first:
            await asked(broker, lambda wire: create_topic(wire, "table", 1, configs=TABLE))
        await client(lambda: produce(broker, "orders", b"a", b"b", **TXN))
        await client(lambda: produce(broker, "table", *[bytes(5000)] * 40))
        assert await client(lambda: commit(broker, "g", "orders", 2)) == ""
        await asked(broker, lambda wire: wire.call("DescribeLogDirs", 4, {"topics": None}))
        await client(lambda: read_pages(broker))
        await eventually("it is cleaned", lambda: broker.cleaning.runs)
        await broker.cleaning.clean_owned()
        full = faults.disk_full()
        refused = await client(
            lambda: produce(broker, "orders", b"c", retries=0, **{"message.timeout.ms": 5000})
        )
        assert refused != [""]
        full.finish()
        assert await client(lambda: produce(broker, "orders", b"c")) == [""]
        await asked(broker, lambda wire: delete(wire, "table"))
        await asked(broker, lambda wire: create_topic(wire, "table", 1, configs=TABLE))
        await client(lambda: consume(broker, "orders", 3))
        assert await client(lambda: committed(broker, "g", "orders")) == 2
        await broker.maintenance.run_retention()
        await broker.maintenance.write_checkpoints()
        assert broker.cleaning.failures == 0


TABLE = {"cleanup.policy": "compact", "file.delete.delay.ms": "0"}
TXN = {"enable.idempotence": True}


def delete(wire: Wire, name: str) -> None:
    answer = wire.call("DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 10_000})
    assert answer["responses"][0]["error_code"] == 0, answer


def read_pages(broker: Broker) -> None:
    http = HTTPConnection(broker.sockets.http_address(), timeout=20)
    for path in ("/metrics", "/healthz", "/api/groups", "/api/topics", "/"):
        http.request("GET", path)
        with http.getresponse() as response:
            assert response.status == 200, path
            response.read()
    http.close()


async def main(kind: str, directory: str) -> None:
    cleaning.OWNED_DEAD_BYTES_MIN = 1
    time = Time()
    fs = MemoryFiles(time) if kind == "memory" else OsFileSystem()
    if kind == "memory":
        assert not os.path.exists(directory)
    touched = watch(directory)
    for first in (True, False):
        await live(fs, time, directory, first)
        gc.collect()
    print(json.dumps(touched))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
