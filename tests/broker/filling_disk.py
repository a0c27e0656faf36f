"""Client requests on a disk that becomes full, and the checks afterwards.

`Life` repeats the same operations and records which of them were acknowledged. The disk of
`FillingFiles` becomes full at some write, and stays full for a number of calls. A topic can be
deleted and recreated under the same name. Each record and commit contains the number of its topic,
so that the checks can distinguish the two topics.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import Any

from broker.broker import Broker
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.simulated_files import SimulatedFile, SimulatedFiles
from tests.wire import Wire, batch

EARLIEST = -2


class FillingFiles(SimulatedFiles):
    """A file system on a disk that is full during some calls. ``full`` has the numbers of these
    calls. Calls that need no space are not numbered."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        """The number of calls that needed space: writes that extend a file, and creations of files
        and directories."""
        self.full = range(0)
        self.checked = False
        """True while the test checks results. The disk then has free space, and calls of the file
        system are not counted."""

    def is_full(self) -> bool:
        if self.checked:
            return False
        self.asked += 1
        return self.asked - 1 in self.full

    def room(self, more: int) -> int:
        if more <= 0 or not self.is_full():
            return 1 << 40
        return -1 - self.asked * 7919 % more  # a part of the data fits

    def open(self, path: str, create: bool = False) -> SimulatedFile:
        if create and path not in self.names:
            self._refuse_if_full(path)
        return super().open(path, create)

    def make_directory(self, path: str) -> None:
        if path not in self.directories:
            self._refuse_if_full(path)
        super().make_directory(path)

    def link(self, old: str, new: str) -> None:
        self._refuse_if_full(new)
        super().link(old, new)

    def as_killed(self) -> FillingFiles:
        found, plain = FillingFiles(), super().as_killed()
        found.names, found.directories = plain.names, plain.directories
        found.asked, found.full = self.asked, self.full
        return found

    def has_room_again(self) -> None:
        """Frees space on the disk for the checks. A disk that has been full does not become full
        again."""
        self.checked = True
        if self.asked > self.full.start:
            self.full = range(0)

    def _refuse_if_full(self, path: str) -> None:
        if self.is_full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


@dataclass
class Topic:
    number: int
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """The value of each acknowledged record, by offset."""
    start: int = 0
    """The highest offset in DeleteRecords requests, including failed requests."""
    commits: dict[str, list[int]] = field(default_factory=dict)
    """For each group and version of OffsetCommit: first the last acknowledged commit, and then the
    later commits, none of which was acknowledged."""


class Life:
    """Sends requests, records which requests were acknowledged, and checks their effects."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.producer_ids: set[int] = set()
        self.configs: dict[str, str] = {}
        self.refused_names: set[str] = set()
        """Topics whose creation failed. If the broker could neither create the directories of such
        a topic nor remove the topic from the topic list, the topic can exist after the next start,
        without records."""
        self.refused = 0
        """The number of operations that were not acknowledged."""
        self._numbers = iter(range(1, 1 << 30))

    # -- operations of clients

    def create(self, wire: Wire, name: str, **configs: str) -> None:
        code = create_topic(wire, name, 2, configs=configs)["error_code"]
        if code == NONE:
            self.topics[name] = Topic(next(self._numbers))
        else:
            self.refused += 1
            self.refused_names.add(name)

    def delete(self, wire: Wire, name: str) -> None:
        answer = wire.call("DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 10_000})
        code = answer["responses"][0]["error_code"]
        if code == NONE or (code == UNKNOWN_TOPIC_OR_PARTITION and name not in self.topics):
            self.topics.pop(name, None)
        else:
            self.refused += 1

    def produce(self, wire: Wire, name: str, count: int) -> None:
        for _ in range(count):
            topic = self.topics.get(name)
            number = next(self._numbers)
            value = b"%s#%d %d" % (name.encode(), topic.number if topic else 0, number)
            entry = produce(wire, name, batch(value + b"." * 80))
            if entry["error_code"] == NONE:
                assert topic is not None, f"{name} takes records and is not there"
                topic.acknowledged[entry["base_offset"]] = value
            else:
                self.refused += 1

    def commit(self, wire: Wire, group: str, name: str, version: int = 8) -> None:
        topic = self.topics.get(name)
        offset = next(self._numbers)
        partition = {
            "partition_index": 0, "committed_offset": offset, "committed_metadata": "",
        }  # fmt: skip
        value: dict[str, Any] = {
            "group_id": group,
            "topics": [{"name": name, "partitions": [partition]}],
        }
        if version:
            value |= {"generation_id_or_member_epoch": -1, "member_id": ""}
        answer = wire.call("OffsetCommit", version, value)
        code = answer["topics"][0]["partitions"][0]["error_code"]
        if topic is None:
            assert code != NONE
            return
        kept = topic.commits.setdefault(f"{group} {version and 8}", [-1])
        if code == NONE:
            kept[:] = [offset]
        else:
            kept.append(offset)
            self.refused += 1

    def delete_records(self, wire: Wire, name: str, offset: int) -> None:
        topic = self.topics.get(name)
        asked = {"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}
        wire.call("DeleteRecords", 1, {"topics": [asked], "timeout_ms": 1000})
        if topic is not None:
            topic.start = max(topic.start, offset)

    def alter(self, wire: Wire, name: str, retention_ms: str) -> None:
        changed = {"name": "retention.ms", "config_operation": 0, "value": retention_ms}
        resource = {"resource_type": 2, "resource_name": name, "configs": [changed]}
        answer = wire.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
        if answer["responses"][0]["error_code"] == NONE:
            self.configs[name] = retention_ms
        else:
            self.refused += 1

    def producer_id(self, wire: Wire) -> None:
        answer = wire.call(
            "InitProducerId", 1, {"transactional_id": None, "transaction_timeout_ms": 1000}
        )
        if answer["error_code"] == NONE:
            assert answer["producer_id"] not in self.producer_ids, "an id is given out twice"
            self.producer_ids.add(answer["producer_id"])
        else:
            self.refused += 1

    def join(self, wire: Wire, group: str) -> None:
        """Sends requests of a member that joins and leaves the group. Every error code is
        accepted."""
        joined = wire.call(
            "JoinGroup",
            3,
            {
                "group_id": group,
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        )
        if joined["error_code"] != NONE:
            self.refused += 1
            return
        member = {"group_id": group, "member_id": joined["member_id"]}
        given = {"member_id": joined["member_id"], "assignment": b"all"}
        synced = {**member, "generation_id": joined["generation_id"], "assignments": [given]}
        self.refused += wire.call("SyncGroup", 3, synced)["error_code"] != NONE
        wire.call("LeaveGroup", 2, member)

    # -- checks

    def check(self, wire: Wire, broker: Broker) -> None:
        """Checks that every acknowledged operation is visible, and that no record of a deleted
        topic is visible."""
        there = set(broker.registry.topics) - {"__consumer_offsets"}
        assert set(self.topics) <= there
        for name in there - set(self.topics):
            assert name in self.refused_names, f"{name} was deleted, or never asked for"
            assert not read(wire, name)
            self.topics[name] = Topic(next(self._numbers))
        for name, topic in self.topics.items():
            found = read(wire, name)
            start = topic.start
            if "retention.bytes" in broker.registry.topics[name].configs and found:
                start = min(found)
            for offset, value in topic.acknowledged.items():
                if offset >= start:
                    assert found.get(offset) == value, f"{name} has lost offset {offset}"
            mine = b"%s#%d " % (name.encode(), topic.number)
            assert all(value.startswith(mine) for value in found.values()), found
        self._check_commits(wire)
        for name, value in self.configs.items():
            if name in self.topics:
                assert broker.registry.topics[name].configs.get("retention.ms") == value
        answer = wire.call(
            "InitProducerId", 1, {"transactional_id": None, "transaction_timeout_ms": 1000}
        )
        assert answer["error_code"] == NONE
        assert answer["producer_id"] not in self.producer_ids, "an id is given out twice"
        self.producer_ids.add(answer["producer_id"])

    def _check_commits(self, wire: Wire) -> None:
        groups = {key for topic in self.topics.values() for key in topic.commits} | {"g 8", "h 8"}
        for key in groups:
            group, version = key.split()
            for name, topic in self.topics.items():
                expected = topic.commits.get(key, [-1])
                found = committed(wire, group, name, int(version))
                assert found in expected, f"{key} is at {found} in {name}, not at {expected}"


def read(wire: Wire, name: str) -> dict[int, bytes]:
    """Returns the value of every record of partition 0, without padding, by offset."""
    found = {}
    offset = list_offset(wire, name, EARLIEST)["offset"]
    while data := fetch(wire, name, offset)["records"]:
        for header, _ in iter_stored(data, partial=True):
            for record in records_of(data, header):
                found[record.offset] = (record.value or b"").rstrip(b".")
            offset = header.last_offset + 1
    return found


def committed(wire: Wire, group: str, name: str, version: int) -> int:
    """Returns the committed offset of the group in partition 0; -1 if the group has no offset."""
    topics = [{"name": name, "partition_indexes": [0]}]
    version = version and 7
    while True:
        answer = wire.call("OffsetFetch", version, {"group_id": group, "topics": topics})
        if answer.get("error_code", NONE) != COORDINATOR_LOAD_IN_PROGRESS:
            break
    assert answer.get("error_code", NONE) in (NONE, GROUP_ID_NOT_FOUND), answer
    entry = answer["topics"][0]["partitions"][0]
    found: int = entry["committed_offset"]
    return found
