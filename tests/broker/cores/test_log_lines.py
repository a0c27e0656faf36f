"""Tests the log lines about groups: each transition has one line with its cause, and clients cannot
forge a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from tests.broker.config.served import serving
from tests.broker.said import said_aloud
from tests.brokers import CHECKOUT, Broker, free_port
from tests.waiting import until
from tests.wire import Wire

EVIL = "sly\n2026-11-21 [info] all is well\x1b[31m\u202e"
SESSION_MS = 4000


class SeenBroker(Broker):
    """A broker process whose /healthz response is stored."""

    health: Any = None

    def parsed(self) -> list[dict[str, Any]]:
        """Returns the log lines that are JSON. The broker also prints two lines that are not JSON
        on standard output."""
        return [json.loads(line) for line in self.lines() if line.startswith("{")]

    def of(self, event: str, group_id: str) -> list[dict[str, Any]]:
        """Returns the log lines of ``event`` about the group."""
        return [
            line
            for line in self.parsed()
            if (line["event"], line.get("group")) == (event, group_id)
        ]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeenBroker]:
    """Yields a stopped broker with log lines of members that joined, left and expired."""
    settings = {"log.format": "json", "offsets.topic.num.partitions": "1"}
    http = f"127.0.0.1:{free_port()}"
    broker = SeenBroker(tmp_path_factory.mktemp("told") / "data", settings, http=http)
    broker.start()
    try:
        first, second = Wire(broker.port, "first"), Wire(broker.port, EVIL)
        with first, second:
            member_id = join(first, "team")
            waiting = rebalance_for_second_member(first, second, member_id)
            leave(second, "team", waiting)
            join(second, EVIL)
        broker.health = httpx.get(f"http://{http}/healthz").json()
        until("both groups expired", lambda: len(emptied(broker)) == 2)
        broker.stop()
        yield broker
    finally:
        broker.kill()


def emptied(broker: SeenBroker) -> set[str]:
    return {
        line["group"]
        for line in broker.parsed()
        if line["event"] == "group state changed" and line["new"] == "Empty"
    }


def join_request(group_id: str, member_id: str = "") -> dict[str, Any]:
    return {
        "group_id": group_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def sync(wire: Wire, group_id: str, member_id: str, generation: int) -> None:
    answer = wire.call(
        "SyncGroup",
        3,
        {
            "group_id": group_id,
            "generation_id": generation,
            "member_id": member_id,
            "assignments": [{"member_id": member_id, "assignment": b"all"}],
        },
    )
    assert answer["error_code"] == 0


def join(wire: Wire, group_id: str) -> str:
    """Joins a group as its only member, and brings it to Stable. Returns the member id."""
    assert wire.call("FindCoordinator", 1, {"key": group_id, "key_type": 0})["error_code"] == 0
    answer = wire.call("JoinGroup", 3, join_request(group_id))
    assert answer["error_code"] == 0
    sync(wire, group_id, answer["member_id"], answer["generation_id"])
    return str(answer["member_id"])


def rebalance_for_second_member(first: Wire, second: Wire, member_id: str) -> str:
    """Joins a second member and rejoins the first member. Returns the member id of the second
    member."""
    second.send("JoinGroup", 3, join_request("team"))
    beat = {"group_id": "team", "generation_id": 1, "member_id": member_id}
    until("the newcomer is in", lambda: first.call("Heartbeat", 3, beat)["error_code"] == 27)
    answer = first.call("JoinGroup", 3, join_request("team", member_id))
    _, joined = second.receive()
    assert (answer["error_code"], joined["error_code"]) == (0, 0)
    sync(first, "team", member_id, answer["generation_id"])
    return str(joined["member_id"])


def leave(wire: Wire, group_id: str, member_id: str) -> None:
    answer = wire.call("LeaveGroup", 2, {"group_id": group_id, "member_id": member_id})
    assert answer["error_code"] == 0


def test_standard_output_has_the_addresses_of_the_listener_and_metrics(logged: SeenBroker) -> None:
    plain = [line for line in logged.lines() if not line.startswith("{")]

    assert len(plain) == 2, plain
    assert "accepts connections" in plain[0]
    assert plain[1] == f"the page, /metrics and /healthz are on http://{logged.http}\n"
    assert logged.health == {"state": "ready"}


def test_every_log_line_is_a_json_object_with_time_and_level(logged: SeenBroker) -> None:
    lines = logged.parsed()

    assert len(lines) > 10
    for line in lines:
        assert line["level"] in ("info", "warning"), line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["timestamp"])


def test_log_line_of_each_group_transition_has_the_cause(logged: SeenBroker) -> None:
    transitions = logged.of("group state changed", "team")

    assert [(line["old"], line["new"], line["cause"]) for line in transitions] == [
        ("Empty", "PreparingRebalance", "member_joined"),
        ("PreparingRebalance", "CompletingRebalance", "all_joined"),
        ("CompletingRebalance", "Stable", "assigned"),
        ("Stable", "PreparingRebalance", "member_joined"),
        ("PreparingRebalance", "CompletingRebalance", "all_joined"),
        ("CompletingRebalance", "Stable", "assigned"),
        ("Stable", "PreparingRebalance", "member_left"),
        ("PreparingRebalance", "Empty", "nobody_left"),
    ]
    assert all(line["detail"] for line in transitions)
    first = logged.of("member joined", "team")[0]["member"]
    assert transitions[3]["waits_for"] == first, "whom the newcomer has to wait for"
    assert 0 < transitions[3]["wait_ms"] <= 30_000
    assert [line["generation"] for line in transitions] == [0, 1, 1, 1, 2, 2, 2, 3]


def test_log_lines_of_joins_and_removals_have_client_and_cause(logged: SeenBroker) -> None:
    joined = logged.of("member joined", "team")
    gone = logged.of("member removed", "team")

    assert joined[0]["client"] == "first"
    assert [(line["member"], line["cause"]) for line in gone] == [
        (joined[1]["member"], "member_left"),
        (joined[0]["member"], "session_expired"),
    ]
    assert all(line["host"] == "/127.0.0.1" for line in joined + gone)
    assert all(line["detail"] for line in gone)


def test_log_line_of_a_generation_has_leader_and_duration(logged: SeenBroker) -> None:
    formed = logged.of("generation formed", "team")
    joined = logged.of("member joined", "team")

    assert [(line["generation"], line["members"]) for line in formed] == [(1, 1), (2, 2)]
    assert {line["leader"] for line in formed} == {joined[0]["member"]}
    assert all(line["protocol"] == "range" and line["join_ms"] >= 0 for line in formed)


def test_client_id_cannot_forge_a_log_line(logged: SeenBroker) -> None:
    (joined,) = logged.of("member joined", EVIL.encode("unicode_escape").decode())

    assert joined["client"] == joined["group"]
    assert "all is well" in joined["client"]
    assert not [line for line in logged.lines() if line.startswith("2026-11-21 [info] all is well")]
    assert not [line for line in logged.lines() if "\x1b" in line or "\u202e" in line]


async def test_commit_that_moves_an_offset_back_is_logged_as_a_warning(tmp_path: Path) -> None:
    structlog.reset_defaults()
    with capture_logs() as lines:
        async with serving(tmp_path) as served:
            for offset in (5, 3):
                assert await served.client.commit("team", offset) == 0

    (warning,) = [line for line in lines if line["event"] == "committed offsets moved back"]
    assert (warning["log_level"], warning["group"], warning["offsets"]) == ("warning", "team", 1)
    assert warning["example"] == "orders-0: 5 to 3"
    assert warning["host"] == "/127.0.0.1"


CONSOLE = """
from broker.cores.groups.log_lines import observe
from broker.loop.log_lines import configure
from broker.time import Time
from coordinator.events import Cause, MemberJoined, Transition
configure(Time(), "console")
sly = {sly!r}
observe(Transition(sly, "Empty", "PreparingRebalance", 0, Cause.MEMBER_JOINED, sly + " joined"))
observe(MemberJoined(sly, sly, sly, sly, "/127.0.0.1", sly))
configure(Time(), "console", "warning")
"""


def test_console_log_format_has_one_escaped_line_per_event() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONSOLE.format(sly=EVIL)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()

    assert done.stdout == ""
    assert len(lines) == 2, done.stderr
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert re.search(r"\[info +\] group state changed .*cause=member_joined", lines[0])
    assert re.search(r"\[info +\] member joined ", lines[1])


def test_log_omits_events_below_the_configured_level(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", {"log.level": "warning", "no.such.setting": "1"})
    broker.start()
    try:
        with Wire(broker.port) as wire:
            join(wire, "team")
    finally:
        broker.stop()

    (line,) = [line for line in said_aloud(broker.lines()) if "accepts connections" not in line]
    assert "[warning" in line
    assert "no.such.setting" in line


def test_console_log_escapes_newlines_except_in_a_traceback() -> None:
    program = "import structlog; from broker.loop.log_lines import configure\n"
    program += "logger = structlog.get_logger()\n"
    program += "from broker.time import Time; configure(Time(), 'console')\n"
    program += "try: raise ValueError('bad\x1b[2J')\n"
    program += "except ValueError: logger.exception('it\\nfailed')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )

    lines = done.stderr.splitlines()
    assert "it\\nfailed" in lines[0]
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == r"ValueError: bad\x1b[2J"
