"""`muster configs`: its JSON, its errors, and its requests to brokers older than Kafka 2.3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.client.config_changes import APPEND, DELETE, SET, SUBTRACT, Operation, all_after
from cli.client.configs import Resource
from cli.main import run_client
from tests.brokers import Broker

TOPIC = 2
Muster = Callable[..., str]


@pytest.fixture
def muster(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Muster:
    """Returns a function that runs a command in this process and checks its exit code. The function
    returns standard output, or standard error if the code is not 0."""

    def run(*words: str, code: int = 0, to: Broker = broker) -> str:
        try:
            ended = run_client([*words, "--bootstrap", to.bootstrap])
        except SystemExit as end:
            ended = int(end.code or 0)
        printed, wrong = capsys.readouterr()
        assert ended == code, printed + wrong
        assert not (printed if code else wrong)
        return wrong if code else printed

    return run


@pytest.fixture
def as_json(muster: Muster) -> Callable[..., Any]:
    """Returns a function that runs a command and returns its JSON output."""
    return lambda *words, **more: json.loads(muster(*words, "--json", **more))


@pytest.fixture
def orders(muster: Muster, name: str) -> Iterator[str]:
    muster("topics", "create", name, "-c", "retention.ms=86400000")
    yield name
    muster("topics", "delete", name, "--execute")


def test_configs_get_shows_non_default_settings(
    muster: Muster, as_json: Muster, orders: str
) -> None:
    shown = muster("configs", "get", "--topic", orders)
    [named] = as_json("configs", "get", "segment.ms", "--topic", orders)
    everything = as_json("configs", "get", "--all", "--topic", orders)

    heads, *rows = (line.split(maxsplit=2) for line in shown.splitlines())
    assert heads == ["SETTING", "VALUE", "SOURCE"]
    assert ["retention.ms", "86400000", "topic"] in [[cell.strip() for cell in row] for row in rows]
    assert (named["value"], named["source"], named["type"]) == ("604800000", "default", "long")
    assert named["synonyms"] == []
    assert named["documentation"]
    assert len(everything) > 30


def test_configs_set_dry_run_shows_new_values_without_setting_them(
    muster: Muster, as_json: Muster, orders: str
) -> None:
    words = ("configs", "set", "segment.ms=5", "--append", "cleanup.policy=compact", "--dry-run")
    before = as_json("configs", "get", "--all", "--topic", orders)

    rows = as_json(*words, "--topic", orders)
    refused = muster("configs", "set", "segment.ms=x", "--dry-run", "-t", orders, code=1)

    assert [row["after"] for row in rows] == ["5", "delete,compact"]
    assert "INVALID_CONFIG" in refused
    assert as_json("configs", "get", "--all", "--topic", orders) == before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["get", "--broker", "1", "--every-broker"], 2, "choose one of --topic NAME"),
        (["get", "no.such", "--broker", "1"], 1, "broker 1 has no setting no.such"),
        (["set", "retention.ms=1", "--topic", "not-there"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["set", "listeners=x", "--broker", "1"], 1, "INVALID_REQUEST"),
    ],
)
def test_error_of_a_configs_command_names_the_reason(
    muster: Muster, words: list[str], code: int, says: str
) -> None:
    wrong = muster("configs", *words, code=code)

    assert says in wrong
    assert "Traceback" not in wrong


def entry(name: str, value: str, source: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "config_source": source,
        "is_default": source == 5,
        "is_sensitive": False,
        **fields,
    }


def test_alter_configs_request_to_kafka_older_than_2_3_contains_all_settings() -> None:
    """AlterConfigs resets every setting that the request omits, so the request must repeat the
    current settings."""
    before = {
        each["name"]: each
        for each in (
            entry("retention.ms", "5", 1),
            entry("segment.ms", "6", 1),
            entry("cleanup.policy", "delete", 5),
            entry("flush.ms", "7", 4),
        )
    }
    operations = [
        Operation("max.message.bytes", SET, "9"),
        Operation("segment.ms", DELETE, None),
        Operation("cleanup.policy", APPEND, "compact"),
    ]

    whole = all_after(Resource(TOPIC, "orders"), operations, before)

    assert whole == {
        "retention.ms": "5",
        "max.message.bytes": "9",
        "cleanup.policy": "delete,compact",
    }
    policy = [Operation("cleanup.policy", SUBTRACT, "delete")]
    assert all_after(Resource(TOPIC, "orders"), policy, before)["cleanup.policy"] == ""
