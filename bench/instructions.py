"""Counts a broker's instructions per request, which do not depend on other load; needs valgrind.

    .venv/bin/python -m bench.instructions [--against TREE] [--only NAME,NAME] [--requests 3000]
      [--command-config FILE --server-config FILE]

Callgrind counts the instructions of the broker's process while it serves one client. Each scenario
runs on the code of this tree, and again with an authorizer and 1,000 ACLs. With ``--against`` it
also runs on the code of another tree, such as a worktree of an older commit, with the packages that
are installed for this tree.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.entries import ANYBODY, LOAD, entries, write
from bench.secured import Access, add_options, chosen
from client.security import PLAINTEXT
from tests.brokers import free_port
from tests.raw_connection import RawConnection, frame
from tests.waiting import until
from tests.wire import batch

ROOT = Path(__file__).parents[1]
WARM_UP = 300
"""The number of requests before the count begins."""
STARTS_WITHIN_S = 120.0
JUDGED = "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPICS = [f"topic-{number}" for number in range(10)]
GROUP = "counted"
JOIN = {
    "group_id": GROUP,
    "session_timeout_ms": 1_800_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


class Counted:
    """A broker under callgrind, with one client."""

    def __init__(self, tree: Path, directory: Path, access: Access, *words: str) -> None:
        self.port = free_port()
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        command += ["--callgrind-out-file=/dev/null", sys.executable, "-m", "cli.main", "serve"]
        command += ["--data", str(directory), "--listen", f"127.0.0.1:{self.port}", "--http", "off"]
        command += ["--set=num.partitions=1", "--set=offsets.topic.num.partitions=1"]
        command += [*access.sets(), *words]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(tree)}
        self.process = subprocess.Popen(
            command, cwd=tree, env=environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.wire = until(
            "the broker accepts connections", lambda: access.connect(self.port), STARTS_WITHIN_S
        )

    def control(self, *words: str) -> None:
        """Runs callgrind_control, which starts, resets or stops the count of instructions."""
        command = ["callgrind_control", *words, str(self.process.pid)]
        subprocess.run(command, check=True, capture_output=True)

    def drive(self, request: bytes, count: int, depth: int) -> None:
        """Sends ``count`` requests and reads their responses; ``depth`` requests are in flight."""
        sock = self.wire.socket
        for _ in range(depth):
            sock.sendall(request)
        for number in range(count):
            read(sock, struct.unpack(">i", read(sock, 4))[0])
            if number < count - depth:
                sock.sendall(request)

    def end(self) -> int:
        """Stops the broker. Returns the number of instructions that callgrind counted."""
        self.wire.close()
        self.process.terminate()
        _, printed = self.process.communicate(timeout=STARTS_WITHIN_S)
        found = re.search(r"Collected : (\d+)", printed)
        assert found is not None, printed
        return int(found[1])


def read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "the broker closed the connection"
        data += piece
    return bytes(data)


def heartbeat(_wire: RawConnection, member: dict[str, Any]) -> bytes:
    return frame("Heartbeat", 3, 1, member)


def consumer_heartbeat(wire: RawConnection, _member: dict[str, Any]) -> bytes:
    """Joins a consumer group (KIP-848). Returns a heartbeat of the new member, which reports no
    change."""
    member: dict[str, Any] = {
        "group_id": "counted-too",
        "member_id": "q7fz0bVIQ0qXr6bKq3fzAA",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": TOPICS,
        "topic_partitions": [],
    }
    answer = wire.call("ConsumerGroupHeartbeat", 1, **member)
    fields = {**member, "member_epoch": answer["member_epoch"], "rebalance_timeout_ms": -1}
    fields |= {"subscribed_topic_names": None, "topic_partitions": None}
    return frame("ConsumerGroupHeartbeat", 1, 1, fields)


def commit_value(topics: Sequence[str], member: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of an OffsetCommit request with one offset in each topic."""
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
    partitions = [{**partition, "committed_metadata": ""}]
    who = {"group_id": member["group_id"], "member_id": member["member_id"]}
    who["generation_id_or_member_epoch"] = member["generation_id"]
    named = [{"name": name, "partitions": partitions} for name in topics]
    return {**who, "topics": named}


def commit(_wire: RawConnection, member: dict[str, Any]) -> bytes:
    return frame("OffsetCommit", 7, 1, commit_value(TOPICS[:1], member))


def commit_ten(_wire: RawConnection, member: dict[str, Any]) -> bytes:
    return frame("OffsetCommit", 7, 1, commit_value(TOPICS, member))


def offset_fetch(wire: RawConnection, member: dict[str, Any]) -> bytes:
    """Commits offsets in ten topics. Returns an OffsetFetch request for these offsets."""
    wire.call("OffsetCommit", 7, **commit_value(TOPICS, member))
    named = [{"name": name, "partition_indexes": [0]} for name in TOPICS]
    return frame("OffsetFetch", 6, 1, {"group_id": member["group_id"], "topics": named})


