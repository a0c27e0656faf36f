"""Makes a sequence of changes to ACLs, credentials, quotas and tokens, and returns the nodes in
ZooKeeper, to compare Muster with Kafka.

All changes are requests to one broker. On this broker, a client without a login is a super user. A
client with a PLAIN login requests the delegation tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from protocol.errors import NONE
from tests.raw_connection import RawConnection

ROOTS = (
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/config/users",
    "/config/clients",
    "/config/ips",
    "/config/changes",
    "/delegation_token",
)
TOKEN_CHANGES = "/delegation_token/token_changes"
SECRET = "a secret of the cluster"
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' user_alice="hers" user_bob="his";'
    ),
}
"""The settings of the broker. It has the listeners PLAINTEXT and LOGIN."""

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, IDEMPOTENT, CREATE_TOKENS = (
    2, 3, 4, 8, 9, 10, 12, 13,
)  # fmt: skip
DENY, ALLOW = 2, 3
STRANGE = 'a b*c+ü~%"é日.-_@:'
"""A name in which some characters must be escaped in a ZooKeeper path and others must not."""

Entry = tuple[int, str, int, str, str, int, int]
CREATED: tuple[Entry, ...] = (
    (TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW),
    (TOPIC, "t", LITERAL, "User:alice", "127.0.0.1", DESCRIBE_CONFIGS, ALLOW),
    (TOPIC, "t", LITERAL, "User:*", "10.0.0.1", ALL, DENY),
    (TOPIC, "*", LITERAL, "User:CN=al\\, ice,O=Ü", "*", WRITE, ALLOW),
    (GROUP, STRANGE, LITERAL, "User:alice", "*", READ, ALLOW),
    (CLUSTER, "kafka-cluster", LITERAL, "User:broker", "*", CLUSTER_ACTION, ALLOW),
    (CLUSTER, "kafka-cluster", LITERAL, "User:alice", "*", IDEMPOTENT, ALLOW),
    (TRANSACTIONAL_ID, "pay", LITERAL, "User:alice", "*", WRITE, ALLOW),
    (DELEGATION_TOKEN, "id", LITERAL, "User:bob", "*", DESCRIBE, ALLOW),
    (USER, "User:bob", LITERAL, "User:alice", "*", CREATE_TOKENS, ALLOW),
    (TOPIC, "orders-", PREFIXED, "User:alice", "*", READ, ALLOW),
    (TOPIC, "gone", LITERAL, "User:bob", "*", READ, ALLOW),
    (GROUP, "gone-", PREFIXED, "User:bob", "*", READ, ALLOW),
    (TOPIC, "t", LITERAL, "User:bob", "*", READ, ALLOW),
)
DELETED: tuple[Entry, ...] = (*CREATED[-3:],)

Part = tuple[str, str | None]
ALTERED: tuple[tuple[tuple[Part, ...], dict[str, float | None]], ...] = (
    ((("user", STRANGE),), {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
    ((("user", "alice"), ("client-id", "app/1")), {"consumer_byte_rate": 3e9}),
    ((("user", None), ("client-id", None)), {"controller_mutation_rate": 0.25}),
    ((("user", None),), {"producer_byte_rate": 1e6}),
    ((("client-id", None),), {"request_percentage": 200.0}),
    ((("client-id", "<default>"),), {"request_percentage": 300.0}),
    ((("client-id", "app"),), {"producer_byte_rate": 9.0, "consumer_byte_rate": 8.0}),
    ((("client-id", "app"),), {"producer_byte_rate": None}),
    ((("client-id", "free"),), {"producer_byte_rate": 9.0}),
    ((("client-id", "free"),), {"producer_byte_rate": None}),
    ((("ip", "127.0.0.1"),), {"connection_creation_rate": 7.0}),
    ((("ip", None),), {"connection_creation_rate": 70.0}),
)
"""The quota changes, each of which is one request. None removes a quota."""

SHA_256, SHA_512 = (1, "sha256"), (2, "sha512")
PASSWORDS = (
    ("alice", SHA_256, "hers"),
    ("alice", SHA_512, "hers"),
    (STRANGE, SHA_256, "x"),
    ("gone", SHA_512, "y"),
)
SALT = b"a salt, always the same"
ITERATIONS = 4096
LIFETIME_MS = 3_600_000

_SEQUENCE = re.compile(r"\d{10}$")


class Left(NamedTuple):
    """The content of ZooKeeper after all changes of the history."""

    nodes: dict[str, str]
    """The content of each node, by path. Change notifications are in ``notices`` instead."""
    notices: dict[str, list[str]]
    """The change notifications in each directory, in order."""
    token_id: str


def play(port: int, login_port: int, nodes: KazooClient) -> Left:
    """Makes the changes on the broker with these ports. Returns the content of ZooKeeper
    afterwards."""
    with RawConnection(port) as connection:
        for entry in CREATED:
            _create(connection, entry)
        for entry in DELETED:
            _delete(connection, entry)
        for parts, quotas in ALTERED:
            _alter(connection, parts, quotas)
        for user, mechanism, password in PASSWORDS:
            _set_password(connection, user, mechanism, password)
        gone = {"name": "gone", "mechanism": SHA_512[0]}
        answer = connection.call("AlterUserScramCredentials", 0, deletions=[gone], upsertions=[])
        assert [each["error_code"] for each in answer["results"]] == [NONE], answer
    token_id = tokens(login_port)
    return left(nodes, token_id)


def _create(connection: RawConnection, entry: Entry) -> None:
    fields = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    answer = connection.call("CreateAcls", 2, creations=[dict(zip(fields, entry, strict=True))])
    assert [each["error_code"] for each in answer["results"]] == [NONE], (entry, answer)


def _delete(connection: RawConnection, entry: Entry) -> None:
    fields = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    answer = connection.call("DeleteAcls", 2, filters=[dict(zip(fields, entry, strict=True))])
    [found] = answer["filter_results"]
    assert [each["error_code"] for each in found["matching_acls"]] == [NONE], (entry, answer)


def _alter(
    connection: RawConnection, parts: tuple[Part, ...], quotas: dict[str, float | None]
) -> None:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in quotas.items()
        ],
    }
    answer = connection.call("AlterClientQuotas", 1, entries=[entry], validate_only=False)
    assert [each["error_code"] for each in answer["entries"]] == [NONE], (entry, answer)


def _set_password(
    connection: RawConnection, user: str, mechanism: tuple[int, str], password: str
) -> None:
    code, hash_name = mechanism
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, ITERATIONS)
    wanted = {
        "name": user,
        "mechanism": code,
        "iterations": ITERATIONS,
        "salt": SALT,
        "salted_password": salted,
    }
    answer = connection.call("AlterUserScramCredentials", 0, deletions=[], upsertions=[wanted])
    assert [each["error_code"] for each in answer["results"]] == [NONE], (user, answer)


def tokens(port: int) -> str:
    """Requests two delegation tokens as Alice and expires one. Returns the id of the other
    token."""
    with RawConnection(port) as connection:
        connection.call("SaslHandshake", 1, mechanism="PLAIN")
        answer = connection.call("SaslAuthenticate", 1, auth_bytes=b"\0alice\0hers")
        assert answer["error_code"] == NONE, answer
        renewers = [{"principal_type": "User", "principal_name": "bob"}]
        made = [
            connection.call(
                "CreateDelegationToken",
                3,
                owner_principal_type=None,
                owner_principal_name=None,
                renewers=some,
                max_lifetime_ms=LIFETIME_MS,
            )
            for some in (renewers, [])
        ]
        assert [each["error_code"] for each in made] == [NONE, NONE], made
        ended = connection.call(
            "ExpireDelegationToken", 2, hmac=made[1]["hmac"], expiry_time_period_ms=-1
        )
        assert ended["error_code"] == NONE, ended
    return str(made[0]["token_id"])


def left(nodes: KazooClient, token_id: str) -> Left:
    """Returns the content of all ZooKeeper nodes in and below `ROOTS`."""
    found = Left({}, {}, token_id)
    unread = [root for root in ROOTS if nodes.exists(root)]
    while unread:
        path = unread.pop()
        text = (nodes.get(path)[0] or b"").decode()
        if _SEQUENCE.search(path):
            parent = path.rpartition("/")[0]
            found.notices.setdefault(parent, []).append(text)
        else:
            found.nodes[path] = text
        children = sorted(nodes.get_children(path), reverse=True)
        unread += [f"{path}/{child}" for child in children]
    return found


def alike(found: Left) -> dict[str, Any]:
    """Returns the content of ``found`` without values that differ between two runs, such as token
    ids and timestamps."""

    tokens = dict.fromkeys([found.token_id, *found.notices.get(TOKEN_CHANGES, ())])
    numbers = {token_id: f"token {number}" for number, token_id in enumerate(tokens)}

    def said(text: str) -> Any:
        if not text.startswith("{"):
            return numbers.get(text, text) or None
        value = json.loads(text)
        if "acls" in value:
            value["acls"].sort(key=json.dumps)
        for key in ("issueTimestamp", "maxTimestamp", "expiryTimestamp", "tokenId"):
            if key in value:
                value[key] = type(value[key]).__name__
        return value

    return {
        "nodes": {
            path.replace(found.token_id, "token"): said(text)
            for path, text in sorted(found.nodes.items())
        },
        "notices": {
            parent: [said(text) for text in several]
            for parent, several in sorted(found.notices.items())
        },
    }
