"""`muster top`: the rates between two reads of a fake HTTP API, and the view of a real broker."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from cli import clock, top
from tests.brokers import KIND, Broker
from tests.cli import sessions
from verdicts.names import Verdict

FIRST = """
# TYPE muster_requests_total counter
muster_requests_total{api="Heartbeat",error="NONE"} 100.0
muster_requests_total{api="Fetch",error="NONE"} 40.0
muster_connections 7.0
kafka_topic_partition_current_offset{partition="0",topic="orders"} 1000
kafka_topic_partition_current_offset{partition="1",topic="orders"} 500
kafka_topic_partition_current_offset{partition="0",topic="events"} 30
kafka_consumergroup_current_offset{consumergroup="billing",partition="0",topic="orders"} 900
kafka_consumergroup_current_offset{consumergroup="billing",partition="1",topic="orders"} 500
kafka_consumergroup_current_offset{consumergroup="odd \\"group\\"",partition="0",topic="events"} 10
"""
SECOND = (
    FIRST.replace(" 100.0", " 160.0")
    .replace(" 1000\n", " 1200\n")
    .replace(" 900\n", " 1130\n")
    .replace(" 500\nkafka_topic", " 501\nkafka_topic")
    .replace(" 10\n", " 4\n")
)


def group(name: str, state: str, members: int, lag: int, verdict: str = "OK") -> dict[str, Any]:
    counts = {"members": members, "lag": lag, "rebalances": 3}
    return {"group": name, "verdict": verdict, "state": state, **counts}


GROUPS = {
    "groups": [
        group('odd "group"', "Empty", 0, 26, "ABANDONED"),
        group("billing", "Stable", 2, 70),
        group("idle", "Empty", 0, 0),
    ]
}


def member(client: str, **partitions: list[int]) -> dict[str, Any]:
    return {"client": client, "host": "/10.0.0.1", "partitions": partitions or None}


def client(name: str, host: str, connections: int, *traffic: int) -> dict[str, Any]:
    names = ("requests", "bytes_in", "bytes_out")
    pairs = zip(names, traffic, strict=True)
    return {"client": name, "host": host, "connections": connections, **dict(pairs)}


CLIENTS = [
    [
        client("app", "/10.0.0.1", 2, 100, 2000, 40_000),
        client("feeder", "/10.0.0.2", 1, 10, 9_000_000, 500),
        client("gone", "/10.0.0.2", 0, 7, 700, 700),
        client("idle", "/10.0.0.3", 1, 7, 700, 700),
    ],
    [
        client("app", "/10.0.0.1", 2, 140, 3000, 90_000),
        client("feeder", "/10.0.0.2", 1, 30, 10_000_000, 900),
        client("gone", "/10.0.0.2", 0, 7, 700, 700),
        client("idle", "/10.0.0.3", 1, 7, 700, 700),
        client("new", "/10.0.0.4", 1, 3, 300, 300),
    ],
]
BILLING = {"members": [member("app", orders=[0, 1]), member("shy")]}


class ScriptedApi:
    """A fake of Muster's HTTP API. The second read and all later reads return the same values."""

    broker: ClassVar = {"cluster": "caZfv6NmT1SmLGP1ukaOiQ", "broker": 1, "address": "kafka1:9092"}

    def __init__(self) -> None:
        self.looks = 0

    def renew(self) -> None:
        pass

    def text(self, path: str) -> str:
        assert path == "/metrics"
        self.looks += 1
        return FIRST if self.looks == 1 else SECOND

    def get(self, path: str) -> Any:
        if path == "/api/clients":
            return {"clients": CLIENTS[min(self.looks, 2) - 1]}
        return {"/api/groups": GROUPS, "/api/groups/billing": BILLING}[path]


def test_top_prints_the_golden_output(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(100.0, 2.0)
    monkeypatch.setattr(clock, "monotonic_s", lambda: next(seconds))
    monkeypatch.setattr(clock, "now_ms", lambda: 1_795_349_131_500)
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    monkeypatch.setattr(top, "api_at", lambda *_: ScriptedApi())

    sessions.check("top")


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="muster top needs Muster's HTTP")
def test_top_with_option_once_shows_topics_and_groups_of_a_real_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path / "data", http="127.0.0.1:0").start()
    try:
        monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
        sessions.typed("muster topics create orders -p 2")
        sessions.typed("muster produce orders -p 0 -v 1 -v 2")
        sessions.typed("muster offsets set billing orders:0=1 --execute")
        view = json.loads(sessions.typed("muster top --once --every 0.1 --json"))
    finally:
        broker.kill()

    assert [row["topic"] for row in view["topics"]][-1] == "orders"
    assert [(row["group"], row["lag"]) for row in view["groups"]] == [("billing", 1)]
    assert view["requests_per_s"] >= 0
    assert view["clients"] == [], "the clients of these commands have disconnected"


LONG = "a-rather-long-name-of-what-runs-in-production"
BUSY: dict[str, Any] = {
    "cluster": "caZfv6NmT1SmLGP1ukaOiQ",
    "broker": 1,
    "address": f"{LONG}.example.org:9092",
    "at_ms": 1_795_349_131_500,
    "seconds": 1.0,
    "requests_per_s": 123_456.7,
    "connections": 12_345,
    "verdicts": {verdict.value: 100 for verdict in Verdict},
    "groups": [
        {
            **group(f"{LONG}-{n}", "PreparingRebalance", 999, 99_999_999, "OUT_OF_RANGE"),
            "read_per_s": 99_999.9,
        }
        for n in range(10)
    ],
    "topics": [
        {"topic": LONG, "partitions": 1000, "written_per_s": 99_999.9, "end_offsets": 10**12}
        for _ in range(10)
    ],
    "clients": [
        {
            "client": LONG,
            "host": "10.100.100.100",
            "requests_per_s": 9999.9,
            "bytes_in_per_s": 99_999_900.0,
            "bytes_out_per_s": 99_999_900.0,
            "groups": [LONG, LONG],
            "partitions": 1000,
            "read_per_s": 99_999.9,
        }
        for _ in range(10)
    ],
}


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 50)], ids=lambda size: f"{size[0]}")
def test_live_view_of_top_fits_the_terminal(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    width, height = size
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    console = Console(width=width, height=height, file=io.StringIO())
    with console.capture() as drawn:
        console.print(top._drawn(BUSY))
    lines = drawn.get().splitlines()

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("cluster caZfv6NmT1SmLGP1ukaOiQ  broker 1 at a-rather")
    if width >= 80:
        assert not [line for line in lines if "too narrow" in line], "each column fits"


@pytest.mark.parametrize(("height", "rows"), [(24, 3), (50, 10), (5, 1)])
def test_live_view_of_top_shows_more_groups_on_a_taller_terminal(
    height: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", str(height))
    console = Console(width=80, file=io.StringIO())
    with console.capture() as drawn:
        console.print(top._drawn(BUSY))

    assert drawn.get().count("OUT_OF_RANGE  ") == rows
