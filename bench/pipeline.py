"""Measures how quickly the pipeline makes the table `commits`, and all tables, from segments.

The tool writes segments of 8 partitions with offset records as a coordinator writes them: 50
partitions per request, 20 requests per batch, random groups out of 20,000. It writes one set with
values of version 3 (Muster, Kafka up to 3.9), and one with values of version 4, which have the
topic's id (Kafka 4). DuckDB makes the tables on all cores. Then one thread reads the same segments,
decodes every record into Arrow batches and drops them.

    python -m bench.pipeline [--records 5000000] [--versions 3 4] [--data DIR]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from offsets.record_codec import run_records
from offsets.record_values import offset_key_head
from offsets.runs import OffsetRun
from protocol.records.batch import assemble_batch
from protocol.records.varint import encode_varint

PARTITIONS_A_REQUEST = 50
REQUESTS_A_BATCH = 20
GROUPS = 20_000
LOG_PARTITIONS = 8
SEGMENT_RECORDS = 1_000_000
GOAL_PER_S = 200_000
CORES = len(os.sched_getaffinity(0))
_SAMPLE_S = 1.0
_FIRST_MS = 1_767_268_800_000
_TOPIC = "load"
_TOPIC_ID = bytes(range(16))
_V4_HEAD = b"\x54\0\4"  # the head of a value of 42 bytes, of version 4
_V4_SIZE = 42
_NUMBERS = struct.Struct(">i3sqi")


def records_of(version: int, run: OffsetRun, first_delta: int) -> bytes:
    """Returns the encoded offset records of one OffsetCommit request, with values of version 3 or
    4."""
    if version == 3:
        return run_records(run, first_delta)
    key_head = offset_key_head(run.group_id, run.topic)
    moment = b"\1" + run.commit_timestamp_ms.to_bytes(8, "big") + b"\1\0\x10" + _TOPIC_ID + b"\0"
    written = []
    for i, partition in enumerate(run.partitions):
        prologue = _prologue(first_delta + i, len(key_head) + 4)
        numbers = _NUMBERS.pack(partition, _V4_HEAD, run.offsets[i], run.leader_epochs[i])
        written += (prologue, key_head, numbers, moment)
    return b"".join(written)


@functools.cache
def _prologue(delta: int, key_size: int) -> bytes:
    """Returns the bytes of a record before its key: length, attributes, deltas and the length of
    the key."""
    head = b"\0\0" + encode_varint(delta) + encode_varint(key_size)
    behind_the_key = len(_V4_HEAD[:1]) + _V4_SIZE + 1
    return encode_varint(len(head) + key_size + behind_the_key) + head


def make(data: Path, records: int, version: int, chance: random.Random) -> None:
    """Writes segments with ``records`` records. The timestamps correspond to one request per
    millisecond."""
    each = records // LOG_PARTITIONS
    partitions = range(PARTITIONS_A_REQUEST)
    epochs = [0] * PARTITIONS_A_REQUEST
    for log_partition in range(LOG_PARTITIONS):
        folder = data / f"__consumer_offsets-{log_partition}"
        folder.mkdir(parents=True)
        for first in range(0, each, SEGMENT_RECORDS):
            with open(folder / f"{first:020d}.log", "wb") as out:
                base = first
                while base < min(first + SEGMENT_RECORDS, each):
                    section, count = b"", 0
                    at_ms = _FIRST_MS + base // PARTITIONS_A_REQUEST
                    for _ in range(REQUESTS_A_BATCH):
                        group = chance.randrange(GROUPS // LOG_PARTITIONS) * LOG_PARTITIONS
                        run = OffsetRun(
                            f"bench-group-{group + log_partition:05d}", _TOPIC, partitions,
                            [base + p for p in partitions], epochs, None, at_ms,
                        )  # fmt: skip
                        section += records_of(version, run, count)
                        count += PARTITIONS_A_REQUEST
                    out.write(assemble_batch(section, count, base, at_ms, at_ms))
                    base += count


def run_job(data: str, out: str, job: str) -> None:
    """Runs a pipeline job as the command line does, with DuckDB. Prints the measurements of this
    process."""
    from pipeline.engines.duck import DuckEngine
    from pipeline.run.catalog import JOBS
    from pipeline.run.choice import processes_for
    from pipeline.run.jobs import Options
    from pipeline.run.jobs import run_job as run
    from pipeline.sources.open import open_source
    from pipeline.storage.store import Store

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        source = open_source(data)
        engine = DuckEngine(scratch, processes_for(source.records_estimate()))
        summary = run(engine, JOBS[job], source, Store(out), Options(with_topics=False))
    report(began, summary.events, cpu_of([os.getpid()]))


def read_plainly(data: str) -> None:
    """Decodes all records in one thread and discards them. Prints the time and the number of
    records."""
    from pipeline.sources.open import open_source

    began, rows = time.monotonic(), 0
    for part in open_source(data).event_parts(None) or ():
        rows += sum(batch.num_rows for batch in part.read())
    report(began, rows, time.process_time())


def report(began: float, events: int, cpu_s: float) -> None:
    seconds = time.monotonic() - began
    print(json.dumps({"seconds": seconds, "events": events, "cpu_s": cpu_s}))


def descendants(pid: int) -> list[int]:
    """Returns the ids of a process and of all its descendants, from /proc."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def cpu_of(pids: list[int]) -> float:
    """Returns the CPU seconds of the processes, and of their child processes that have ended."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(each) for each in stat[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


class Memory(threading.Thread):
    """A thread that samples the resident memory of a process and all its descendants, and keeps the
    highest sum in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.ended = threading.Event()
        self.peak_mb = 0.0

    def run(self) -> None:
        page_mb = os.sysconf("SC_PAGE_SIZE") / 1e6
        while not self.ended.wait(_SAMPLE_S):
            pages = 0
            for pid in descendants(self.pid):
                try:
                    pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                except OSError:
                    continue
            self.peak_mb = max(self.peak_mb, pages * page_mb)


