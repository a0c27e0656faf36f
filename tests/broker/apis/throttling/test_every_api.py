"""Tests that each API is throttled and returns the throttle time, as in Kafka's
RequestQuotaTest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.apis.throttling.measures import is_of_brokers
from broker.apis.throttling.throttle_field import has_field
from protocol.api_keys import DESCRIBE_ACLS, PRODUCE
from protocol.messages.write_txn_markers import API as WRITE_TXN_MARKERS
from security.quotas.entities import Entity
from tests.broker.apis.authorization.rules import Rules
from tests.broker.apis.throttling.bounded import QuotaBroker, broker_with_quotas
from tests.broker.every_request import BROKERS_ALONE, EVERY, asked
from tests.broker.serving import eventually

pytestmark = pytest.mark.proves("security 31")

NEXT_TO_NOTHING = 1e-7
"""A request quota in percent of the event loop's time. It is so small that every request exceeds
it."""
WINDOW_MS = 1000
ANY = 1
ASKED: dict[int, dict[str, Any]] = {
    PRODUCE: {"acks": 1},
    DESCRIBE_ACLS: {
        "resource_type_filter": ANY,
        "pattern_type_filter": ANY,
        "operation": ANY,
        "permission_type": ANY,
    },
}
"""The fields that a request needs to get a response, by API key. Most APIs need only default
values."""


async def throttled_call(
    bound: QuotaBroker, key: int, version: int, value: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Sends a request that throttles its connection. Returns the response."""
    client = await bound.client()
    try:
        before = bound.throttled
        answer = await client.call(key, version, **(ASKED.get(key, {}) if value is None else value))
        assert bound.throttled == before + 1
    finally:
        client.close()
    await eventually("its connection is forgotten", lambda: bound.throttled == before)
    return answer


async def test_every_version_of_each_api_is_throttled_and_returns_throttle_time(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        for key, row in SERVED.items():
            for version in range(row.min_version, row.max_version + 1):
                if key == WRITE_TXN_MARKERS.key:
                    continue
                answer = await throttled_call(bound, key, version)
                told = answer.get("throttle_time_ms", 0)
                expected = WINDOW_MS if has_field(key, version) else 0
                assert told == expected, f"{row.api.name} v{version}"


def test_only_apis_between_brokers_are_exempt_from_the_request_quota() -> None:
    named = {row.api.name for row in SERVED_IN_CLUSTER.values() if is_of_brokers(row)}
    assert named == {*BROKERS_ALONE, "WriteTxnMarkers"}


async def test_denied_requests_are_throttled(tmp_path: Path) -> None:
    """Kafka tests the same in testUnauthorizedThrottle."""
    rules = Rules()
    async with broker_with_quotas(tmp_path, authorizer=rules) as bound:
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        asked_for = set()
        for api, version in EVERY:
            rules.asked.clear()
            answer = await throttled_call(bound, api.key, version, asked(api, version))
            expected = WINDOW_MS if has_field(api.key, version) else 0
            assert answer.get("throttle_time_ms", 0) == expected, f"{api.name} v{version}"
            assert not any(each.is_allowed for each in rules.asked)
            if rules.asked:
                asked_for.add(api.key)
        left = {SERVED[key].api.name for key in SERVED.keys() - asked_for}
        # Clients without a login have no tokens; the last two APIs have no elements to check.
        tokens = {name for name in left if name.endswith("DelegationToken")}
        logins = {"SaslHandshake", "SaslAuthenticate"}
        assert left - tokens == {"ApiVersions", *logins, "DescribeCluster", "ListTransactions"}


async def test_write_txn_markers_does_not_count_for_the_request_quota(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        client = await bound.client()
        for _ in range(3):
            await client.call(WRITE_TXN_MARKERS.key, 1, markers=[])
        assert bound.throttled == 0


async def test_request_time_is_measured_only_while_a_quota_exists(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        routes = bound.broker.server.routes.values()
        assert len(routes) > 200
        assert {route.new_meter for route in routes} == {None}
        await bound.set(request_percentage=50.0)
        await bound.set(Entity(None), producer_byte_rate=1000.0)
        assert all(route.new_meter for route in routes)
        await bound.set(request_percentage=None)
        assert all(route.new_meter for route in routes)
        await bound.set(Entity(None), producer_byte_rate=None)
        await bound.set(Entity(ip=None), connection_creation_rate=10.0)
        assert {route.new_meter for route in routes} == {None}
