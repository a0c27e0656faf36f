"""Tests the throttling of APIs that only a cluster supports, or that a cluster handles differently
from a standalone broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.apis.throttling.measures import is_of_brokers
from broker.apis.throttling.throttle_field import has_field
from broker.config.authorizer_rules import STANDARD
from broker.net.request import ServedApi
from broker.test_mode.clock.mock_time import MockTime
from protocol.api_keys import FETCH
from security.acls.model import (
    CLUSTER_NAME,
    AclEntry,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from tests.broker.apis.throttling.bounded import ANYBODY, QuotaBroker
from tests.broker.apis.throttling.test_every_api import (
    NEXT_TO_NOTHING,
    WINDOW_MS,
    throttled_call,
)
from tests.broker.cluster.members import Members
from tests.broker.every_request import asked

pytestmark = pytest.mark.proves("security 31")

SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
OTHERS = [row for key, row in SERVED_IN_CLUSTER.items() if SERVED.get(key) is not row]
OF_CLIENTS = [row for row in OTHERS if not is_of_brokers(row)]
NO_RIGHT = AclEntry(
    Pattern(ResourceType.CLUSTER, CLUSTER_NAME), "User:*", "*", Operation.ALL, Permission.DENY
)


@asynccontextmanager
async def cluster_broker_with_quotas(directory: Path) -> AsyncIterator[QuotaBroker]:
    """Yields the only broker of a cluster, with a frozen clock."""
    time = MockTime()
    cluster = Members(directory, SETTINGS)
    broker = await cluster.start(1, time=time)
    try:
        await cluster.settled()
        time.freeze()
        bound = QuotaBroker(broker, time)
        await bound.set(request_percentage=NEXT_TO_NOTHING)
        yield bound
        await bound.set(ANYBODY, request_percentage=None)
    finally:
        time.run()
        await cluster.stop(1)


async def check(bound: QuotaBroker, row: ServedApi) -> None:
    for version in range(row.min_version, row.max_version + 1):
        value = asked(row.api, version)
        answer = await throttled_call(bound, row.api.key, version, value)
        expected = WINDOW_MS if has_field(row.api.key, version) else 0
        assert answer.get("throttle_time_ms", 0) == expected, f"{row.api.name} v{version}"


async def test_cluster_requests_of_clients_are_throttled_and_return_throttle_time(
    tmp_path: Path,
) -> None:
    assert {row.api.name for row in OF_CLIENTS} == {
        "AlterPartitionReassignments",
        "ElectLeaders",
        "ListPartitionReassignments",
        "OffsetFetch",
        "UpdateFeatures",
    }
    async with cluster_broker_with_quotas(tmp_path) as bound:
        for row in OF_CLIENTS:
            await check(bound, row)


async def test_denied_requests_between_brokers_are_throttled(tmp_path: Path) -> None:
    async with cluster_broker_with_quotas(tmp_path) as bound:
        entries = bound.broker.mode.stores.acls
        await entries.change([NO_RIGHT], [])
        for row in OTHERS:
            await check(bound, row)
        await entries.change([], [NO_RIGHT])


async def test_denied_fetch_with_a_replica_id_is_throttled(
    tmp_path: Path,
) -> None:
    async with cluster_broker_with_quotas(tmp_path) as bound:
        entries = bound.broker.mode.stores.acls
        row = SERVED_IN_CLUSTER[FETCH]
        for version in (4, 12, 17):
            claim = {"replica_id": 2} if version < 15 else {"replica_state": {"replica_id": 2}}
            value = {**asked(row.api, version), **claim}
            follower = await bound.client()
            assert (await follower.call(FETCH, version, **value))["throttle_time_ms"] == 0
            follower.close()
            await entries.change([NO_RIGHT], [])
            answer = await throttled_call(bound, FETCH, version, value)
            assert answer["throttle_time_ms"] == WINDOW_MS, version
            await entries.change([], [NO_RIGHT])
