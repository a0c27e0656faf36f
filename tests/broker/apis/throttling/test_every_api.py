"""Kafka's RequestQuotaTest in our words: every served API is throttled, and says so if it can."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.apis.throttling.measures import is_of_brokers
from broker.apis.throttling.throttle_field import has_field
from protocol.api_keys import DESCRIBE_ACLS, PRODUCE
from protocol.messages.write_txn_markers import API as WRITE_TXN_MARKERS
from security.quotas.entities import Entity
from tests.broker.apis.authorization.rules import Rules
from tests.broker.apis.throttling.bounded import Bounded, bounded
from tests.broker.every_request import BROKERS_ALONE, EVERY, asked
from tests.broker.serving import eventually

NEXT_TO_NOTHING = 1e-7
"""Percent of the loop's time: whatever is answered takes more."""
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
"""By API, what it takes to be answered; most answer the defaults."""


async def throttled_call(
    bound: Bounded, key: int, version: int, value: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer to a request, or to the least that one can ask, that holds its connection back."""
    client = await bound.client()
    try:
        before = bound.throttled
        answer = await client.call(key, version, **(ASKED.get(key, {}) if value is None else value))
        assert bound.throttled == before + 1
    finally:
        client.close()
    await eventually("its connection is forgotten", lambda: bound.throttled == before)
    return answer


async def test_every_api_is_throttled_in_every_version_and_says_so(tmp_path: Path) -> None:
    async with bounded(tmp_path) as bound:
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        for key, row in SERVED.items():
            for version in range(row.min_version, row.max_version + 1):
                if key == WRITE_TXN_MARKERS.key:
                    continue
                answer = await throttled_call(bound, key, version)
                told = answer.get("throttle_time_ms", 0)
                expected = WINDOW_MS if has_field(key, version) else 0
                assert told == expected, f"{row.api.name} v{version}"


def test_no_quota_is_for_what_brokers_send() -> None:
    named = {row.api.name for row in SERVED_IN_CLUSTER.values() if is_of_brokers(row)}
    assert named == {*BROKERS_ALONE, "WriteTxnMarkers"}


async def test_who_is_denied_is_throttled_too(tmp_path: Path) -> None:
    """Kafka's testUnauthorizedThrottle; what brokers ask each other is measured where denied."""
    rules = Rules()
    async with bounded(tmp_path, authorizer=rules) as bound:
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
        # Who has not logged in has no tokens; of the last two, nothing is there to be left out.
        tokens = {name for name in left if name.endswith("DelegationToken")}
        logins = {"SaslHandshake", "SaslAuthenticate"}
        assert left - tokens == {"ApiVersions", *logins, "DescribeCluster", "ListTransactions"}


async def test_what_brokers_ask_each_other_is_not_measured(tmp_path: Path) -> None:
    async with bounded(tmp_path) as bound:
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        client = await bound.client()
        for _ in range(3):
            await client.call(WRITE_TXN_MARKERS.key, 1, markers=[])
        assert bound.throttled == 0


async def test_requests_have_a_meter_only_while_there_is_a_quota(tmp_path: Path) -> None:
    async with bounded(tmp_path) as bound:
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
