"""The advice in the error about an unreachable broker. It differs between the --bootstrap address
and other brokers."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

import client.connection
from cli.client.cluster import Cluster
from cli.errors import UNREACHABLE, CommandError
from client.errors import NoBroker


@pytest.fixture(autouse=True)
def only_port_9001_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: object, host: str, port: int, *more: object) -> None:
        if port != 9001:
            raise NoBroker(f"no broker answers at {host}:{port} (Connection refused)")

    monkeypatch.setattr(client.connection.Connection, "__init__", connect)


def test_error_about_an_unreachable_bootstrap_advises_to_start_a_broker() -> None:
    with pytest.raises(
        CommandError, match=r"9002 .*; start a broker with `muster serve`"
    ) as caught:
        Cluster("a:9002", security=Mock())
    assert caught.value.exit_code == UNREACHABLE


def test_error_about_an_unreachable_cluster_member_advises_cluster_check() -> None:
    cluster = Cluster("a:9001", security=Mock())
    with pytest.raises(CommandError, match=r"9002 .*; `muster cluster check` shows") as caught:
        cluster.connect("a", 9002)
    assert caught.value.exit_code == UNREACHABLE
    assert caught.value.why == "no broker answers at a:9002 (Connection refused)"