def list_offsets(_wire: RawConnection, _member: dict[str, Any]) -> bytes:
    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    named = [{"name": name, "partitions": partitions} for name in TOPICS]
    return frame("ListOffsets", 5, 1, {"replica_id": -1, "isolation_level": 0, "topics": named})


def metadata(_wire: RawConnection, _member: dict[str, Any]) -> bytes:
    value = {"topics": [{"name": name} for name in TOPICS], "allow_auto_topic_creation": False}
    return frame("Metadata", 8, 1, value)


def join(_wire: RawConnection, member: dict[str, Any]) -> bytes:
    """Returns a JoinGroup request with which the group's only member rejoins. Each such request
    causes a rebalance."""
    return frame("JoinGroup", 3, 1, {**JOIN, "member_id": member["member_id"]})


def produce_value(topic: str, size: int) -> dict[str, Any]:
    """Returns the fields of a Produce request with one batch of one record of ``size`` bytes."""
    data = [{"index": 0, "records": batch(b"x" * size)}]
    return {
        "acks": 1,
        "timeout_ms": 5000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def produce(_wire: RawConnection, _member: dict[str, Any]) -> bytes:
    """Returns a Produce request with a batch of 16 kB."""
    return frame("Produce", 8, 1, produce_value(TOPICS[0], 16_000))


def fetch(wire: RawConnection, _member: dict[str, Any]) -> bytes:
    """Produces to ten partitions. Returns a Fetch request, without a fetch session, that reads
    these partitions from offset 0."""
    for topic in TOPICS:
        wire.call("Produce", 8, **produce_value(topic, 100))
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    value = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]} for topic in TOPICS],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return frame("Fetch", 11, 1, value)


SCENARIOS: dict[str, tuple[Callable[[RawConnection, dict[str, Any]], bytes], int]] = {
    "heartbeat": (heartbeat, 1),
    "heartbeat-d16": (heartbeat, 16),
    "consumer-heartbeat": (consumer_heartbeat, 1),
    "commit-1": (commit, 1),
    "commit-10": (commit_ten, 1),
    "join": (join, 1),
    "offset-fetch-10": (offset_fetch, 1),
    "list-offsets-10": (list_offsets, 1),
    "metadata-10": (metadata, 1),
    "produce-16k": (produce, 1),
    "fetch-10": (fetch, 1),
}
"""By scenario: the function that makes the request, and the number of requests in flight."""


def joined(wire: RawConnection) -> dict[str, Any]:
    """Joins the group as its only member, with a session timeout that is longer than the
    measurement."""
    wire.call("Metadata", 9, topics=[{"name": topic} for topic in TOPICS])

    def asked() -> dict[str, Any] | None:
        wire.call("FindCoordinator", 2, key=GROUP)
        answer = wire.call("JoinGroup", 3, **JOIN)
        return None if answer["error_code"] else answer

    answer = until("the client is a member of the group", asked, STARTS_WITHIN_S)
    assert answer is not None
    member = {key: answer[key] for key in ("generation_id", "member_id")}
    member["group_id"] = GROUP
    assignments = [{"member_id": member["member_id"], "assignment": b""}]
    wire.call("SyncGroup", 3, **member, assignments=assignments)
    return member


def counted(tree: Path, name: str, requests: int, access: Access, *, judged: bool = False) -> float:
    """Returns the number of instructions per request of scenario ``name``. With ``judged`` the
    broker has an authorizer and 1,000 ACLs."""
    make, depth = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as directory:
        if judged:
            load = LOAD if access.security == PLAINTEXT else ANYBODY
            write(Path(directory) / "acls.json", entries(1000, load))
        access.add_user(Path(directory))
        broker = Counted(tree, Path(directory), access, *([JUDGED] if judged else []))
        request = make(broker.wire, joined(broker.wire))
        broker.drive(request, WARM_UP, depth)
        broker.control("-i", "on")
        broker.drive(request, WARM_UP, depth)
        broker.control("-z")
        broker.drive(request, requests, depth)
        broker.control("-i", "off")
        return broker.end() / requests


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--against", type=Path)
    options.add_argument("--only", default=",".join(SCENARIOS))
    options.add_argument("--requests", type=int, default=3000)
    add_options(options)
    given = options.parse_args()
    access = chosen(given)
    for name in given.only.split(","):
        plain = counted(ROOT, name, given.requests, access)
        judged = counted(ROOT, name, given.requests, access, judged=True)
        line = f"{name:16} {plain:12,.0f}   with 1,000 ACLs {judged / plain - 1:+.1%}"
        if given.against is not None:
            before = counted(given.against.resolve(), name, given.requests, access)
            line += f"   compared with the other tree {plain / before - 1:+.1%}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
