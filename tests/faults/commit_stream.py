"""A connection that pipelines commits until its broker dies, and records the outcome of each
commit.

A commit stores its number as the offset of all partitions of its topic, and also in the metadata.
An offset that is read later therefore identifies the request that committed it.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from protocol.framing import Framer
from tests.raw_connection import answer, frame

_MARK = 0x7A7B7C7D7E7F7071
_CHUNK_FRAMES = 32


@dataclass
class History:
    """Counts the sent and the acknowledged commits of one group. Kills and restarts of the broker
    do not reset the numbers."""

    topic: str
    partitions: int
    sent: int = 0
    acknowledged: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class CommitStream:
    """Commits of one group on one connection, with at most ``depth`` requests without a
    response."""

    def __init__(self, port: int, group: str, history: History, version: int, depth: int) -> None:
        self.history = history
        self.version = version
        self.depth = depth
        self.ends: list[int] = []  # the stream position at which each request ends
        self.numbers: list[int] = []  # the number of the commit in each request
        self.answers = 0
        self.written_bytes = 0
        self._pending = b""
        self._framer = Framer(1 << 20, 4)
        self._template, self._spots, self._metadata = self._make_template(group)
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.ports = (self.socket.getsockname()[1], port)

    def _make_template(self, group: str) -> tuple[bytes, list[int], list[int]]:
        text = _metadata(0)
        partitions = [
            {
                "partition_index": p,
                "committed_offset": _MARK,
                "committed_leader_epoch": -1,
                "committed_metadata": text,
            }
            for p in range(self.history.partitions)
        ]
        made = frame(
            "OffsetCommit",
            self.version,
            _MARK >> 32,
            {
                "group_id": group,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": self.history.topic, "partitions": partitions}],
            },
        )
        spots = [found.start() for found in re.finditer(re.escape(struct.pack(">q", _MARK)), made)]
        metadata = [found.start() for found in re.finditer(text.encode(), made)]
        assert len(spots) == len(metadata) == self.history.partitions
        return made, spots, metadata

    def _next_frame(self) -> bytes:
        number = next(self.history.numbers)
        made = bytearray(self._template)
        struct.pack_into(">i", made, 8, len(self.numbers))  # the correlation id counts requests
        text = _metadata(number).encode()
        for spot in self._spots:
            struct.pack_into(">q", made, spot, number)
        for spot in self._metadata:
            made[spot : spot + len(text)] = text
        self.numbers.append(number)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(made))
        return bytes(made)

    def write(self) -> None:
        """Sends as many bytes as the limit of unanswered requests and the socket allow."""
        while True:
            if not self._pending:
                room = min(self.depth - (len(self.numbers) - self.answers), _CHUNK_FRAMES)
                if room <= 0:
                    return
                self._pending = b"".join(self._next_frame() for _ in range(room))
            try:
                sent = self.socket.send(self._pending)
            except (BlockingIOError, ConnectionError):
                return
            self.written_bytes += sent
            self._pending = self._pending[sent:]
            if whole := self._whole(self.written_bytes):  # a broker cannot act on a partial request
                self.history.sent = self.numbers[whole - 1]

    def _whole(self, position: int) -> int:
        """Returns the number of requests that end at or before ``position`` in the byte stream."""
        return bisect.bisect_right(self.ends, position)

    def read(self) -> None:
        """Reads responses. Checks that each response acknowledges the next request."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while data := self.socket.recv(1 << 16):
                for each in self._framer.feed(data):
                    self._acknowledged(each)

    def _acknowledged(self, data: bytes) -> None:
        correlation_id, value = answer("OffsetCommit", self.version, data)
        assert correlation_id == self.answers, "answers must come in the order of the requests"
        [topic] = value["topics"]
        assert {p["error_code"] for p in topic["partitions"]} == {0}, value
        self.history.acknowledged = self.numbers[self.answers]
        self.answers += 1

    def arrived(self, queues: dict[tuple[int, int], tuple[int, int]]) -> int:
        """Returns a lower bound of the number of complete requests that the broker's process has
        read. It is computed from the number of bytes that the client has written, minus the bytes
        that are still in the socket buffers of the kernel."""
        mine, its = self.ports
        unsent, _ = queues[mine, its]
        _, unread = queues[its, mine]
        return self._whole(self.written_bytes - unsent - unread)


def _metadata(number: int) -> str:
    return f"commit-{number:012d}"


def number_of(metadata: str) -> int:
    """Returns the commit number that a `CommitStream` has written into ``metadata``, or -1 if
    another client wrote the metadata."""
    found = re.fullmatch(r"commit-(\d{12})", metadata)
    return int(found[1]) if found else -1


def stand_still(pid: int, within_s: float = 5.0) -> None:
    """Sends SIGSTOP and waits until each thread of the process has stopped."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + within_s
    while not all(
        task.read_text().rpartition(") ")[2][0] in "Tt"
        for task in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        assert time.monotonic() < deadline, f"process {pid} does not stop"


def queued_bytes() -> dict[tuple[int, int], tuple[int, int]]:
    """Returns the unacknowledged and the unread bytes of each TCP socket, by local port and remote
    port."""
    queues = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            local, remote = (int(column.rpartition(":")[2], 16) for column in columns[1:3])
            unsent, unread = (int(part, 16) for part in columns[4].split(":"))
            queues[local, remote] = unsent, unread
    return queues
