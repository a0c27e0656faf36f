"""A process that appends to logs, rolls, flushes, deletes, cleans and restarts them until it is
killed.

For each line on standard input (data directory, report file, seed) the process forks a child that
works on the logs, and prints the child's process id. When the child is dead, the process prints
`dead`. A failing child writes its traceback to a file with the suffix `.failed`. The content of a
record depends only on its topic and offset, so that a reader can compute it.

The child reports one event per line: `append TOPIC END` after the log end offset is acknowledged,
`start TOPIC OFFSET` after the log start offset is acknowledged, `delete TOPIC OFFSET` before it
deletes records below that offset, and `work NAME` before each operation. With the argument `early`
the child acknowledges before it appends.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
import zlib
from collections.abc import Mapping
from typing import Any

from broker.config.config import Config
from broker.topics.logs import LogManager
from broker.topics.registry import Topic
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import services_with
from tests.log.cleaning_tools import clean_log

BASE_MS = 1_700_000_000_000
KEYS = 7
PRODUCER_ID = 5
KEPT_BYTES = 12_000
EARLY = sys.argv[1:] == ["early"]
_SMALL: Mapping[str, str] = {"segment.bytes": "3000", "index.interval.bytes": "300"}
_QUICK: Mapping[str, str] = {**_SMALL, "file.delete.delay.ms": "0"}
TOPICS = [
    Topic("plain", b"1" * 16, 1, _SMALL),
    Topic("bounded", b"2" * 16, 1, {**_QUICK, "retention.bytes": str(KEPT_BYTES)}),
    Topic("deleted", b"3" * 16, 1, {**_QUICK, "retention.ms": "-1"}),
    Topic("compacted", b"4" * 16, 1, {**_SMALL, "cleanup.policy": "compact"}),
    Topic("both", b"5" * 16, 1, {**_QUICK, "cleanup.policy": "compact,delete"}),
    Topic("reserved", b"6" * 16, 1, {**_SMALL, "preallocate": "true"}),
]


def record(topic: str, offset: int) -> Record:
    mark = zlib.crc32(f"{topic} {offset}".encode())
    value = b"%d " % mark * (mark % 9)
    return Record(offset, BASE_MS + offset, b"key-%d" % (offset % KEYS), value or None)


def opened(directory: str) -> LogManager:
    """Opens and recovers the logs of a directory."""
    logs = LogManager(OsFileSystem(), directory, Config({}), services_with())
    logs.open_all(TOPICS)
    return logs


class Writer:
    """The operations of one child process on the logs."""

    def __init__(self, directory: str, told: str, seed: int) -> None:
        self.directory = directory
        self.told = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.chance = random.Random(seed)
        self.logs = opened(directory)

    def tell(self, *words: Any) -> None:
        os.write(self.told, (" ".join(map(str, words)) + "\n").encode())

    def run(self) -> None:
        """Runs random operations until the process is killed."""
        works = [
            (self.append, 60), (self.flush, 6), (self.checkpoint, 4), (self.retention, 8),
            (self.delete, 8), (self.roll, 4), (self.clean, 8), (self.restart, 2),
        ]  # fmt: skip
        kinds, weights = zip(*works, strict=True)
        while True:
            [work] = self.chance.choices(kinds, weights)
            self.tell("work", work.__name__)
            work(self.chance.choice([each.log for each in self.logs.all()]))

    def append(self, log: PartitionLog) -> None:
        for _ in range(self.chance.randint(1, 6)):
            first = log.log_end_offset
            count = self.chance.randint(1, 5)
            records = [record(log.topic, first + index) for index in range(count)]
            batch = encode_batch(
                [made._replace(offset=index) for index, made in enumerate(records)],
                compression=self.chance.choice((0, 0, 3)),
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=first,
            )
            if EARLY:
                self.tell("append", log.topic, first + count)
            info = log.append(batch, 0, BASE_MS + first)
            assert info.first_offset == first
            self.tell("append", log.topic, log.log_end_offset)

    def flush(self, log: PartitionLog) -> None:
        log.flush()

    def checkpoint(self, log: PartitionLog) -> None:
        start = log.log_start_offset
        self.logs.write_checkpoints()
        self.tell("start", log.topic, start)

    def retention(self, log: PartitionLog) -> None:
        self.tell("delete", log.topic, log.log_end_offset)
        log.apply_retention(BASE_MS + log.log_end_offset)

    def delete(self, log: PartitionLog) -> None:
        if log.topic in ("deleted", "both"):
            span = log.log_end_offset - log.log_start_offset
            target = log.log_start_offset + self.chance.randint(0, span)
            self.tell("delete", log.topic, target)
            log.delete_records(target)

    def roll(self, log: PartitionLog) -> None:
        log.roll()

    def clean(self, log: PartitionLog) -> None:
        if log.config.compacts and len(log.segments) > 1:
            clean_log(log, log.log_start_offset, BASE_MS + log.log_end_offset)

    def restart(self, _: PartitionLog) -> None:
        self.logs.close_all()
        self.logs = opened(self.directory)


def main() -> None:
    for line in sys.stdin:
        directory, told, seed = line.split()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards log lines
            try:
                Writer(directory, told, int(seed)).run()
            finally:
                with open(f"{told}.failed", "w") as file:
                    traceback.print_exc(file=file)
                os._exit(1)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print("dead" if os.WIFSIGNALED(status) else "failed", flush=True)


if __name__ == "__main__":
    main()
