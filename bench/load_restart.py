"""Measures one start for `bench/load.py`, and checks the offsets of every group."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from bench.load_process import Process
from bench.load_work import PARTITIONS, Work, name_of
from offsets.partitioner import partition_for
from protocol.headers import decode_response_header
from protocol.messages import BY_NAME
from tests.raw_connection import frame

SHARDS = 50
_FETCH_VERSION = 5


@dataclass
class Restart:
    """The measurements of one start of the broker."""

    listens_s: float
    first_s: float
    last_s: float
    longest_wait_ms: float
    rss_mb: float
    cpu_s: float


def restart(process: Process, work: Work) -> Restart:
    """Starts the broker, fetches the offsets of every group until the broker returns them, and
    checks the offsets."""
    frames = [
        frame("OffsetFetch", _FETCH_VERSION, group, {"group_id": name_of(group), "topics": None})
        for group in range(work.groups)
    ]
    by_shard: list[list[int]] = [[] for _ in range(SHARDS)]
    for group in range(work.groups):
        by_shard[partition_for(name_of(group), SHARDS)].append(group)
    waiting = [groups for groups in by_shard if groups]
    process.start()
    connection = process.connected()
    listens = time.monotonic()
    first = 0.0
    longest = 0.0
    answers: dict[int, bytes] = {}
    probe = frame("ApiVersions", 0, -1, {})
    while len(answers) < work.groups:
        asked_at = time.monotonic()
        ask(connection.socket, [probe], {})
        longest = max(longest, time.monotonic() - asked_at)
        loaded: dict[int, bytes] = {}
        ask(connection.socket, [frames[groups[0]] for groups in waiting], loaded)
        ready = [groups for groups in waiting if refused(loaded[groups[0]]) == 0]
        waiting = [groups for groups in waiting if refused(loaded[groups[0]]) != 0]
        for groups in ready:
            first = first or time.monotonic()
            ask(connection.socket, [frames[group] for group in groups], answers)
        if not ready:
            time.sleep(0.005)
    for group, (member_id, generation_id) in work.members.items():
        member = {"member_id": member_id, "generation_id": generation_id}
        beat = connection.call("Heartbeat", 3, group_id=name_of(group), **member)
        assert beat["error_code"] == 0, (
            f"{name_of(group)} has lost its member, Heartbeat returned {beat}"
        )
    last = time.monotonic()
    cpu_s, rss_mb = process.cpu_s(), process.status("VmRSS")
    connection.close()
    check(answers, work)
    at = process.exec_at
    return Restart(listens - at, first - at, last - at, longest * 1000, rss_mb, cpu_s)


def refused(answer: bytes) -> int:
    """Returns the error code of an OffsetFetch response of version 5; the error code is the last
    field."""
    code = int.from_bytes(answer[-2:], "big")
    assert code in (0, 14, 15, 16), f"error {code}"
    return code


def ask(sock: socket.socket, frames: list[bytes], answers: dict[int, bytes]) -> None:
    """Sends ``frames`` without waiting for responses in between, and stores each response by its
    correlation id."""
    data, left = b"", len(frames)
    for start in range(0, len(frames), 512):
        batch = frames[start : start + 512]
        sock.sendall(b"".join(batch))
        left = len(batch)
        while left:
            received = sock.recv(1 << 18)
            assert received, "the broker closed the connection"
            data += received
            position = 0
            while len(data) - position >= 4:
                end = position + 4 + int.from_bytes(data[position : position + 4], "big")
                if end > len(data):
                    break
                answers[struct.unpack_from(">i", data, position + 4)[0]] = data[position + 4 : end]
                position, left = end, left - 1
            data = data[position:]


def check(answers: dict[int, bytes], work: Work) -> None:
    """Checks that a group has the same offset in all partitions: that of its last acknowledged
    commit or of a later commit."""
    api = BY_NAME["OffsetFetch"]
    for group, answer in answers.items():
        _, position = decode_response_header(api.key, _FETCH_VERSION, answer)
        found = api.decode_response(_FETCH_VERSION, answer, position)
        assert found["error_code"] == 0, (name_of(group), found["error_code"])
        numbers = {p["committed_offset"] for t in found["topics"] for p in t["partitions"]}
        [number] = numbers
        assert sum(len(t["partitions"]) for t in found["topics"]) == PARTITIONS
        assert work.acked[group] <= number <= work.sent[group], (
            f"{name_of(group)} has offset {number}; the last acknowledged offset is"
            f" {work.acked[group]}, the last sent offset {work.sent[group]}"
        )
        work.acked[group] = number
