"""After a pause of the broker (SIGSTOP), no member is removed because its heartbeats waited in the
broker's sockets during the pause.

Kafka may remove such members, depending on which of its threads runs first. The tests sleep only
for the length of a pause, and otherwise wait for conditions.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

import pytest

from tests import waiting
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import PYTHON_CLIENTS, Group
from tests.wire import Wire

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(KIND != "muster", reason="Kafka's threads race after a pause"),
    pytest.mark.proves("faults 3"),
]
MEMBERS = 20
PUT_OUT = ("session_expired", "join_timed_out", "sync_timed_out", "new_member_timed_out")
HEARD_WITHIN_S = 4
"""The time in seconds after the end of a pause in which no session may expire. Sessions last 6 s,
and real clients send a heartbeat every 0.3 s."""
_NEVER = threading.Event()


@contextmanager
def paused(broker: Broker, seconds: float) -> Iterator[None]:
    """Suspends the broker during the block, for at least ``seconds`` seconds."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
        _NEVER.wait(seconds)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


class Silent:
    """A group with one member that sends a request only when the test calls a method."""

    def __init__(self, port: int, group: str, session_ms: int) -> None:
        self.wire = Wire(port)
        joining = {
            "group_id": group,
            "session_timeout_ms": session_ms,
            "rebalance_timeout_ms": session_ms,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        waiting.until(
            "the group has a coordinator",
            lambda: self.wire.call("FindCoordinator", 1, {"key": group})["error_code"] == 0,
        )
        joined = self.wire.call("JoinGroup", 3, joining)
        assert joined["error_code"] == 0, joined
        self.who = {
            "group_id": group,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
        }
        given = [{"member_id": joined["member_id"], "assignment": b"all"}]
        synced = self.wire.call("SyncGroup", 3, {**self.who, "assignments": given})
        assert synced["error_code"] == 0, synced

    def send(self) -> None:
        """Sends a heartbeat without waiting for its response."""
        self.wire.send("Heartbeat", 3, self.who)

    def answer(self) -> int:
        """Receives the next response and returns its error code."""
        return int(self.wire.receive()[1]["error_code"])

    def beat(self) -> int:
        self.send()
        return self.answer()


@contextmanager
def silent_members(port: int, session_ms: int) -> Iterator[list[Silent]]:
    with ExitStack() as stack:
        members = [Silent(port, f"silent-{number}", session_ms) for number in range(MEMBERS)]
        for member in members:
            stack.callback(member.wire.close)
        yield members


def put_out(broker: Broker) -> list[str]:
    """Returns the broker's log lines about removed members."""
    return [line for line in broker.lines() if any(cause in line for cause in PUT_OUT)]


def noticed(broker: Broker) -> int:
    return sum("broker was paused" in line for line in broker.lines())


@pytest.mark.parametrize("seconds", [8, pytest.param(30, marks=pytest.mark.soak)])
def test_heartbeat_received_during_a_broker_pause_keeps_its_member(
    brokers: Callable[..., Broker], seconds: float
) -> None:
    broker = brokers()
    with silent_members(broker.port, 6000) as members:
        assert [member.beat() for member in members] == [0] * MEMBERS
        with paused(broker, seconds):
            for member in members[::2]:
                member.send()
        answers = [member.answer() for member in members[::2]]
        answers += [member.beat() for member in members[1::2]]  # silent in the pause
        assert answers == [0] * MEMBERS, "UNKNOWN_MEMBER_ID (25) for the broker's own pause"
        waiting.until("the operator is told", lambda: noticed(broker) >= 1)
        assert put_out(broker) == []


def test_members_with_short_sessions_survive_repeated_broker_pauses(
    brokers: Callable[..., Broker],
) -> None:
    """The broker is suspended three times for one second. The session timeout is one second."""
    broker = brokers({"group.min.session.timeout.ms": "1000"})
    with silent_members(broker.port, 1000) as members:
        for _ in range(3):
            with paused(broker, 1):
                for member in members:
                    member.send()
            assert [member.answer() for member in members] == [0] * MEMBERS
        assert put_out(broker) == []


def test_broker_pause_does_not_close_connections_as_idle(brokers: Callable[..., Broker]) -> None:
    broker = brokers({"connections.max.idle.ms": "2500"})
    with Wire(broker.port) as wire:
        assert wire.call("ApiVersions", 0)["error_code"] == 0
        with paused(broker, 4):
            pass
        waiting.until("the broker lives", lambda: noticed(broker) >= 1)
        assert wire.call("ApiVersions", 0)["error_code"] == 0
        waiting.until("it ends when it really is idle", wire.is_closed)


def test_session_of_a_crashed_member_expires_after_a_broker_pause(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers({"group.min.session.timeout.ms": "1000"})
    with silent_members(broker.port, 1000) as members:
        with paused(broker, 1.5):
            pass
        waiting.until("all sessions end", lambda: len(put_out(broker)) >= MEMBERS)
        assert members[0].beat() == 25


def _lives_on(broker: Broker, name: str, rounds: list[float]) -> None:
    """Checks that a pause of the broker removes no member, and that each group consumes and commits
    after each pause. Each client library has one group.

    A client that gets no response for one session timeout joins again with a new member id, and its
    old member id expires one session timeout after the pause. A member that expires earlier was
    removed because of the pause.
    """
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 4)
    feed = Feed(broker.bootstrap, name, 4)
    config: dict[str, Any] = {"topics": [name], "session_timeout_ms": 6000}
    with ExitStack() as stack:
        groups = [
            stack.enter_context(Group(client, broker.bootstrap, f"{name}-{client}", **config))
            for client in PYTHON_CLIENTS
        ]
        for group in groups:
            for each in "ab":
                group.start(each)
        for seconds in rounds:
            for group in groups:
                group.balanced(cluster, 2, 2)
            before = len(put_out(broker))
            with paused(broker, seconds):
                pass
            resumed_s = time.time()
            values = feed.send(8, within_s=60)
            for group in groups:
                group.until_seen(values, 60)
                group.balanced(cluster, 2, 2)
            for line in put_out(broker)[before:]:
                told_s = datetime.fromisoformat(line.split()[0]).timestamp()
                assert told_s - resumed_s > HEARD_WITHIN_S, f"after {seconds} s: {line}"
        for group in groups:
            for member in group.members.values():
                member.commit()
            assert cluster.committed(group.name) == cluster.end_offsets(name, 4)


def test_members_of_real_clients_are_not_removed_when_the_broker_pauses(
    brokers: Callable[..., Broker], name: str
) -> None:
    _lives_on(brokers(), name, [1, 4, 9])


@pytest.mark.soak
def test_members_of_real_clients_survive_broker_pauses_of_1_to_30_s(
    brokers: Callable[..., Broker], name: str
) -> None:
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"SEED={seed}")
    lengths = random.Random(seed)
    _lives_on(brokers(), name, [30, *(lengths.uniform(1, 30) for _ in range(12))])