def measured(what: str, *arguments: str) -> tuple[dict[str, float], float]:
    """Runs a measurement in its own process. Returns the figures that the process prints, and its
    peak memory in MB."""
    command = [sys.executable, "-m", "bench.pipeline", "--only", what, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    memory = Memory(process.pid)
    memory.start()
    out, errors = process.communicate()
    memory.ended.set()
    memory.join()
    if process.returncode:
        raise SystemExit(f"{what} failed:\n{errors[-3000:]}")
    report: dict[str, float] = json.loads(out.strip().splitlines()[-1])
    return report, memory.peak_mb


def main() -> None:
    """Writes the segments, measures, and prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--versions", type=int, nargs="+", choices=(3, 4), default=[3, 4])
    parser.add_argument(
        "--data", type=Path, help="the folder for the segments; default: a temporary folder"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        what, *arguments = options.only
        {"job": run_job, "read": read_plainly}[what](*arguments)
        return
    folder = options.data or Path(tempfile.mkdtemp(prefix="muster-pipeline-"))
    try:
        for version in options.versions:
            measure(folder, options.records, version, random.Random(options.seed))
    finally:
        if options.data is None:
            shutil.rmtree(folder)


def measure(folder: Path, records: int, version: int, chance: random.Random) -> None:
    """Measures the job `commits` on half the records and on all records, then the job `all`, then
    the read without a job."""
    seconds = {}
    for count, job in ((records // 2, "commits"), (records, "commits"), (records, "all")):
        data = folder / f"data-{count}-v{version}"
        if not data.exists():
            make(data, count, version, chance)
        out = folder / f"out-{count}"
        shutil.rmtree(out, ignore_errors=True)
        found, peak_mb = measured("job", str(data), str(out), job)
        seconds[count, job] = found["seconds"]
        rate = found["events"] / found["seconds"]
        met = "met" if rate >= GOAL_PER_S else "MISSED"
        print(
            f"{found['events']:>10,.0f} records of version {version}, job {job}, {CORES} cores:"
            f" {found['seconds']:6.1f} s, {rate:9,.0f} records/s ({found['cpu_s']:.1f} s CPU),"
            f" goal {GOAL_PER_S:,}: {met}; peak of all processes {peak_mb:,.0f} MB",
            flush=True,
        )
        shutil.rmtree(out)
    ratio = seconds[records, "commits"] / seconds[records // 2, "commits"]
    print(f"job commits takes {ratio:.2f} times as long for twice as many records")
    found, peak_mb = measured("read", str(folder / f"data-{records}-v{version}"))
    print(
        f"{found['events']:>10,.0f} records of version {version} read without a job, one thread:"
        f" {found['seconds']:6.1f} s, {found['events'] / found['seconds']:9,.0f} records/s"
        f" ({found['cpu_s']:.1f} s CPU); peak {peak_mb:,.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
