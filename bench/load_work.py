"""The load of `bench/load.py`: commits in a random order of groups, and members of groups."""

from __future__ import annotations

import contextlib
import random
import selectors
import signal
import ssl
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.load_process import Process
from tests.raw_connection import RawConnection, frame

PARTITIONS = 50
MEMBERS = 20
TOPIC = "load"
DEPTH = 128
CONNECTIONS = 4
_MARK = 0x7A7B7C7D7E7F7071
_COMMIT_VERSION = 7
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass
class Work:
    """The commits that the tool has sent, and those that the broker has acknowledged."""

    groups: int
    commits: int
    number: int = 0
    sent: dict[int, int] = field(default_factory=dict)
    """By group: the number of the last commit that was sent for it. Commit n commits offset n in
    all partitions."""
    acked: dict[int, int] = field(default_factory=dict)
    members: dict[int, tuple[str, int]] = field(default_factory=dict)
    pieces: dict[int, list[bytes]] = field(default_factory=dict)

    def frame(self, group: int, number: int) -> bytes:
        """Returns an OffsetCommit request in which a group commits the offset ``number`` in all
        partitions."""
        pieces = self.pieces.get(group)
        if pieces is None:
            member_id, generation_id = self.members.get(group, ("", -1))
            part = {"committed_offset": _MARK, "committed_metadata": ""}
            partitions = [{"partition_index": p, **part} for p in range(PARTITIONS)]
            made = frame(
                "OffsetCommit",
                _COMMIT_VERSION,
                0,
                {
                    "group_id": name_of(group),
                    "generation_id_or_member_epoch": generation_id,
                    "member_id": member_id,
                    "topics": [{"name": TOPIC, "partitions": partitions}],
                },
            )
            pieces = self.pieces[group] = made.split(struct.pack(">q", _MARK))
        return struct.pack(">q", number).join(pieces)

    def order(self, stream: int, commits: int, chance: random.Random, cover: bool) -> Iterator[int]:
        """Yields the groups for which connection ``stream`` commits, in order.

        With ``cover``, the order begins with every group once. A group always uses the same
        connection, so its commits stay in order.
        """
        groups = list(range(stream, self.groups, CONNECTIONS))
        commits //= CONNECTIONS
        if cover:
            chance.shuffle(groups)
            yield from groups
            commits -= len(groups)
        for _ in range(commits):
            yield chance.choice(groups)


def name_of(group: int) -> str:
    return f"bench-group-{group:05d}"


class Stream:
    """A connection with up to `DEPTH` OffsetCommit requests in flight."""

    def __init__(self, process: Process, work: Work, turns: Iterator[int]) -> None:
        self.work, self.turns = work, turns
        self.socket = process.access.connect(process.port).socket
        self.socket.setblocking(False)
        self.flight: list[tuple[int, int]] = []
        self.answered = 0
        self.out = b""
        self.data = b""
        self.over = False

    def pump(self) -> None:
        work = self.work
        if not self.out and not self.over and len(self.flight) - self.answered <= DEPTH // 2:
            frames = []
            for _ in range(DEPTH // 2):
                group = next(self.turns, None)
                if group is None:
                    self.over = True
                    break
                work.number += 1
                work.sent[group] = work.number
                self.flight.append((group, work.number))
                frames.append(work.frame(group, work.number))
            self.out = b"".join(frames)
        if self.out:
            with contextlib.suppress(*_LATER):
                self.out = self.out[self.socket.send(self.out) :]

    def take(self) -> None:
        try:
            self.data += self.socket.recv(1 << 18)
        except (*_LATER, ConnectionError):
            return
        position = 0
        data = self.data
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            body = data[position + 8 : end]
            assert not any(body[-6 * PARTITIONS + 4 :: 6]), body
            assert not any(body[-6 * PARTITIONS + 5 :: 6]), body
            group, number = self.flight[self.answered]
            self.work.acked[group] = max(number, self.work.acked.get(group, 0))
            self.answered += 1
            position = end
        self.data = data[position:]

    @property
    def done(self) -> bool:
        return self.over and not self.out and self.answered == len(self.flight)


def commit(
    process: Process, work: Work, chance: random.Random, cover: bool, kill_at: int = 0
) -> float:
    """Sends `work.commits` commits. Returns the seconds until the last response. If ``kill_at`` is
    not 0, kills the broker after ``kill_at`` responses."""
    began = time.monotonic()
    count = 2 * kill_at or work.commits
    streams = [
        Stream(process, work, work.order(number, count, chance, cover))
        for number in range(CONNECTIONS)
    ]
    selector = selectors.DefaultSelector()
    for stream in streams:
        selector.register(stream.socket, selectors.EVENT_READ, stream)
        stream.pump()
    while not all(stream.done for stream in streams):
        for key, _ in selector.select(0.01):
            key.data.take()
        for stream in streams:
            stream.pump()
        if kill_at and sum(stream.answered for stream in streams) >= kill_at:
            process.end(signal.SIGKILL)
            break
    for stream in streams:
        stream.take()
        stream.socket.close()
    return time.monotonic() - began


def join(connection: RawConnection, work: Work) -> None:
    """Adds one member to each of the first `MEMBERS` groups."""
    for group in range(MEMBERS):
        session = {"session_timeout_ms": 3_600_000, "rebalance_timeout_ms": 60_000}
        protocols = [{"name": "range", "metadata": b""}]
        more: dict[str, Any] = {"protocol_type": "consumer", "protocols": protocols, **session}
        name = name_of(group)
        joined = connection.call("JoinGroup", 3, group_id=name, member_id="", **more)
        assert joined["error_code"] == 0, joined
        member = {"member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        assignments = [{"member_id": joined["member_id"], "assignment": b"all"}]
        synced = connection.call("SyncGroup", 3, group_id=name, assignments=assignments, **member)
        assert synced["error_code"] == 0, synced
        work.members[group] = (joined["member_id"], joined["generation_id"])
