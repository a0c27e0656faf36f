"""`muster top`: rates between two looks, from a scripted Muster; and a real one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from cli import clock, top
from tests.brokers import KIND, Broker
from tests.cli import sessions

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


def group(name: str, state: str, members: int, lag: int) -> dict[str, Any]:
    return {"group": name, "state": state, "members": members, "lag": lag, "rebalances": 3}


GROUPS = {
    "groups": [
        group('odd "group"', "Empty", 0, 26),
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
    """Muster's HTTP, of which the second look and each after it show the same."""

    def __init__(self) -> None:
        self.looks = 0

    def text(self, path: str) -> str:
        assert path == "/metrics"
        self.looks += 1
        return FIRST if self.looks == 1 else SECOND

    def get(self, path: str) -> Any:
        if path == "/api/clients":
            return {"clients": CLIENTS[min(self.looks, 2) - 1]}
        return {"/api/groups": GROUPS, "/api/groups/billing": BILLING}[path]


def test_top(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(100.0, 2.0)
    monkeypatch.setattr(clock, "monotonic_s", lambda: next(seconds))
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)

    monkeypatch.setattr(top, "api_at", lambda *_: ScriptedApi())

    sessions.check("top")


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="muster top needs Muster's HTTP")
def test_top_of_a_real_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert view["clients"] == [], "whoever typed these commands has gone"
