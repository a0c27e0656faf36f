"""Tests denied checks that Kafka does not audit: checks after which a handler tries another right,
and checks that only omit entries from a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.authorizer.audit import Denial
from broker.config.authorizer_rules import STANDARD
from protocol.errors import TOPIC_AUTHORIZATION_FAILED
from security.acls.model import Operation, ResourceType
from tests.broker.authorizer.peers import allow
from tests.broker.serving import asked, serving
from tests.wire import Wire

SETTINGS = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
ME = "User:ANONYMOUS"


def send_unaudited_requests(wire: Wire) -> None:
    """Sends requests whose denials are not written to the audit log."""
    assert wire.call("ListGroups", 4, {"states_filter": []})["groups"] == []
    names = {"topics": None, "allow_auto_topic_creation": False}
    everything = wire.call("Metadata", 12, names | {"include_topic_authorized_operations": True})
    assert [topic["name"] for topic in everything["topics"]] == ["mine"]
    epochs = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    topics = [{"topic": "mine", "partitions": epochs}]
    answer = wire.call("OffsetForLeaderEpoch", 4, {"replica_id": -2, "topics": topics})
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    # The cluster denies IDEMPOTENT_WRITE to the principal, but a topic allows WRITE.
    new = {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1}
    assert wire.call("InitProducerId", 4, new | {"producer_epoch": -1})["error_code"] == 0
    made = {"name": "made", "num_partitions": 1, "replication_factor": 1}
    topic = made | {"assignments": [], "configs": []}
    request = {"topics": [topic], "timeout_ms": 9000, "validate_only": True}
    [created] = wire.call("CreateTopics", 7, request)["topics"]
    assert (created["error_code"], created["topic_config_error_code"]) == (
        0,
        TOPIC_AUTHORIZATION_FAILED,
    )


def send_audited_request(wire: Wire) -> None:
    topics = [{"topic_id": bytes(16), "name": "theirs"}]
    found = wire.call("Metadata", 12, {"topics": topics, "allow_auto_topic_creation": False})
    assert found["topics"][0]["error_code"] == TOPIC_AUTHORIZATION_FAILED


async def test_denial_is_audited_only_when_the_request_names_the_topic(tmp_path: Path) -> None:
    """Kafka does not audit denials of ListGroups and of the other requests in this test."""
    async with serving(tmp_path, SETTINGS) as broker:
        for name in ("mine", "theirs"):
            await broker.topics.create(name, 1, {})
        acls = broker.secured.acls
        assert acls is not None
        connection: Any = AdminConnection()
        entries = [
            allow("mine", Operation.WRITE, ME),
            allow("made", Operation.CREATE, ME),
        ]
        await acls.add(connection, entries)
        await asked(broker, send_unaudited_requests)
        assert broker.secured.audit.denials() == []
        await asked(broker, send_audited_request)
        [denial] = broker.secured.audit.denials()
    assert isinstance(denial, Denial)
    assert (denial.api, denial.operation, denial.kind, denial.name) == (
        "Metadata",
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        "theirs",
    )


class AdminConnection:
    principal = "User:admin"
    client_host = "/127.0.0.1"
    client_id = "test"
