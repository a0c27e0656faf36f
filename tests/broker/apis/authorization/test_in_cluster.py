"""Tests of the APIs that only a cluster supports: each of them denies the request of a principal
without ACLs, in every version."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.net.request import ServedApi
from broker.net.required_acls import AMONG_BROKERS
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from tests.broker.apis.authorization.rules import Rules
from tests.broker.every_request import BROKERS_ALONE, asked

pytestmark = pytest.mark.proves("security 28")

ROWS = [
    (row, version)
    for key, row in SERVED_IN_CLUSTER.items()
    if SERVED.get(key) is not row and key != OFFSET_FETCH.key  # the standalone handler
    for version in range(row.min_version, row.max_version + 1)
]


class FakeRequest:
    """A fake request with the attributes that a handler uses when it denies a request."""

    def __init__(self, row: ServedApi, version: int, user: str) -> None:
        body = row.api.encode_request(version, asked(row.api, version))
        self.served = row
        self.api_version = version
        self.route = SimpleNamespace(served=row, flexible=row.api.is_flexible(version))
        self.buffer, self.position = body, 0
        self.connection = SimpleNamespace(client_id=user, principal=user, authorization_cache=None)
        self.value = row.api.decode_request(version, body)
        self.answers: list[dict[str, Any]] = []

    def check(self) -> None: ...

    def frame(self, value: dict[str, Any]) -> dict[str, Any]:
        return value

    def complete_later(
        self, frame: Callable[[], dict[str, Any]], error_code: int, *, at_once: bool
    ) -> None:
        assert at_once
        self.respond(frame(), error_code)

    def respond(self, value: dict[str, Any], error_code: int | None = None) -> None:
        frame = self.served.api.encode_response(self.api_version, value)
        assert error_code in (None, CLUSTER_AUTHORIZATION_FAILED)
        self.answers.append(self.served.api.decode_response(self.api_version, frame, 0))


@pytest.mark.parametrize(
    ("row", "version"), ROWS, ids=[f"{row.api.name} {version}" for row, version in ROWS]
)
def test_cluster_request_of_a_principal_without_acls_is_denied(
    row: ServedApi, version: int
) -> None:
    request: Any = FakeRequest(row, version, "alice")
    services: Any = SimpleNamespace(authorizer=Rules(), replicas=object())
    assert row.handle(services, request) is None
    [answer] = request.answers
    assert str(CLUSTER_AUTHORIZATION_FAILED) in str(answer)


def test_each_inter_broker_api_requires_cluster_action() -> None:
    named = {row.api.name for row, _ in ROWS if row.rights is AMONG_BROKERS}
    assert named == BROKERS_ALONE
