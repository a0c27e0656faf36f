"""Tests that each API, in every version, denies the request of a principal without ACLs.

Two lists name the exceptions: public APIs, and APIs that omit hidden elements. `test_in_cluster.py`
tests the APIs that only a cluster supports.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.standalone import SERVED
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.schema import ZERO_UUID, Api
from tests.broker.apis.authorization.asking import Value, guarded_broker
from tests.broker.every_request import EVERY, ORDERS_ID, asked
from tests.wire import Wire

pytestmark = pytest.mark.proves("security 28")

DENIALS = {
    TOPIC_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
PUBLIC = {row.api.name for row in SERVED.values() if row.rights.why_none} | {
    "CreateDelegationToken",  # a client may have a token of its own
    "DescribeCluster",  # names the brokers
    "DescribeDelegationToken",  # shows a client its own
}
HIDING = {
    "DescribeLogDirs": "results",  # its first versions have no error field
    "ListGroups": "groups",
    "ListTransactions": "transaction_states",
}
"""By API: the name of the array in the response. The responses of these APIs omit hidden elements
without an error."""
NO_ID = {("DeleteTopics", 6), ("Metadata", 10), ("Metadata", 11)}
"""Versions in which a request that contains a topic name must have a zero topic id."""


async def test_every_request_of_a_principal_without_acls_is_denied(tmp_path: Path) -> None:
    def ask(wire: Wire) -> list[str]:
        found = []
        for api, version in EVERY:
            value = named(api, version, asking.id("orders"))
            answer = wire.call(api.name, version, value)
            if api.name not in PUBLIC and not is_denial(api, answer):
                found.append(f"{api.name} v{version}: {answer}")
        return found

    async with guarded_broker(tmp_path) as asking:
        assert await asking.talk("nobody", ask) == []
        assert asking.broker.internal_errors.counts.total() == 0


def named(api: Api, version: int, topic_id: bytes) -> Value:
    ours = ZERO_UUID if (api.name, version) in NO_ID else topic_id
    found: Value = replaced(asked(api, version), ours)
    return found


def replaced(value: Any, topic_id: bytes) -> Any:
    if isinstance(value, dict):
        return {name: replaced(each, topic_id) for name, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, topic_id) for each in value]
    return topic_id if value == ORDERS_ID else value


def is_denial(api: Api, answer: Value) -> bool:
    found = codes(answer)
    if api.name in HIDING and not found & DENIALS:
        return answer[HIDING[api.name]] == []
    return bool(found & DENIALS) and found <= DENIALS | {NONE}


def codes(answer: Any) -> set[int]:
    if isinstance(answer, list):
        return {code for each in answer for code in codes(each)}
    if not isinstance(answer, dict):
        return set()
    own = {code for name, code in answer.items() if name in ("error_code", "partition_error_code")}
    return own.union(*(codes(each) for each in answer.values()))
