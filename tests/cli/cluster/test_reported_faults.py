"""The faults that `muster cluster check` finds in the responses of Muster's own API."""

from __future__ import annotations

from typing import Any

from cli.broker_answers import ASKED
from cli.cluster.reported_faults import Twin, reported_faults

Value = dict[str, Any]


def said(ahead_ms: int = 0, took_ms: int = 10, **more: Any) -> Value:
    """Returns the response of a broker. The clock of the broker is ``ahead_ms`` ahead of the local
    clock."""
    return {
        "epoch": 7,
        "zookeeper": "connected",
        "strays": [],
        "more_strays": 0,
        "now_ms": 50_000 + took_ms // 2 + ahead_ms,
        ASKED: (50_000, 50_000 + took_ms),
        **more,
    }


def verdicts(told: dict[int, Value], nodes: Value | None = None) -> list[tuple[str, str]]:
    return [(each.verdict, each.sentence) for each in reported_faults(told, nodes, [])]


def test_brokers_with_small_clock_skew_have_no_faults() -> None:
    assert verdicts({1: said(), 2: said(300), 3: said(-300)}) == []
    assert verdicts({}, {"bad_nodes": [], "more_bad_nodes": 0}) == []


def test_clock_skew_of_one_broker_is_a_fault() -> None:
    clock = "the clock of broker 2 is at least 90.0 s"
    assert verdicts({1: said(), 2: said(90_000), 3: said(5)}) == [
        ("CLOCKS_APART", f"{clock} ahead of the clocks of the other brokers")
    ]
    assert verdicts({1: said(), 2: said(-90_000), 3: said(5)}) == [
        ("CLOCKS_APART", f"{clock} behind the clocks of the other brokers")
    ]


def test_clock_skew_within_the_response_time_is_not_a_fault() -> None:
    assert verdicts({1: said(), 2: said(3_000, took_ms=4_000)}) == []
    assert verdicts({2: said(90_000)}) == [], "a single clock has no skew"


def test_unregistered_broker_is_a_fault() -> None:
    assert verdicts({1: said(epoch=None, zookeeper="expired"), 2: said()}) == [
        (
            "NOT_REGISTERED",
            "broker 1 runs but is not registered: its session with ZooKeeper is expired",
        )
    ]


def test_stray_directories_are_counted_and_the_first_three_are_named() -> None:
    assert verdicts({1: said(strays=["t-0.00ff-stray"]), 2: said()}) == [
        (
            "STRAY",
            "broker 1 has 1 stray directory of partitions that do not exist or have no replica"
            " on the broker: t-0.00ff-stray",
        )
    ]
    [(_, many)] = verdicts({1: said(strays=["a-0", "b-0", "c-0", "d-0"], more_strays=7)})
    assert "11 stray directories" in many
    assert many.endswith("a-0, b-0, c-0 and 1 more")


def test_unparsable_zookeeper_nodes_are_named_with_the_reason() -> None:
    path = "/brokers/topics/t"
    why = f"ZooKeeper's node {path} is no JSON object"
    nodes = {"bad_nodes": [{"path": path, "why": why}], "more_bad_nodes": 0}

    assert verdicts({1: said()}, nodes) == [
        ("BAD_NODE", f"1 ZooKeeper node can't be parsed: {path}: is no JSON object")
    ]


def test_duplicate_broker_id_is_listed_before_other_faults() -> None:
    found = reported_faults({1: said(epoch=None)}, None, [Twin(1, "a:9092", "b:9092")])

    assert [(each.verdict, each.broker) for each in found] == [
        ("ID_TWICE", 1),
        ("NOT_REGISTERED", 1),
    ]
    assert found[0].sentence == (
        "broker id 1 is used twice: by a broker at a:9092 and by the registered broker at b:9092"
    )


def test_unsupported_quotas_and_credentials_are_reported_once_per_cluster() -> None:
    rows = [
        {"entity": "client-id app", "settings": ["consumer_byte_rate", "producer_byte_rate"]},
        {"entity": "user alice", "settings": ["SCRAM-SHA-256", "request_percentage"]},
    ]
    told = {node: said(not_followed=rows, more_not_followed=4) for node in (1, 2)}

    assert verdicts(told) == [
        (
            "QUOTAS_NOT_FOLLOWED",
            "Muster does not enforce the quotas of client-id app (consumer_byte_rate,"
            " producer_byte_rate), user alice (request_percentage) (and settings of 4 more users"
            " or clients)",
        ),
        (
            "CREDENTIALS_NOT_FOLLOWED",
            "Muster does not check the credentials of user alice (SCRAM-SHA-256)",
        ),
    ]
