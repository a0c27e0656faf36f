"""A broker whose log output fails or blocks serves clients, and still exits after a fatal error."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.brokers import COMMAND, KIND, Broker
from tests.wire import Wire

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(KIND != "muster", reason="it tests how Muster writes its log"),
    pytest.mark.proves("faults 4"),
]

FSYNC_FAILS = """
import errno, os, sys
from log.files.os_file import OsFile
fsync = OsFile.fsync
def failing(self):
    if os.path.exists(os.environ["FSYNC_FAILS"]):
        raise OSError(errno.EIO, "Input/output error")
    fsync(self)
OsFile.fsync = failing
from cli.main import main
main()
"""

Start = Callable[..., Broker]


@pytest.fixture(params=["closed", "full disk", "reader gone", "reader asleep"])
def deaf(
    request: pytest.FixtureRequest, brokers: Callable[..., Broker], tmp_path: Path
) -> Iterator[Start]:
    """Yields a function ``deaf(settings, command)`` that starts a broker whose standard error
    cannot be written."""
    where = {"closed": "&-", "full disk": "/dev/full"}.get(request.param, str(tmp_path / "pipe"))
    reading = -1
    if where.endswith("pipe"):
        os.mkfifo(where)
        reading = os.open(where, os.O_RDWR | os.O_NONBLOCK)
        if request.param == "reader asleep":
            with suppress(BlockingIOError):
                while True:
                    os.write(reading, b"." * 512)

    def start(settings: dict[str, str] | None = None, command: list[str] | None = None) -> Broker:
        nonlocal reading
        words = ["sh", "-c", f'exec "$@" 2>{where}', "sh", *(command or COMMAND)]
        broker = brokers({"log.level": "debug", **(settings or {})}, command=words)
        if request.param == "reader gone":
            os.close(reading)
            reading = -1
        return broker

    yield start
    if reading >= 0:
        os.close(reading)


def commit(wire: Wire, group: str, offset: int, **who: Any) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    value = {
        "group_id": group,
        "generation_id_or_member_epoch": who.get("generation_id", -1),
        "member_id": who.get("member_id", ""),
        "topics": [{"name": "t", "partitions": [partition]}],
    }
    answer = wire.call("OffsetCommit", 8, value)
    return int(answer["topics"][0]["partitions"][0]["error_code"])


def committed(wire: Wire, group: str) -> int:
    value = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = wire.call("OffsetFetch", 5, value)
    return int(answer["topics"][0]["partitions"][0]["committed_offset"])


def life_of(wire: Wire, group: str) -> None:
    """Joins a group, commits forward and backward, and sends a rejected commit. The broker logs a
    line for each step."""
    waiting.until(
        f"{group} has a coordinator",
        lambda: wire.call("FindCoordinator", 1, {"key": group})["error_code"] == 0,
    )
    joining = {
        "group_id": group,
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 6000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    joined = wire.call("JoinGroup", 3, joining)
    assert joined["error_code"] == 0
    who = {"generation_id": joined["generation_id"], "member_id": joined["member_id"]}
    given = [{"member_id": who["member_id"], "assignment": b"all"}]
    synced = wire.call("SyncGroup", 3, {"group_id": group, **who, "assignments": given})
    assert (synced["error_code"], synced["assignment"]) == (0, b"all")
    assert commit(wire, group, 7, **who) == 0
    assert commit(wire, group, 5, **who) == 0
    assert commit(wire, group, 9, **{**who, "generation_id": 99}) == 22
    assert wire.call("Heartbeat", 3, {"group_id": group, **who})["error_code"] == 0
    left = wire.call("LeaveGroup", 1, {"group_id": group, "member_id": who["member_id"]})
    assert left["error_code"] == 0
    assert committed(wire, group) == 5


def create_topic(wire: Wire) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    answer = wire.call("CreateTopics", 2, {"topics": [topic], "timeout_ms": 9000})
    assert answer["topics"][0]["error_code"] == 0


def test_groups_are_served_normally_when_log_output_fails(deaf: Start) -> None:
    broker = deaf()
    with Wire(broker.port) as wire:
        create_topic(wire)
        for number in range(300):
            life_of(wire, f"group-{number % 30}")
        wire.socket.sendall(b"\xff" * 64)  # an invalid request: the broker logs one line
        assert wire.is_closed()
    assert broker.stop() == 0
    broker.command = COMMAND
    broker.start()
    with Wire(broker.port) as wire:
        for number in range(30):
            group = f"group-{number}"
            waiting.until(f"{group} is read back", lambda name=group: committed(wire, name) == 5)


def test_failed_fsync_ends_the_broker_even_if_it_cannot_write_log_lines(
    deaf: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    monkeypatch.setenv("FSYNC_FAILS", str(broken))
    settings = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
    broker = deaf(settings, [sys.executable, "-c", FSYNC_FAILS])
    with Wire(broker.port) as wire:
        create_topic(wire)
        life_of(wire, "group")
        broken.touch()
        with suppress(ConnectionError):
            assert commit(wire, "group", 6) != 0
        process = broker.process
        assert process is not None
        assert process.wait(20) == 1


def test_reader_of_the_broker_log_gets_the_number_of_dropped_lines_when_it_resumes(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDWR)
    words = ["sh", "-c", f'exec "$@" 2>{path}', "sh", *COMMAND]
    broker = brokers({"log.level": "debug"}, command=words)
    with Wire(broker.port) as wire:
        create_topic(wire)
        for number in range(700):
            life_of(wire, f"group-{number % 30}")
        said = b""
        while b"log lines lost" not in said:
            said += os.read(reading, 1 << 16)
        assert b"group=group-29" in said
    os.close(reading)
    assert broker.process is not None
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(20) == 0
