"""Helpers for tests of the log cleaner: a broker without listeners, compacted topics, and
records."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.config.config import Config
from broker.test_mode.cleaner_thread import CleanerThread
from broker.time import Time
from broker.topics.registry import Topic
from log.files.filesystem import FileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import log_of

QUICK = {"log.cleaner.backoff.ms": 20, "log.segment.bytes": 100_000}


@contextmanager
def opened(directory: Path, fs: FileSystem | None = None, **settings: Any) -> Iterator[Broker]:
    """Yields a broker that has opened the data directory and has no listener. If ``fs`` is given, a
    thread of this process cleans the logs."""
    values = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **QUICK,
        **{k.replace("_", "."): v for k, v in settings.items()},
    }
    config = Config({name: str(value) for name, value in values.items()})
    broker = Broker(config)
    if fs is not None:
        time = Time()
        broker = Broker(config, fs=fs, time=time, new_cleaner=partial(CleanerThread, time, fs))
    broker.open()
    try:
        yield broker
    finally:
        broker.logs.close_all()
        broker.release()


def make_topic(broker: Broker, name: str = "t", **configs: str) -> PartitionLog:
    settings = {"cleanup.policy": "compact", **{k.replace("_", "."): v for k, v in configs.items()}}
    broker.logs.show(broker.logs.make(Topic(name, os.urandom(16), 1, settings)))
    return log_of(broker, name)


def write(log: PartitionLog, chance: random.Random, batches: int, keys: int = 50) -> None:
    for _ in range(batches):
        first = log.log_end_offset
        records = [
            Record(first + n, 1000, b"k%d" % chance.randrange(keys), chance.randbytes(100))
            for n in range(40)
        ]
        log.append_encoded(encode_batch(records, leader_epoch=0), first, first + 39, 1000)


@contextmanager
def no_process_is_left() -> Iterator[None]:
    """Fails if a child process that was started in this context still runs when the context
    ends."""
    before = set(_children())
    yield
    assert set(_children()) <= before


def _children() -> list[str]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return path.read_text().split() if path.exists() else []
