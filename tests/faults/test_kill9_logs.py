"""Kill -9 of a process that appends to logs, and rolls, flushes, deletes, cleans and reopens them.

After each kill, a copy of the directory is recovered and read. Acknowledged records have their
content, and unacknowledged batches are complete or absent. Indexes refer to existing records. No
record is below the acknowledged log start offset. The next process continues with the original
directory, and may be killed during its recovery.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from log.partition_log import PartitionLog
from protocol.records.section import Record
from protocol.records.stored import stored_records
from tests import waiting
from tests.brokers import CHECKOUT
from tests.faults.log_writer import BASE_MS, KEPT_BYTES, KEYS, PRODUCER_ID, opened, record

pytestmark = [pytest.mark.faults, pytest.mark.proves("faults 8")]

ROUNDS = int(os.environ.get("MUSTER_KILL_ROUNDS", "200"))
LIVES = 20
"""The number of processes that are started and killed in sequence on one data directory."""


class Campaign:
    """A data directory, the process that forks the writers of this directory, and the log changes
    that the writers acknowledged."""

    def __init__(self, folder: Path, seed: int, *words: str) -> None:
        self.folder = folder
        self.data = folder
        self.copy = folder / "copy"
        self.told = folder / "told"
        self.chance = random.Random(seed)
        self.ends: Counter[str] = Counter()
        """By log: the acknowledged log end offset. After the next start, the log must not end
        before it."""
        self.starts: Counter[str] = Counter()
        """By log: the minimum correct log start offset after the next start of the broker."""
        self.deletable: Counter[str] = Counter()
        """By log: the highest log start offset that the log may have after the next start of the
        broker."""
        self.killed_in: Counter[str] = Counter()
        """The number of kills during each operation."""
        self.appends = 0
        self.cuts = 0
        self.forker = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.log_writer", *words],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self) -> None:
        """Continues with a new, empty data directory. With old logs that grow without limit, the
        next brokers would need most of their time for recovery."""
        self.data = self.folder / f"data-{self.chance.randrange(1 << 64):x}"
        self.data.mkdir()
        for least in (self.ends, self.starts, self.deletable):
            least.clear()

    def close(self) -> None:
        self.forker.kill()
        self.forker.wait(10)

    def kill_one(self) -> None:
        """Starts a writer, kills it after a random time, and reads its report file."""
        assert self.forker.stdin is not None
        assert self.forker.stdout is not None
        self.told.unlink(missing_ok=True)
        print(self.data, self.told, self.chance.randrange(1 << 32), file=self.forker.stdin)
        self.forker.stdin.flush()
        child = int(self.forker.stdout.readline())
        if self.chance.random() < 0.85:  # else it may be killed during recovery
            waiting.until("it works", lambda: self.told.exists() and self.told.stat().st_size)
        time.sleep(self.chance.uniform(0, 0.03))  # a random moment
        with suppress(ProcessLookupError):  # the writer has failed
            os.kill(child, signal.SIGKILL)
        ended = self.forker.stdout.readline()
        failed = self.told.with_suffix(".failed")
        assert ended == "dead\n", failed.read_text() if failed.exists() else ended
        if self.told.exists():
            last = "open"
            for line in self.told.read_text().splitlines():
                what, topic, *rest = line.split()
                if what == "work":
                    last = topic
                    continue
                offset = rest[0]
                place = {"append": self.ends, "start": self.starts, "delete": self.deletable}[what]
                place[topic] = max(place[topic], int(offset))
                self.appends += what == "append"
            self.killed_in[last] += 1

    def read_back(self) -> None:
        """Copies the data directory, opens the logs of the copy, and compares their content with
        what the writers acknowledged."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.data, self.copy)
        for log in [each.log for each in opened(str(self.copy)).all()]:
            self.cuts += len(log.recovery.cuts)
            assert not [cut for cut in log.recovery.cuts if cut.kept_as], log.recovery.cuts
            self.check(log)

    def check(self, log: PartitionLog) -> None:
        topic, start, end = log.topic, log.log_start_offset, log.log_end_offset
        assert end >= self.ends[topic], f"{topic}: acknowledged records are missing"
        assert self.starts[topic] <= start <= max(self.deletable[topic], self.starts[topic])
        found = {made.offset: made for made in records(log) if made.offset >= start}
        for offset, made in found.items():
            assert made == record(topic, offset), f"{topic}: another record at {offset}"
        if log.config.compacts:
            due = set(range(max(start, end - KEYS), end))
            assert due <= found.keys(), f"{topic}: a key lost its last value"
        else:
            assert [*found] == [*range(start, end)], f"{topic}: not whole"
        if topic == "bounded":
            assert start == 0 or log.size_bytes >= KEPT_BYTES
        self.check_lookups(log, sorted(found))

    def check_lookups(self, log: PartitionLog, offsets: list[int]) -> None:
        for offset in self.chance.sample(offsets, min(5, len(offsets))):
            at = log.offset_for_timestamp(BASE_MS + offset)
            assert at is not None
            assert at.offset == offset
            buffer, header = next(log.scan(offset))
            assert offset in [made.offset for made in stored_records(buffer, header)]
        producer = log.producers.get(PRODUCER_ID)
        if log.log_end_offset > log.log_start_offset:
            assert producer is not None
            assert producer.last_sequence == log.log_end_offset - 1


def records(log: PartitionLog) -> Iterator[Record]:
    for buffer, header in log.scan():
        yield from stored_records(buffer, header)


Make = Callable[..., Campaign]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Yields a function that creates objects of `Campaign`. Their files are in `/dev/shm` if
    possible, because `/dev/shm` is fast, and keeps the written bytes of a killed process."""
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"MUSTER_SEED={seed}")
    shared = Path("/dev/shm")
    folder = shared if os.access(shared, os.W_OK) else tmp_path
    with ExitStack() as campaigns, TemporaryDirectory(dir=folder) as directory:

        def made(*words: str) -> Campaign:
            campaign = Campaign(Path(directory), seed, *words)
            campaigns.callback(campaign.close)
            return campaign

        yield made


def run(campaign: Campaign, rounds: int) -> None:
    for number in range(rounds):
        if number % LIVES == 0:
            campaign.begin()
        campaign.kill_one()
        campaign.read_back()
    print(f"{campaign.appends} appends, {campaign.cuts} torn tails, kills {campaign.killed_in}")
    assert campaign.appends > rounds
    assert len(campaign.killed_in) >= min(5, ceil(rounds / 10))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [pytest.param(20, marks=pytest.mark.smoke), ROUNDS])
def test_log_kills_lose_no_acknowledged_record(make: Make, rounds: int) -> None:
    run(make(), rounds)


@pytest.mark.smoke
@pytest.mark.planted("kill -9 of logs")
def test_kill_campaign_detects_a_log_that_acknowledges_before_a_write(make: Make) -> None:
    with pytest.raises(AssertionError, match="acknowledged records are missing"):
        run(make("early"), 100)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_logs_lose_no_acknowledged_record_in_hundreds_of_kills(make: Make) -> None:
    run(make(), 20 * ROUNDS)
