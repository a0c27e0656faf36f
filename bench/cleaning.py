"""Measures the log cleaner: megabytes of input per second of one core's CPU time.

    .venv/bin/python bench/cleaning.py [--megabytes 64]

Each case writes a log that was never cleaned into a temporary directory, and cleans the log in this
process. The keys are random: with few keys most records are superseded, with many keys most batches
lose some records.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from log.cleaner.clean_job import CleanJob
from log.cleaner.cleaner import clean
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record

SEGMENT_BYTES = 16 << 20
BATCH_BYTES = 16_000
NOW_MS = 1_700_000_000_000
CASES = [
    ("100 B, 10,000 keys", 100, 10_000, 0),
    ("100 B, 10,000 keys, lz4", 100, 10_000, 3),
    ("100 B, 1,000,000 keys", 100, 1_000_000, 0),
    ("1 kB, 10,000 keys", 1000, 10_000, 0),
]


def filled(directory: str, value_bytes: int, keys: int, codec: int, size: int) -> PartitionLog:
    """Returns a log of about ``size`` bytes of plain (non-transactional) records, all in closed
    segments."""
    log = PartitionLog.open(
        OsFileSystem(), directory, "t", 0, LogConfig(segment_bytes=SEGMENT_BYTES)
    )
    chance = random.Random(1)
    count = max(1, BATCH_BYTES // (value_bytes + 30))
    while log.log_end_offset * (value_bytes + 26) < size:
        first = log.log_end_offset
        records = [
            Record(
                first + n,
                NOW_MS + n,
                b"key-%012d" % chance.randrange(keys),
                chance.randbytes(value_bytes),
            )
            for n in range(count)
        ]
        batch = encode_batch(records, compression=codec)
        log.append_encoded(batch, first, first + count - 1, NOW_MS)
    log.roll()
    log.flush()
    return log


def measure(log: PartitionLog) -> tuple[float, float]:
    """Returns the megabytes read per CPU second, and the share of bytes that the log cleaner
    keeps."""
    segments = [
        [s.base_offset, s.size, s.max_timestamp_ms, s.index.size_bytes, s.time_index.size_bytes]
        for s in log.segments
    ]
    job = CleanJob(
        log.directory,
        segments,
        0,
        log.active.base_offset,
        NOW_MS,
        1000,
        segment_bytes=SEGMENT_BYTES,
    )
    began = time.process_time()
    done = clean(log.fs, job, lambda _: None)
    seconds = time.process_time() - began
    return done.bytes_read / 1e6 / seconds, done.bytes_written / done.bytes_read


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=64)
    size = options.parse_args().megabytes << 20
    for name, value_bytes, keys, codec in CASES:
        with tempfile.TemporaryDirectory() as directory:
            speed, left = measure(filled(f"{directory}/t-0", value_bytes, keys, codec, size))
        print(f"{name:28}{speed:8.0f} MB/s{left:8.0%} kept")


if __name__ == "__main__":
    main()
