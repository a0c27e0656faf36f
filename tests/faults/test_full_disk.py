"""Appends, segment rolls and log cleanings fail on a full disk, and succeed again when the disk has
space.

The disk is a small tmpfs in a mount namespace, if the tests may mount one. Otherwise RLIMIT_FSIZE
limits the size of the files, so that the kernel rejects writes as on a full disk.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests import waiting
from tests.broker.topic_calls import create_topic, fetch, produce
from tests.broker.topics.test_broken_disks import commit, committed
from tests.brokers import COMMAND, KIND, Broker
from tests.wire import Wire, batch, values_of

NAMESPACE = ["unshare", "--map-root-user", "--mount"]
SMALL_FILES_BYTES = 64 << 10

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(KIND != "muster", reason="it limits the broker of this checkout"),
    pytest.mark.proves("faults 2"),
]


class Disk(Protocol):
    """The disk of a broker."""

    broker: Broker

    def fill(self, leaving: int = 0) -> None:
        """Fills the disk until ``leaving`` bytes are free. If the test limits the size of files by
        RLIMIT_FSIZE instead of a small disk, ``leaving`` is this limit."""

    def free(self) -> None:
        pass


class SmallDisk:
    """A tmpfs of 4 MiB that only the broker's processes see."""

    def __init__(self, make: Callable[..., Broker], folder: Path, settings: dict[str, str]) -> None:
        data = folder / "broker-0" / "data"
        mount = f'mount -t tmpfs -o size=4m tmpfs {data} && exec "$@"'
        self.broker = make(settings, command=[*NAMESPACE, "sh", "-c", mount, "sh", *COMMAND])
        inside = Path(f"/proc/{self.broker.pid}/root") / data.relative_to("/")
        self.ballast = inside / "ballast"

    def fill(self, leaving: int = 0) -> None:
        taken = 0
        with self.ballast.open("wb", buffering=0) as file:
            for size in (1 << 16, 1):
                try:
                    while True:
                        taken += file.write(bytes(size))
                except OSError:
                    continue
            assert taken > 1 << 20
            file.truncate(taken - leaving)

    def free(self) -> None:
        self.ballast.unlink()


class ShortFiles:
    """A directory on any disk. RLIMIT_FSIZE limits the size of the files that the broker and its
    cleaner write."""

    def __init__(self, make: Callable[..., Broker], _: Path, settings: dict[str, str]) -> None:
        self.broker = make(settings)

    def fill(self, leaving: int = 0) -> None:
        self._allow(leaving)

    def free(self) -> None:
        self._allow(resource.RLIM_INFINITY)

    def _allow(self, size: int) -> None:
        tasks = Path(f"/proc/{self.broker.pid}/task")
        cleaners = [pid for told in tasks.glob("*/children") for pid in told.read_text().split()]
        for pid in (self.broker.pid, *map(int, cleaners)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def may_mount() -> bool:
    try:
        mounted = subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
    except OSError:
        return False
    return mounted.returncode == 0


KINDS = [ShortFiles, SmallDisk] if may_mount() else [ShortFiles]
Make = Callable[[dict[str, str]], Disk]


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, brokers: Callable[..., Broker], tmp_path: Path) -> Make:
    """Returns a function ``disk(settings)`` that starts a broker on a disk of the parametrized
    kind."""
    return lambda settings: request.param(brokers, tmp_path, settings)


def test_appends_and_rolls_fail_on_a_full_disk_and_resume_with_space(disk: Make) -> None:
    full = disk({"log.segment.bytes": "20000", "offsets.topic.num.partitions": "1"})
    with Wire(full.broker.port) as wire:
        create_topic(wire, "t")
        wire.call("FindCoordinator", 1, {"key": "group", "key_type": 0})
        waiting.until("the group has a coordinator", lambda: commit(wire, 5) == 0)
        values = [b"%d" % number * 5000 for number in range(7)]
        for value in values:  # several segments
            assert produce(wire, "t", batch(value))["error_code"] == 0

        full.fill()
        sent = 0
        while produce(wire, "t", batch(b"y" * 3000))["error_code"] == 0:
            sent += 1
            assert sent < 5, "the disk is not full"
        for offset in range(1000):
            code = commit(wire, 100 + offset)
            assert code != 0 or offset < 100, "a page may have had room left for some"
        found = values_of(fetch(wire, "t")["records"])
        assert found == values[: len(found)]
        assert found
        last = committed(wire)[1]

        full.free()
        # Muster probes the disk at least every 2 s: test_partition_queue.py checks that with its
        # own clock.
        waiting.until("commits succeed", lambda: commit(wire, last + 1) == 0)
        waiting.until(
            "records are taken", lambda: produce(wire, "t", batch(b"z"))["error_code"] == 0
        )
        assert committed(wire) == (0, last + 1)
    assert full.broker.stop() in (0, 143)


