"""Tests that the brokers of a cluster need only the right to CLUSTER_ACTION."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.authorizer import acl_authorizer
from broker.broker import Broker
from broker.config.authorizer_rules import STANDARD
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from security.acls.model import CLUSTER_NAME, Operation, ResourceType
from tests.broker.apis.authorization.asking import codes, produce
from tests.broker.apis.authorization.rules import HOST, Rules
from tests.broker.cluster.members import GROUP, TRANSACTION, Members, eventually, members
from tests.broker.cluster.share_members import (
    TOPIC,
    consumed,
    heartbeat,
    joined,
    produced,
    read_from_the_start,
    set_level,
)
from tests.broker.every_request import BROKERS_ALONE
from tests.broker.serving import asked
from tests.broker.share_calls import ACCEPT
from tests.broker.transactional import initialized
from tests.wire import Wire

pytestmark = pytest.mark.proves("security 30")

CLIENT = "wire"
"""The client id of connections that the test opens. All other connections are those of brokers."""


class RulesOfBrokers(Rules):
    """An authorizer that allows all requests of clients. It decides about the requests of brokers
    by ACLs, and records them."""

    def __init__(self) -> None:
        super().__init__("broker: CLUSTER_ACTION CLUSTER")
        self.of_brokers: set[tuple[str, Operation, ResourceType, str]] = set()
        self.denied_brokers: set[tuple[str, Operation, ResourceType, str]] = set()
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Returns a new value at each read, so that no decision is cached."""
        self._epoch += 1
        return self._epoch

    @property
    def apis(self) -> set[str]:
        return {api for api, *_ in self.of_brokers}

    def allows(self, connection: Any, *of: Any, api: str, is_logged: bool = True, **_: Any) -> bool:
        if connection.client_id == CLIENT:
            return True
        is_allowed = self.acl_rules.verdict("User:broker", HOST, *of).is_allowed
        if is_allowed or is_logged:
            (self.of_brokers if is_allowed else self.denied_brokers).add((api, *of))
        return is_allowed


@pytest.mark.campaign
async def test_brokers_of_a_cluster_need_only_cluster_action_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = RulesOfBrokers()
    monkeypatch.setattr(acl_authorizer, "AclAuthorizer", lambda *_, **__: rules)
    settings = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:nobody",
        "share.coordinator.state.topic.num.partitions": "16",
    }
    async with members(tmp_path, settings) as cluster:
        await cluster.create("t", 3)
        await _produced(cluster)
        coordinator = await cluster.coordinator("id", TRANSACTION)
        await asked(coordinator, _committed)
        await eventually("markers are sent", lambda: "WriteTxnMarkers" in rules.apis)
        assert await asked(coordinator, _reserved, "2") != CLUSTER_AUTHORIZATION_FAILED
        await cluster.stop(3)
        await _produced(cluster)
        await cluster.start(3)
        await _shared(cluster)
        await eventually("it is in sync again", lambda: _in_sync(cluster, 3))
        await _deleted(cluster)
    assert not rules.denied_brokers
    assert rules.apis >= {*BROKERS_ALONE, "Fetch", "WriteTxnMarkers"}
    assert {tuple(of) for _, *of in rules.of_brokers} == {
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    }


async def _shared(cluster: Members) -> None:
    """Makes a share group read twelve partitions, whose share coordinators are on different
    brokers. Then deletes the group."""
    partitions = 12
    assert (await set_level(cluster, 1))["error_code"] == NONE
    await cluster.create(TOPIC, partitions)
    await read_from_the_start(cluster)
    await joined(cluster, partitions)
    coordinator = await cluster.coordinator("g", GROUP)
    asks = {"groups": [{"group_id": "g", "topics": None}]}
    described = await asked(
        coordinator, lambda wire: wire.call("DescribeShareGroupOffsets", 1, asks)
    )
    [topic] = described["groups"][0]["topics"]
    # No partition has a lag yet, for which the brokers would need DESCRIBE on the topic.
    assert [each["start_offset"] for each in topic["partitions"]] == [-1] * partitions
    for partition in range(partitions):
        await produced(cluster, b"x", partition=partition)
        _, error = await consumed(cluster, (0, 0, [ACCEPT]), partition=partition)
        assert error == NONE
    assert (await heartbeat(cluster, -1))["error_code"] == NONE
    deleted = await asked(
        coordinator, lambda wire: wire.call("DeleteGroups", 2, {"groups_names": ["g"]})
    )
    assert [each["error_code"] for each in deleted["results"]] == [NONE]


def _committed(wire: Wire) -> None:
    """Commits a transaction with a partition on each broker."""
    producer = initialized(wire, "id", rules=1)
    assert producer.add({"t": [0, 1, 2]}) == NONE
    assert producer.end(commit=True) == NONE


def _reserved(wire: Wire) -> int:
    """Sends AllocateProducerIds, as only Kafka brokers do; Muster brokers allocate ids in
    ZooKeeper. Returns the error code."""
    code: int = wire.call("AllocateProducerIds", 0, {"broker_id": 2})["error_code"]
    return code


async def _produced(cluster: Members) -> None:
    leader = await cluster.leader("t", 0)
    value = {**produce("t"), "acks": -1}
    assert codes(await asked(leader, lambda wire: wire.call("Produce", 7, value))) == {NONE}


def _in_sync(cluster: Members, node_id: int) -> bool:
    def isr(broker: Broker) -> list[int]:
        view = broker.cluster.partition("t", 0)
        return [] if view is None else list(view.isr)

    return all(node_id in isr(broker) for broker in cluster.brokers.values())


async def _deleted(cluster: Members) -> None:
    def delete(wire: Wire) -> Any:
        return wire.call("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 15_000})

    at = next(iter(cluster.brokers.values()))
    controller = cluster.brokers[at.cluster.controller_id]
    assert codes(await asked(controller, delete)) == {NONE}
    await eventually(
        "all replicas are gone",
        lambda: all("t" not in each.logs.topics for each in cluster.brokers.values()),
    )
