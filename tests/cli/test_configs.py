"""`muster configs` as a user runs it: what it shows, what it changes, what it says is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.configs import APPEND, DELETE, SET, SUBTRACT, Operation, Resource, _all_after
from cli.main import run_client
from tests.brokers import Broker

TOPIC = 2
Muster = Callable[..., str]


@pytest.fixture
def muster(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Muster:
    """Runs a command in this process; what it printed, or said is wrong if ``code`` is not 0."""

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
    """What a command prints with --json."""
    return lambda *words, **more: json.loads(muster(*words, "--json", **more))


@pytest.fixture
def orders(muster: Muster, name: str) -> Iterator[str]:
    """A topic of its own."""
    muster("topics", "create", name, "-c", "retention.ms=86400000")
    yield name
    muster("topics", "delete", name)


def test_what_is_not_at_its_default_is_shown(muster: Muster, as_json: Muster, orders: str) -> None:
    shown = muster("configs", "get", "--topic", orders)
    [named] = as_json("configs", "get", "segment.ms", "--topic", orders)
    everything = as_json("configs", "get", "--all", "--topic", orders)

    heads, *rows = (line.split(maxsplit=2) for line in shown.splitlines())
    assert heads == ["SETTING", "VALUE", "SOURCE"]
    assert ["retention.ms", "86400000", "topic"] in [[cell.strip() for cell in row] for row in rows]
    assert (named["value"], named["source"], named["type"]) == ("604800000", "default", "long")
    assert (
        named["synonyms"] == [{"setting": "log.roll.hours", "value": "168", "source": "default"}]
        or named["synonyms"] == []
    )
    assert named["documentation"]
    assert len(everything) > 30


def test_settings_are_changed_and_shown_before_and_after(
    muster: Muster, as_json: Muster, orders: str
) -> None:
    changed = muster(
        "configs", "set", "segment.ms=7200000", "--delete", "retention.ms",
        "--append", "cleanup.policy=compact", "--topic", orders,
    )  # fmt: skip
    rows = as_json("configs", "set", "--subtract", "cleanup.policy=delete", "--topic", orders)

    assert changed.split("\n") == [
        f"topic {orders}: changed",
        "SETTING         BEFORE     AFTER         ",
        "segment.ms      604800000  7200000       ",
        "retention.ms    86400000   604800000     ",
        "cleanup.policy  delete     delete,compact",
        "",
    ]
    assert rows == [{"setting": "cleanup.policy", "before": "delete,compact", "after": "compact"}]


def test_a_dry_run_foretells_and_changes_nothing(
    muster: Muster, as_json: Muster, orders: str
) -> None:
    words = ("configs", "set", "segment.ms=5", "--append", "cleanup.policy=compact", "--dry-run")
    before = as_json("configs", "get", "--all", "--topic", orders)

    rows = as_json(*words, "--topic", orders)
    refused = muster("configs", "set", "segment.ms=x", "--dry-run", "-t", orders, code=1)

    assert [row["after"] for row in rows] == ["5", "delete,compact"]
    assert "INVALID_CONFIG" in refused
    assert as_json("configs", "get", "--all", "--topic", orders) == before


def test_settings_of_brokers(
    muster: Muster, as_json: Muster, brokers: Callable[..., Broker]
) -> None:
    broker = brokers()
    muster("configs", "set", "log.retention.ms=9000", "--every-broker", to=broker)
    muster("configs", "set", "max.connections=500", "--broker", "1", to=broker)

    every = as_json("configs", "get", "--every-broker", to=broker)
    own = {row["setting"]: row for row in as_json("configs", "get", "--broker", "1", to=broker)}

    assert ("log.retention.ms", "9000") in [(row["setting"], row["value"]) for row in every]
    assert own["max.connections"]["source"] == "broker, at run time"
    assert own["log.retention.ms"]["source"] == "every broker, at run time"
    assert own["log.retention.ms"]["changeable"]
    assert not own["listeners"]["changeable"]
    assert own["listeners"]["source"] == "broker's properties"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["get"], 2, "say whose settings: --topic NAME, --broker ID or --every-broker"),
        (["get", "--broker", "1", "--every-broker"], 2, "say whose settings"),
        (["get", "--broker", "7"], 1, "there is no broker 7; the cluster has 1"),
        (["get", "--topic", "not-there"], 1, "`muster topics list` shows the topics there are"),
        (["get", "no.such", "--broker", "1"], 1, "broker 1 has no setting no.such"),
        (["set", "--topic", "t"], 2, "nothing to change"),
        (["set", "retention.ms", "--topic", "t"], 2, "write it as NAME=VALUE"),
        (["set", "a=1", "--delete", "a", "--topic", "t"], 2, "a setting is named twice"),
        (["set", "retention.ms=1", "--topic", "not-there"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["set", "listeners=x", "--broker", "1"], 1, "INVALID_REQUEST"),
    ],
)
def test_every_error_says_what_to_do(
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


def test_a_broker_before_kafka_2_3_is_sent_all_that_it_shall_keep() -> None:
    """Its AlterConfigs forgets whatever is not named."""
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

    whole = _all_after(Resource(TOPIC, "orders"), operations, before)

    assert whole == {
        "retention.ms": "5",
        "max.message.bytes": "9",
        "cleanup.policy": "delete,compact",
    }
    policy = [Operation("cleanup.policy", SUBTRACT, "delete")]
    assert _all_after(Resource(TOPIC, "orders"), policy, before)["cleanup.policy"] == ""
