from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.brokers import Broker
from tests.cli.running import Ran, run


@pytest.fixture
def at(broker: Broker) -> list[str]:
    return ["--bootstrap", broker.bootstrap]


def quotas(words: str, at: list[str]) -> Ran:
    return run("quotas", *words.split(), *at, "--json")


def remove(words: str, at: list[str]) -> Ran:
    return run("quotas", "remove", *words.split(), *at, "--json", "--execute")


def told(ran: Ran) -> list[tuple[object, ...]]:
    assert (ran.code, ran.err) == (0, "")
    keys = ("user", "client_id", "ip", "quota", "value")
    return [tuple(row[key] for key in keys) for row in ran.json]


def test_quotas_are_set_listed_and_removed(at: list[str]) -> None:
    alice = ("alice", None, None)
    set_ = quotas("set --user alice producer_byte_rate=1024 request_percentage=12.5", at)
    assert told(set_) == [
        (*alice, "producer_byte_rate", 1024),
        (*alice, "request_percentage", 12.5),
    ]
    quotas("set --user alice --client-id-default consumer_byte_rate=99", at)
    quotas("set --ip-default connection_creation_rate=1000000", at)
    listed = quotas("list", at)
    assert told(listed) == [
        (None, None, "(default)", "connection_creation_rate", 1000000),
        ("alice", "(default)", None, "consumer_byte_rate", 99),
        (*alice, "producer_byte_rate", 1024),
        (*alice, "request_percentage", 12.5),
    ]
    assert len(told(quotas("list --user alice", at))) == 3
    removed = remove("--user alice request_percentage", at).json
    assert (removed["executed"], len(removed["changes"])) == (True, 1)
    [change] = remove("--user alice", at).json["changes"]
    assert (change["user"], change["quota"]) == ("alice", "producer_byte_rate")
    assert told(remove("--user alice", at)) == []
    remove("--user alice --client-id-default", at)
    remove("--ip-default", at)
    assert told(quotas("list", at)) == []


def test_quotas_remove_without_option_execute_shows_the_plan_and_removes_no_quota(
    at: list[str],
) -> None:
    quotas("set --user alice producer_byte_rate=1024 request_percentage=12.5", at)
    remove_ = ["quotas", "remove", "--user", "alice", *at]
    asked = run(*remove_)
    assert asked.code == 2, "without a terminal --execute is required"
    assert asked.out.startswith("Nothing is removed yet\nUSER ")
    assert asked.err.startswith("muster: nothing was removed: add --execute")
    shown = run(*remove_, "--dry-run", "--json")
    assert (shown.code, shown.json["executed"], len(shown.json["changes"])) == (0, False, 2)
    opposites = run(*remove_, "--dry-run", "--yes")
    assert (opposites.code, "choose one of" in opposites.err) == (2, True)
    assert len(told(quotas("list --user alice", at))) == 2
    done = run(*remove_, "--yes")
    assert (done.code, done.out.splitlines()[0], done.out.splitlines()[-1]) == (
        0,
        "To be removed",
        "Removed 2 quotas",
    )
    assert told(quotas("list --user alice", at)) == []


def test_ip_quota_is_found_for_any_notation_of_the_address(at: list[str]) -> None:
    rate, short = "connection_creation_rate", "2001:db8::1"
    made = told(quotas(f"set --ip 2001:0DB8:0::0001 {rate}=7", at))
    assert made == [(None, None, short, rate, 7)]
    quotas(f"set --ip 10.0.0.1 {rate}=8", at)
    for written in (short, "2001:db8:0:0:0:0:0:1"):
        assert told(quotas(f"list --ip {written}", at)) == made
    assert told(quotas("list --ip 10.0.0.2", at)) == []
    [gone] = remove("--ip 2001:DB8::0001", at).json["changes"]
    assert gone["ip"] == short
    assert [row[2] for row in told(quotas("list", at))] == ["10.0.0.1"]
    assert remove("--ip 10.0.0.1", at).code == 0


@pytest.mark.parametrize("words", ["list", "remove"])
def test_quotas_set_rejects_a_host_name_as_the_ip(words: str, at: list[str]) -> None:
    ran = quotas(f"{words} --ip localhost", at)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "muster: --ip localhost: not an IP address\n"


def test_quotas_remove_accepts_a_host_name_if_kafka_stores_an_ip_quota_under_this_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def call(_: object, name: str, value: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, value))
        if name == "AlterClientQuotas":
            return {"entries": [{"error_code": 0}]}
        entity = [{"entity_type": "ip", "entity_name": "b1.example.org"}]
        values = [{"key": "connection_creation_rate", "value": 5.0}]
        entries = [{"entity": entity, "values": values}]
        return {"error_code": 0, "error_message": None, "entries": entries}

    monkeypatch.setattr("cli.quotas.commands.Cluster", lambda *_, **__: SimpleNamespace(any=kafka))
    kafka = SimpleNamespace(call=lambda *given: call(None, *given))
    assert remove("--ip b1.example.org", []).json["executed"] is True
    name, value = asked[-1]
    assert name == "AlterClientQuotas"
    [entry] = value["entries"]
    assert entry["entity"] == [{"entity_type": "ip", "entity_name": "b1.example.org"}]
    assert entry["ops"][0]["remove"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("set producer_byte_rate=1", "name the entity with --user"),
        ("set --user a producer_byte_rate", "write it as QUOTA=VALUE"),
        ("set --user a producer_byte_rate=x", "is not a number"),
        ("set --user a producer_byte_rate=0", "must be greater than 0"),
        ("set --user a producer_byte_rate=1.5", "must be a whole number"),
        ("set --user a connection_creation_rate=1", "Invalid configuration key"),
        ("set --ip 10.0.0.1 --user a connection_creation_rate=1", "an ip can't be combined"),
        (
            "list --user a --user-default",
            "choose one of --user and --user-default",
        ),
        ("remove --user a nonsense", "Invalid configuration key"),
        ("set --ip localhost connection_creation_rate=1", "--ip localhost"),
    ],
)
def test_quotas_command_rejects_invalid_options_although_no_broker_runs(
    words: str, said: str
) -> None:
    ran = run("quotas", *words.split())
    assert ran.code == 2
    assert said in ran.err
