"""Tests that client id and host of a transactional request are passed to the coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.shared.transactional import client_of
from transactions.calls import CLIENT_CHARACTERS, Client

LONG = "a" * 31_000 + "z" * 1_000


def _request(client_id: str, host: str) -> Any:
    return SimpleNamespace(client_id=client_id, connection=SimpleNamespace(client_host=host))


def test_function_client_of_returns_the_client_id_and_host_of_a_request() -> None:
    assert client_of(_request("billing", "/10.0.0.7")) == Client("billing", "/10.0.0.7")


@pytest.mark.parametrize(("client_id", "host"), [(LONG, "h"), ("c", LONG), (LONG, LONG)])
def test_long_client_id_and_host_are_shortened_in_the_middle(client_id: str, host: str) -> None:
    kept = client_of(_request(client_id, host))
    for asked, name in zip((client_id, host), kept, strict=True):
        assert len(name) == min(len(asked), CLIENT_CHARACTERS)
        assert (name[0], name[-1]) == (asked[0], asked[-1])
