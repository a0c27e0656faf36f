"""How quickly a killed broker is back, and what a million cached offsets cost.

10,000,000 offsets are committed (50 partitions a request, random groups) so that 1,000,000 live in
20,000 groups; the broker is killed under load and started again, with its snapshots and without.
Measured is the time from exec until the last of all groups has answered OffsetFetch with what was
acknowledged, and a Heartbeat of each restored member is answered 0. Then as many offsets again.

    python -m bench.load [--scale 0.1] [--data DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import random
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offsets.partitioner import partition_for
from protocol.headers import decode_response_header
from protocol.messages import BY_NAME
from tests.raw_connection import RawConnection, frame

GROUPS = 20_000
COMMITS = 200_000
PARTITIONS = 50
SHARDS = 50
MEMBERS = 20
TOPIC = "load"
DEPTH = 128
CONNECTIONS = 4
_MARK = 0x7A7B7C7D7E7F7071
_COMMIT_VERSION, _FETCH_VERSION = 7, 5
READY_WITHIN_S = 600.0
GOAL_WITH_S, GOAL_WITHOUT_S, GOAL_MB = 3.0, 15.0, 150.0

Settings = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "3600000",
    "log.cleaner.backoff.ms": "1000",
}


@dataclass
class Process:
    """One broker over one data directory."""

    data: Path
    port: int = 0
    popen: subprocess.Popen[bytes] | None = None
    exec_at: float = 0.0

    def start(self) -> None:
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        sets = [f"--set={key}={value}" for key, value in Settings.items()]
        command = [sys.executable, "-m", "cli.main", "serve", "--listen"]
        command += [f"127.0.0.1:{self.port}", "--data", str(self.data), "--http", "off", *sets]
        out = (self.data.parent / "broker.log").open("ab")
        self.exec_at = time.monotonic()
        self.popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )

    def connected(self) -> RawConnection:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                return RawConnection(self.port, READY_WITHIN_S)
            except OSError:
                assert self.popen is not None
                assert self.popen.poll() is None, "the broker ended: see broker.log"
                assert time.monotonic() < deadline, "the broker does not listen"
                time.sleep(0.002)

    def end(self, how: signal.Signals) -> None:
        if self.popen is not None:
            self.popen.send_signal(how)
            self.popen.wait(120)
            self.popen = None

    def status(self, name: str) -> float:
        """A line of the kernel's status of the process, in MB."""
        assert self.popen is not None
        text = Path(f"/proc/{self.popen.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith(name + ":"))
        return int(line.split()[1]) * 1024 / 1e6

    def cpu_s(self) -> float:
        assert self.popen is not None
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@dataclass
class Work:
    """What is committed, and what is known of it."""

    groups: int
    commits: int
    number: int = 0
    sent: dict[int, int] = field(default_factory=dict)
    """Group to the number that was sent last; all its partitions have it for their offset."""
    acked: dict[int, int] = field(default_factory=dict)
    members: dict[int, tuple[str, int]] = field(default_factory=dict)
    pieces: dict[int, list[bytes]] = field(default_factory=dict)

    def frame(self, group: int, number: int) -> bytes:
        """A commit of all partitions by one group, at the offset ``number``."""
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
        """The groups of one of the connections in the order of their commits, together some.

        With ``cover`` each of them once at first. A group keeps to its connection, so that what it
        commits stays in order.
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
    """One connection with up to DEPTH commits in flight."""

    def __init__(self, port: int, work: Work, turns: Iterator[int]) -> None:
        self.work, self.turns = work, turns
        self.socket = socket.create_connection(("127.0.0.1", port))
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
            with contextlib.suppress(BlockingIOError):
                self.out = self.out[self.socket.send(self.out) :]

    def take(self) -> None:
        try:
            self.data += self.socket.recv(1 << 18)
        except (BlockingIOError, ConnectionError):
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
    """Send commits; with ``kill_at`` kill the broker when so many are answered; seconds."""
    began = time.monotonic()
    count = 2 * kill_at or work.commits
    streams = [
        Stream(process.port, work, work.order(number, count, chance, cover))
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
    """Make the first groups have a member each."""
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


@dataclass
class Restart:
    """What one start took."""

    listens_s: float
    first_s: float
    last_s: float
    longest_wait_ms: float
    rss_mb: float
    cpu_s: float


def restart(process: Process, work: Work) -> Restart:
    """Start, and ask every group until each has answered; then check what it said."""
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
        assert beat["error_code"] == 0, f"{name_of(group)} has lost its member: {beat}"
    last = time.monotonic()
    cpu_s, rss_mb = process.cpu_s(), process.status("VmRSS")
    connection.close()
    check(answers, work)
    at = process.exec_at
    return Restart(listens - at, first - at, last - at, longest * 1000, rss_mb, cpu_s)


def refused(answer: bytes) -> int:
    """The error code of an OffsetFetch answer, its last field in this version."""
    code = int.from_bytes(answer[-2:], "big")
    assert code in (0, 14, 15, 16), f"error {code}"
    return code


def ask(sock: socket.socket, frames: list[bytes], answers: dict[int, bytes]) -> None:
    """Send ``frames`` with one another and take all answers, by their correlation ids."""
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
    """Every group has one of its own commits whole: what was acknowledged, or a later one."""
    api = BY_NAME["OffsetFetch"]
    for group, answer in answers.items():
        _, position = decode_response_header(api.key, _FETCH_VERSION, answer)
        found = api.decode_response(_FETCH_VERSION, answer, position)
        assert found["error_code"] == 0, (name_of(group), found["error_code"])
        numbers = {p["committed_offset"] for t in found["topics"] for p in t["partitions"]}
        [number] = numbers
        assert sum(len(t["partitions"]) for t in found["topics"]) == PARTITIONS
        assert work.acked[group] <= number <= work.sent[group], (
            f"{name_of(group)}: acknowledged {work.acked[group]}, found {number},"
            f" sent {work.sent[group]}"
        )
        work.acked[group] = number


def disk(data: Path) -> str:
    files = list(data.glob("__consumer_offsets-*/*"))
    logs = sum(f.stat().st_size for f in files if f.suffix == ".log")
    images = [f.stat().st_size for f in files if f.name == "groups.image"]
    return f"logs {logs / 1e6:.0f} MB, {len(images)} snapshots of {sum(images) / 1e6:.1f} MB"


def tell(what: str, found: Restart, empty_mb: float, millions: float, goal_s: float | None) -> None:
    goal = "" if goal_s is None else f" (goal {goal_s:g})"
    print(
        f"{what}: all groups after {found.last_s:.2f} s{goal}; listens {found.listens_s:.2f},"
        f" first {found.first_s:.2f}; CPU {found.cpu_s:.2f} s;"
        f" longest answer to a bystander {found.longest_wait_ms:.0f} ms;"
        f" {(found.rss_mb - empty_mb) / millions:.0f} MB a million offsets",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scale", type=float, default=1.0, help="of 20,000 groups")
    parser.add_argument("--data", type=Path, help="an empty directory; a temporary one by default")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    directory = options.data or Path(tempfile.mkdtemp(prefix="muster-load-"))
    work = Work(int(GROUPS * options.scale), int(COMMITS * options.scale))
    process = Process(directory / "data")
    process.data.mkdir(parents=True)
    try:
        measure(process, work, random.Random(options.seed))
    finally:
        process.end(signal.SIGKILL)
        if options.data is None:
            shutil.rmtree(directory)


def measure(process: Process, work: Work, chance: random.Random) -> None:
    """Everything, in order."""
    millions = work.groups * PARTITIONS / 1e6
    process.start()
    with process.connected() as connection:
        topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
        made = connection.call("CreateTopics", 4, topics=[topic], timeout_ms=20000)
        assert made["topics"][0]["error_code"] == 0, made
        found = connection.call("FindCoordinator", 1, key="x", key_type=0)
        assert found["error_code"] == 0, found
        time.sleep(1)
        empty_mb = process.status("VmRSS")
        join(connection, work)
    print(f"empty: {empty_mb:.0f} MB", flush=True)
    took = commit(process, work, chance, True, kill_at=work.commits)
    offsets = work.commits * PARTITIONS
    print(f"{offsets:,} offsets committed in {took:.1f} s; {disk(process.data)}", flush=True)
    found_with = restart(process, work)
    tell("killed, with snapshots", found_with, empty_mb, millions, GOAL_WITH_S)
    process.end(signal.SIGKILL)
    for image in process.data.glob("__consumer_offsets-*/groups.image"):
        image.unlink()
    found_without = restart(process, work)
    tell("killed, snapshots deleted", found_without, empty_mb, millions, GOAL_WITHOUT_S)
    took = commit(process, work, chance, False)
    again_mb = process.status("VmRSS") - empty_mb
    print(f"{offsets:,} more in {took:.1f} s; {disk(process.data)}", flush=True)
    print(f"memory: {again_mb / millions:.0f} MB a million offsets (goal {GOAL_MB:g})", flush=True)
    process.end(signal.SIGTERM)
    tell("stopped in order", restart(process, work), empty_mb, millions, None)


if __name__ == "__main__":
    main()
