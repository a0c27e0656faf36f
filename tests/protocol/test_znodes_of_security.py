"""Tests of ZooKeeper nodes of ACLs, credentials, quotas and tokens. Kafka 3.9.2 wrote the tested
nodes, created by tests/interop/security_history.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from protocol.znodes import acls, tokens
from protocol.znodes.configs import ClientEntity, client_entity, decode_config, entity_of
from protocol.znodes.fields import BadNode
from security.acls.model import PatternType, ResourceType, spelled

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "znodes" / "security-kafka-3.9.2.json").read_text()
)
NODES: dict[str, str] = RECORDED["nodes"]
STRANGE = 'a b*c+ü~%"é日.-_@:'


def _leaves(root: str) -> dict[str, bytes]:
    """Returns the data of all nodes below ``root`` that contain data, by path."""
    return {
        path: text.encode() for path, text in NODES.items() if path.startswith(f"{root}/") and text
    }


def test_acl_entries_are_decoded_and_encoded_as_by_kafka() -> None:
    found = {}
    for pattern_type, tree in acls.TREES.items():
        for path, data in _leaves(tree).items():
            kind, name = path.removeprefix(f"{tree}/").split("/", 1)
            place = acls.Place(kind, name, pattern_type)
            assert place.path == path
            found[place] = acls.decode_entries(path, data)
            assert acls.encode_entries(found[place]) == data
    assert found[acls.Place("Topic", "orders-", acls.PREFIXED)] == [
        {"principal": "User:alice", "permissionType": "Allow", "host": "*", "operation": "Read"}
    ]
    assert {each["operation"] for each in found[acls.Place("Topic", "t")]} == {
        "Read",
        "All",
        "DescribeConfigs",
    }
    assert acls.Place("Group", STRANGE) in found
    assert len(found) == 8


def test_acls_of_each_resource_type_have_a_zookeeper_directory() -> None:
    for tree in acls.TREES.values():
        assert {path for path in NODES if path.rpartition("/")[0] == tree} - {
            "/kafka-acl-extended/prefixed"
        } == {f"{tree}/{kind}" for kind in acls.TYPES}
    kinds = [each for each in ResourceType if each > ResourceType.ANY]
    assert tuple(map(spelled, kinds)) == acls.TYPES
    assert {PatternType[each] for each in acls.TREES} == {PatternType.LITERAL, PatternType.PREFIXED}


@pytest.mark.parametrize("pattern_type", acls.TREES)
def test_change_notifications_of_acls_are_decoded_and_encoded_as_by_kafka(
    pattern_type: str,
) -> None:
    directory = acls.CHANGES[pattern_type]
    recorded = [text.encode() for text in RECORDED["notices"][directory]]
    places = [acls.decode_change(f"{directory}/acl_changes_1", each) for each in recorded]
    assert [acls.encode_change(each) for each in places] == recorded
    assert {each.pattern_type for each in places} == {pattern_type}
    assert all(each.path.startswith(acls.TREES[pattern_type]) for each in places)
    assert places[0].notice_path == f"{directory}/acl_changes_"


def test_acl_change_notification_of_a_broker_older_than_2_0_is_decoded() -> None:
    path = "/kafka-acl-changes/acl_changes_0000000001"
    assert acls.decode_change(path, b"TransactionalId:a:b") == acls.Place("TransactionalId", "a:b")


def test_quota_paths_of_users_clients_and_addresses_equal_those_of_kafka() -> None:
    paths = [path for path in NODES if path.startswith("/config/") and NODES[path]]
    entities = [client_entity(path.removeprefix("/config/")) for path in paths]
    assert [f"/config/{entity_of(each.parts).path}" for each in entities] == paths
    assert entity_of([("users", STRANGE)]) in entities
    assert entity_of([("users", None), ("clients", None)]) in entities
    assert entity_of([("clients", "<default>")]) in entities
    assert ClientEntity("clients/<default>", (("clients", None),)) in entities
    assert entity_of([("users", "alice"), ("clients", "app/1")]) in entities
    assert len(entities) == 10


def test_credentials_and_quotas_of_a_user_share_a_node() -> None:
    path = f"/config/{entity_of([('users', STRANGE)]).path}"
    found = decode_config(path, NODES[path].encode())
    assert set(found) == {"SCRAM-SHA-256", "request_percentage", "producer_byte_rate"}
    assert (found["request_percentage"], found["producer_byte_rate"]) == ("12.5", "1024")


def test_delegation_token_is_decoded_and_encoded_as_by_kafka() -> None:
    token_id = RECORDED["token_id"]
    path = tokens.path(token_id)
    found = tokens.decode_token(path, NODES[path].encode())
    assert tokens.encode_token(found) == NODES[path].encode()
    assert found[:4] == (token_id, "User:alice", "User:alice", ("User:bob",))
    assert found.ends_ms == found.expires_ms == found.issued_ms + 3_600_000
    notices = [text.encode() for text in RECORDED["notices"][tokens.CHANGES]]
    assert tokens.decode_change("/x", notices[0]) == token_id
    assert len({*notices}) == 2


def test_token_node_without_a_requester_is_decoded_with_the_owner_as_requester() -> None:
    data = (
        b'{"version":1,"owner":"User:a%2Cb","renewers":[],"issueTimestamp":1,"maxTimestamp":3,'
        b'"tokenId":"t"}'
    )
    assert tokens.decode_token("/x", data) == ("t", "User:a,b", "User:a,b", (), 1, 3, 3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"[]", "not a JSON object"),
        (b'{"version":2,"acls":[]}', "version="),
        (b'{"version":1,"acls":{}}', "acls="),
        (b'{"version":1,"acls":[{"principal":"User:a","host":"*","operation":"Read"}]}', "acls="),
        (b'{"version":1,"acls":["Read"]}', "acls="),
    ],
)
def test_error_names_the_node_of_malformed_acl_entries(data: bytes, says: str) -> None:
    with pytest.raises(BadNode, match=says) as error:
        acls.decode_entries("/kafka-acl/Topic/t", data)
    assert error.value.path == "/kafka-acl/Topic/t"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl-changes/1", b""),
        ("/kafka-acl-changes/1", b"TOPIC"),
        ("/kafka-acl-changes/1", b"TOPIC:"),
        ("/kafka-acl-changes/1", b"TOPIC:a/b"),
        ("/kafka-acl-changes/1", b"\xff\xfe:a"),
        ("/kafka-acl-changes/1", b"SHELF:a"),
        ("/kafka-acl-extended-changes/1", b"TOPIC:a"),
        ("/kafka-acl-extended-changes/1", b'{"version":2}'),
        (
            "/kafka-acl-extended-changes/1",
            b'{"version":1,"resourceType":"TOPIC","name":"a","patternType":"MATCH"}',
        ),
        (
            "/kafka-acl-extended-changes/1",
            b'{"version":1,"resourceType":"TOPIC","name":"..","patternType":"PREFIXED"}',
        ),
    ],
)
def test_acl_change_notification_without_a_pattern_is_refused(path: str, data: bytes) -> None:
    with pytest.raises(BadNode, match=path):
        acls.decode_change(path, data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"version":4}',
        b'{"version":3,"owner":"User%3Aa"}',
        b'{"version":3,"owner":"User%3Aa","tokenRequester":"User%3Aa","renewers":[1],'
        b'"issueTimestamp":1,"maxTimestamp":1,"expiryTimestamp":1,"tokenId":"t"}',
        b'{"version":3,"owner":"User%3Aa","tokenRequester":"User%3Aa","renewers":[],'
        b'"issueTimestamp":1,"maxTimestamp":1,"expiryTimestamp":1,"tokenId":"a/b"}',
    ],
)
def test_malformed_token_is_refused(data: bytes) -> None:
    with pytest.raises(BadNode):
        tokens.decode_token("/delegation_token/tokens/t", data)


@pytest.mark.parametrize("data", [b"", b"a/b", b"\0", b"x" * 300])
def test_token_change_notification_without_a_token_is_refused(data: bytes) -> None:
    with pytest.raises(BadNode):
        tokens.decode_change("/delegation_token/token_changes/token_change_1", data)
