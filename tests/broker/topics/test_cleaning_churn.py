"""The offsets topic stays small under continuous commits for a thousand partitions, and no live
offset is lost.

The long test (`make soak`) sends 5,000,000 commits and never waits for the cleaner. The short test
(`make test`) sends 500,000 commits and waits if the cleaner gets too little CPU time.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from tests.broker.topic_calls import create_topic
from tests.brokers import Broker
from tests.log.cleaning_tools import all_records, last_by_key
from tests.waiting import until
from tests.wire import Wire

GROUPS = 10
PARTITIONS = 100
BYTES_MAX = 20 * 1024 * 1024
BRIEF_PARTITIONS = 5
IN_FLIGHT = 4


def commit(wire: Wire, group_id: str, offset: int, partitions: int = PARTITIONS) -> None:
    """Sends OffsetCommit of a simple consumer without waiting for the response."""
    wire.send(
        "OffsetCommit",
        7,
        {
            "group_id": group_id,
            "member_id": "",
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_metadata": "",
                        }
                        for partition in range(partitions)
                    ],
                }
            ],
        },
    )


def settled(wire: Wire) -> None:
    """Receives the response to one OffsetCommit and checks that it has no error."""
    _, answer = wire.receive()
    assert {entry["error_code"] for entry in answer["topics"][0]["partitions"]} == {0}


def committed(wire: Wire, group_id: str) -> list[int]:
    answer: dict[str, Any] = {}

    def answered() -> bool:
        answer.update(wire.call("OffsetFetch", 7, {"group_id": group_id, "topics": None}))
        return bool(answer["error_code"] == 0)

    until("the group is loaded", answered)
    entries = [
        (entry["partition_index"], entry["committed_offset"])
        for topic in answer["topics"]
        for entry in topic["partitions"]
    ]
    return [offset for _, offset in sorted(entries)]


def find_coordinator(wire: Wire) -> dict[str, Any]:
    return wire.call("FindCoordinator", 2, {"key": "group-0", "key_type": 0})


def disk_bytes(directory: Path) -> int:
    """Returns the total size in bytes of the files of a partition. Ignores files that are deleted
    during the count."""
    total = 0
    for entry in os.scandir(directory):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:
            continue
    return total


def churn(broker: Broker, commits: int, cleaned_within_s: float) -> int:
    """Sends at least ``commits`` commits in rounds, and returns the number of rounds. After every
    tenth round, creates and deletes a short-lived group. Asserts that the cleaner then reduces the
    partition to BYTES_MAX within ``cleaned_within_s`` seconds."""
    directory = broker.partition_folder("__consumer_offsets", 0)
    with Wire(broker.port) as wire:
        assert create_topic(wire, "t", PARTITIONS)["error_code"] == 0
        until("a coordinator is there", lambda: not find_coordinator(wire)["error_code"])
        requests = 0
        for number in itertools.count(1):
            for group in range(GROUPS):
                commit(wire, f"group-{group}", number)
                requests += 1
                if requests >= IN_FLIGHT:
                    settled(wire)
                    requests -= 1
            if not number % 10:
                while requests:
                    settled(wire)
                    requests -= 1
                brief = f"brief-{number}"
                commit(wire, brief, 1, BRIEF_PARTITIONS)
                settled(wire)
                gone = wire.call("DeleteGroups", 2, {"groups_names": [brief]})
                assert gone["results"][0]["error_code"] == 0
                until(
                    f"at most {BYTES_MAX} bytes are on the disk after {number} rounds",
                    lambda: disk_bytes(directory) <= BYTES_MAX,
                    cleaned_within_s,
                )
            if number * GROUPS * PARTITIONS >= commits:
                while requests:
                    settled(wire)
                    requests -= 1
                return number
    raise AssertionError("unreachable")


def check(broker: Broker, commits: int, cleaned_within_s: float) -> None:
    rounds = churn(broker, commits, cleaned_within_s)
    with Wire(broker.port) as wire:
        for group in range(GROUPS):
            assert committed(wire, f"group-{group}") == [rounds] * PARTITIONS
    broker.kill()
    (broker.partition_folder("__consumer_offsets", 0) / "groups.image").unlink(missing_ok=True)
    broker.start()  # without the image, from the cleaned log
    with Wire(broker.port) as wire:
        for group in range(GROUPS):
            assert committed(wire, f"group-{group}") == [rounds] * PARTITIONS, "after a kill"
        assert committed(wire, "brief-10") == []
    broker.stop()

    directory = broker.partition_folder("__consumer_offsets", 0)
    log = PartitionLog.open(
        OsFileSystem(), str(directory), "__consumer_offsets", 0, LogConfig(cleanup_policy="compact")
    )
    appended = rounds * GROUPS * PARTITIONS
    assert log.log_end_offset > appended, "offsets are never given twice"
    records = all_records(log)
    # 20 MiB have space for 420,000 of the 500,000 commits.
    assert len(records) < 0.9 * appended, "it was cleaned"
    last = last_by_key(records)
    for number in range(10, rounds + 1, 10):
        name = f"brief-{number}".encode()
        of_group = struct.pack(">hh", 1, len(name)) + name
        tombstones = [
            key for key, record in last.items() if key.startswith(of_group) and not record.value
        ]
        assert len(tombstones) == BRIEF_PARTITIONS, "younger than delete.retention.ms"


SETTINGS = {"offsets.topic.num.partitions": "1"}


@pytest.mark.campaign
def test_offsets_partition_has_at_most_20_mib_during_500_000_commits(
    brokers: Callable[..., Broker],
) -> None:
    check(brokers(SETTINGS), 500_000, 60)


@pytest.mark.planted("cleaning under churn")
def test_disk_use_check_fails_after_many_commits_when_the_log_cleaner_is_disabled(
    brokers: Callable[..., Broker],
) -> None:
    with pytest.raises(AssertionError, match="bytes are on the disk"):
        check(brokers(SETTINGS | {"log.cleaner.enable": "false"}), 500_000, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_offsets_partition_has_at_most_20_mib_during_5_000_000_commits(
    brokers: Callable[..., Broker],
) -> None:
    check(brokers(SETTINGS), 5_000_000, 0)