KEYS = 60


def keyed(turn: int, keys: range) -> bytes:
    """Returns a batch with a record of 8 kB for each key."""
    made = [Record(i, 1_000, b"%d" % key, b"%d " % turn * 4000) for i, key in enumerate(keys)]
    return encode_batch(made)


def read(wire: Wire) -> list[tuple[bytes | None, int]]:
    """Returns each record's key, and the number at the beginning of its value, which is the
    argument ``turn`` of `keyed`."""
    found = []
    offset = 0
    while (answer := fetch(wire, "t", offset))["high_watermark"] > offset:
        assert answer["error_code"] == 0
        for header, _ in iter_stored(answer["records"] or b"", partial=True):
            for record in records_of(answer["records"], header):
                found.append((record.key, int((record.value or b"").split()[0])))
            offset = header.last_offset + 1
    return found


def told(broker: Broker, what: str) -> bool:
    """Returns True if a log line of the broker contains ``what`` and names the partition t-0."""
    return any(what in line and "t-0" in line for line in broker.lines())


def let_it_be_cleaned(wire: Wire) -> None:
    changed = {"name": "min.cleanable.dirty.ratio", "config_operation": 0, "value": "0"}
    answer = wire.call(
        "IncrementalAlterConfigs",
        1,
        {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [changed]}]},
    )
    assert answer["responses"][0]["error_code"] == 0


def test_log_cleaning_that_fails_on_a_full_disk_loses_no_record(disk: Make) -> None:
    full = disk({"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"})
    with Wire(full.broker.port) as wire:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": "300000",
            "min.cleanable.dirty.ratio": "1",  # a ratio that is never reached
        }
        assert create_topic(wire, "t", configs=configs)["error_code"] == 0
        for turn, step in ((0, 1), (1, 2)):  # half of the records of the first segments remain
            for first in range(0, KEYS, 10):
                entry = produce(wire, "t", keyed(turn, range(first, first + 10, step)))
                assert entry["error_code"] == 0
        before = read(wire)

        full.fill(leaving=SMALL_FILES_BYTES)
        let_it_be_cleaned(wire)
        waiting.until("the cleaning fails", lambda: told(full.broker, "can't be cleaned"))
        assert read(wire) == before

        full.free()
        waiting.until("it succeeds", lambda: told(full.broker, "can be cleaned again"))
        after = read(wire)
        assert dict(after) == dict(before)
        assert len(after) < len(before)
    assert full.broker.stop() in (0, 143)


@pytest.mark.skipif(not may_mount(), reason="only a disk of its own is full to its last byte")
def test_topic_deletion_frees_a_completely_full_disk(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    full = SmallDisk(brokers, tmp_path, {"log.segment.delete.delay.ms": "500"})
    with Wire(full.broker.port) as wire:
        for name in ("kept", "large", "small"):
            assert create_topic(wire, name)["error_code"] == 0
            assert produce(wire, name, batch(name.encode()))["error_code"] == 0
        full.fill(leaving=1 << 20)
        while produce(wire, "large", batch(b"y" * 20_000))["error_code"] == 0:
            pass
        while produce(wire, "large", batch(b"y" * 10))["error_code"] == 0:
            pass
        assert create_topic(wire, "new")["error_code"] != 0

        request = {"topic_names": ["small", "large"], "timeout_ms": 10_000}
        answer = wire.call("DeleteTopics", 5, request)

        assert [entry["error_code"] for entry in answer["responses"]] == [0, 0]
        waiting.until(
            "topics are made",
            lambda: create_topic(wire, "large")["error_code"] == 0,
            within_s=10,
        )
        # A topic is created as soon as a few blocks are free; the files of "large" may be deleted
        # later.
        waiting.until(
            "a log that was not deleted takes records",
            lambda: produce(wire, "kept", batch(b"after" * 5000))["error_code"] == 0,
            within_s=10,
        )
        assert values_of(fetch(wire, "large")["records"]) == []
        assert values_of(fetch(wire, "kept")["records"])[0] == b"kept"
    assert full.broker.stop() in (0, 143)
