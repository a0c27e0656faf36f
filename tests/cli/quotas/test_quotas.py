"""`muster quotas` at a broker."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.cli.running import Ran, run


@pytest.fixture
def at(broker: Broker) -> list[str]:
    return ["--bootstrap", broker.bootstrap]


def quotas(words: str, at: list[str]) -> Ran:
    return run("quotas", *words.split(), *at, "--json")


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
    assert len(told(quotas("remove --user alice request_percentage", at))) == 1
    assert told(quotas("remove --user alice", at)) == [(*alice, "producer_byte_rate", 1024)]
    assert told(quotas("remove --user alice", at)) == []
    quotas("remove --user alice --client-id-default", at)
    quotas("remove --ip-default", at)
    assert told(quotas("list", at)) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("set producer_byte_rate=1", "name whose quotas"),
        ("set --user a producer_byte_rate", "write QUOTA=VALUE"),
        ("set --user a producer_byte_rate=x", "is no number"),
        ("set --user a producer_byte_rate=0", "must be greater than 0"),
        ("set --user a producer_byte_rate=1.5", "must be a whole number"),
        ("set --user a connection_creation_rate=1", "Invalid configuration key"),
        ("set --ip 10.0.0.1 --user a connection_creation_rate=1", "an ip stands alone"),
        ("list --user a --user-default", "are two things"),
        ("remove --user a nonsense", "Invalid configuration key"),
    ],
)
def test_what_makes_no_sense_is_said_without_a_broker(words: str, said: str) -> None:
    ran = run("quotas", *words.split())
    assert ran.code == 2
    assert said in ran.err
