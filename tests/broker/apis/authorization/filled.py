"""Starts a broker with Kafka's authorizer, logins and one object of each kind, and builds requests
for these objects.

There are requests for each API in every version. A request names an object, or names no object and
then concerns all objects. A request of an authorized sender may change an object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from broker.broker import Broker
from broker.config.authorizer_rules import STANDARD
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.schema import Api
from security.acls.model import Operation, PatternType, Permission, ResourceType
from security.credentials import ScramMechanism
from security.sasl.plain import MODULE
from tests.broker.apis.authorization.asking import SETTINGS, codes, commit, join, produce
from tests.broker.every_request import EVERY, asked
from tests.broker.serving import asked as asked_of
from tests.broker.serving import serving
from tests.waiting import until
from tests.wire import Wire

T = TypeVar("T")
Value = dict[str, Any]
Request = tuple[Api, int, Value]

NAMED = "orders"
"""The name of every object that the requests name."""
IDLE = "idle"
"""A group that has offsets but no members."""
ADMIN, OWNER, STRANGER, LOOKER = "admin", NAMED, "stranger", "looker"
"""The users. ADMIN is a super user, OWNER may do everything with topics, LOOKER may only describe
topics, STRANGER has no rights."""
USERS = (ADMIN, OWNER, STRANGER, LOOKER)
PROTECTED = {
    **SETTINGS,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f"{MODULE} required "
    + " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    + ";",
    "connection.failed.authentication.delay.ms": "1",
    "authorizer.class.name": STANDARD,
    "super.users": f"User:{ADMIN}",
    "delegation.token.secret.key": "a key of the tests",
}
SALTED = b"0123456789abcdef0123456789abcdef"


@asynccontextmanager
async def protected_broker(directory: Path) -> AsyncIterator[Broker]:
    """Yields a broker with an authorizer and logins, but without topics and groups."""
    async with serving(directory, PROTECTED) as broker:
        yield broker


LONG_MS = 1_800_000
"""A session timeout in ms that is longer than any test."""
JOIN = {**join(NAMED), "group_instance_id": NAMED, "session_timeout_ms": LONG_MS}


def logged_in(port: int, user: str) -> Wire:
    wire = Wire(port, user)
    wire.call("SaslHandshake", 1, {"mechanism": "PLAIN"})
    token = f"\0{user}\0{user}-secret".encode()
    assert not wire.call("SaslAuthenticate", 2, {"auth_bytes": token})["error_code"]
    return wire


async def talk(broker: Broker, user: str, work: Callable[[Wire], T]) -> T:
    """Runs ``work`` on a connection of the user. Returns the result of ``work``."""

    def run(wire: Wire) -> T:
        with logged_in(wire.socket.getpeername()[1], user) as mine:
            return work(mine)

    return await asked_of(broker, run)


async def fill(broker: Broker) -> None:
    """Creates the topic, groups, ACLs and other objects, unless they already exist."""
    await talk(broker, ADMIN, _fill)
    if not any(str(token.owner) == f"User:{OWNER}" for token in _tokens(broker)):
        made = {"renewers": [], "max_lifetime_ms": -1}
        await talk(broker, OWNER, lambda wire: wire.call("CreateDelegationToken", 2, made))


def _fill(wire: Wire) -> None:
    topic = {"name": NAMED, "num_partitions": 1, "replication_factor": 1}
    wire.call("CreateTopics", 5, {"topics": [topic], "timeout_ms": 10_000})
    for kind in (0, 1):
        key = {"key": NAMED, "key_type": kind}
        until("led", lambda key=key: wire.call("FindCoordinator", 3, key)["error_code"] == 0)
    until("served", lambda: codes(wire.call("Produce", 7, produce(NAMED))) <= {0})
    idle = commit(NAMED, group=IDLE)
    until("committed", lambda: codes(wire.call("OffsetCommit", 8, idle)) <= {0})
    joined = wire.call("JoinGroup", 5, JOIN)
    assigned = {"member_id": joined["member_id"], "assignment": b"all"}
    synced = {
        "group_id": NAMED, "generation_id": joined["generation_id"], "group_instance_id": NAMED,
        "member_id": joined["member_id"], "assignments": [assigned],
    }  # fmt: skip
    begun = until("an id", lambda: _initialized_producer(wire))
    adding = {
        "v3_and_below_transactional_id": NAMED,
        "v3_and_below_producer_id": begun["producer_id"],
        "v3_and_below_producer_epoch": begun["producer_epoch"],
        "v3_and_below_topics": [{"name": NAMED, "partitions": [0]}],
    }
    until("added", lambda: codes(wire.call("AddPartitionsToTxn", 3, adding)) == {0})
    for name, version, value in (
        ("SyncGroup", 3, synced),
        ("IncrementalAlterConfigs", 1, _settings(2, NAMED, "retention.ms", "1000")),
        ("IncrementalAlterConfigs", 1, _settings(4, "", "log.retention.ms", "900000000")),
        ("CreateAcls", 3, {"creations": [acl_for_owner("*"), _LOOKS]}),
        ("AlterUserScramCredentials", 0, scram_upsertion(NAMED)),
        ("AlterClientQuotas", 1, quota(1024.0)),
    ):
        assert codes(wire.call(name, version, value)) == {0}, name


def _initialized_producer(wire: Wire) -> Value | None:
    asked = {"transactional_id": NAMED, "transaction_timeout_ms": 600_000}
    begun = wire.call("InitProducerId", 4, asked)
    return None if begun["error_code"] else begun


def _settings(kind: int, name: str, key: str, text: str) -> Value:
    config = {"name": key, "value": text, "config_operation": 0}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    return {"resources": [resource], "validate_only": False}


def acl_for_owner(name: str) -> Value:
    return {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{OWNER}",
        "host": "*",
        "operation": Operation.ALL,
        "permission_type": Permission.ALLOW,
    }


_LOOKS = {**acl_for_owner("*"), "principal": f"User:{LOOKER}", "operation": Operation.DESCRIBE}
ANY_ENTRY = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def scram_upsertion(name: str) -> Value:
    upsertion = {
        "name": name, "mechanism": ScramMechanism.SHA_256.code, "iterations": 4096,
        "salt": b"salt of the tests", "salted_password": SALTED,
    }  # fmt: skip
    return {"deletions": [], "upsertions": [upsertion]}


def quota(rate: float) -> Value:
    entity = [{"entity_type": "user", "entity_name": NAMED}]
    ops = [{"key": "producer_byte_rate", "value": rate, "remove": False}]
    return {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}


def new_token(**fields: Any) -> Value:
    return {"renewers": [], "max_lifetime_ms": -1, **fields}


_FIRST_WITH_INSTANCES = 5
"""The first version of JoinGroup that supports static members. In earlier versions, the response
waits until other members have joined."""
_PARTITION = [{"partition_index": 0, "offset": 1}]
_KINDS = [
    {"resource_type": kind, "resource_name": name}
    for kind, name in ((2, NAMED), (4, ""), (4, "1"), (8, "1"), (16, NAMED), (32, NAMED))
]
"""The type and name of each resource in the requests that read or change configs."""
WELL_FORMED: dict[str, list[Value]] = {
    "AlterClientQuotas": [quota(2048.0)],
    "AlterConfigs": [
        {"resources": [{**kind, "configs": [{"name": "retention.ms", "value": "70000000"}]}]}
        for kind in _KINDS
    ],
    "AlterUserScramCredentials": [
        scram_upsertion("more"),
        {"deletions": [{"name": NAMED, "mechanism": 1}], "upsertions": []},
    ],
    "CreateAcls": [{"creations": [acl_for_owner("more")]}],
    "CreateDelegationToken": [
        new_token(),
        new_token(owner_principal_type="User", owner_principal_name=OWNER),
    ],
    "CreatePartitions": [
        {"topics": [{"name": NAMED, "count": 3, "assignments": None}], "timeout_ms": 9000}
    ],
    "CreateTopics": [
        {
            "topics": [{"name": "more", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 9000,
        }
    ],
    "DeleteAcls": [{"filters": [ANY_ENTRY]}],
    "DeleteGroups": [{"groups_names": [IDLE]}],
    "DeleteRecords": [{"topics": [{"name": NAMED, "partitions": _PARTITION}], "timeout_ms": 9000}],
    "DescribeAcls": [ANY_ENTRY],
    "DescribeClientQuotas": [{"components": [], "strict": False}],
    "DescribeConfigs": [{"resources": [kind]} for kind in _KINDS],
    "FindCoordinator": [{"key": NAMED, "key_type": 1, "coordinator_keys": [NAMED]}],
    "IncrementalAlterConfigs": [
        _settings(*kind.values(), key, "70000000")
        for kind in _KINDS
        for key in ("retention.ms", "log.retention.ms")
    ],
    "InitProducerId": [
        {"transactional_id": name, "transaction_timeout_ms": 600_000} for name in (NAMED, None)
    ],
    "JoinGroup": [JOIN],
    "OffsetCommit": [commit(NAMED, group=IDLE)],
    "OffsetDelete": [
        {"group_id": IDLE, "topics": [{"name": NAMED, "partitions": [{"partition_index": 0}]}]}
    ],
    "OffsetFetch": [
        {"group_id": IDLE, "topics": None, "groups": [{"group_id": IDLE, "topics": None}]}
    ],
    "Produce": [produce(NAMED)],
}
"""Valid requests by API. They are sent in addition to those of `every_request`."""


def requests() -> list[Request]:
    found = []
    for api, version in EVERY:
        value = asked(api, version)
        found.append((api, version, value))
        for field in api.request:
            if isinstance(value.get(field.name), list):
                found += [(api, version, {**value, field.name: each}) for each in ([], None)]
        if api is not JOIN_GROUP or version >= _FIRST_WITH_INSTANCES:
            found += [(api, version, each) for each in WELL_FORMED.get(api.name, ())]
    return [each for each in found if _can_be_encoded(*each)]


def _can_be_encoded(api: Api, version: int, value: Value) -> bool:
    try:
        api.encode_request(version, value)
    except Exception:  # noqa: BLE001 - the version has no such request
        return False
    return True


REQUESTS = requests()


def answers(port: int, user: str, asked: list[Request]) -> list[Any]:
    """Returns the responses to a user's requests. A response is None if the broker closed the
    connection."""
    found: list[Any] = []
    connection = logged_in(port, user)
    for api, version, value in asked:
        try:
            found.append(connection.call(api.name, version, value))
        except ConnectionError:
            found.append(None)
            connection.close()
            connection = logged_in(port, user)
    connection.close()
    return found


def _tokens(broker: Broker) -> list[Any]:
    assert broker.secured.tokens is not None
    return list(broker.secured.tokens.all())


def state(broker: Broker) -> dict[str, Any]:
    """Returns all state that a request can change, except the delegation tokens of STRANGER,
    because every user may create tokens."""
    secured, config = broker.secured, broker.config
    assert secured.acls is not None
    assert secured.users is not None
    partitions = [each for topic in broker.logs.topics.values() for each in topic.partitions]
    return {
        "topics": {
            name: (topic.topic_id, topic.partitions, dict(topic.configs))
            for name, topic in broker.registry.topics.items()
        },
        "logs": {
            each.name: (each.log.log_start_offset, each.log.log_end_offset) for each in partitions
        },
        "groups": dict(_groups(broker)),
        "transactions": [
            {name: str(each) for name, each in hosted.core.view.transactions.items()}
            for hosted in broker.transactions.hosted_shards
        ],
        "producer ids": broker.producer_ids.ids.left,
        "settings": (dict(config.dynamic_default), dict(config.dynamic_own)),
        "entries": set(secured.acls.index),
        "users": {name: dict(secured.users.of(name)) for name in secured.users.names()},
        "quotas": dict(secured.quotas.values),
        "tokens": [each for each in _tokens(broker) if each.owner.name != STRANGER],
    }


def _groups(broker: Broker) -> Iterator[tuple[str, Any]]:
    for hosted in broker.groups.hosted_shards:
        for name, group in hosted.core.view.groups.items():
            yield name, (group.state, group.generation_id, sorted(group.members))
