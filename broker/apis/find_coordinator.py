"""FindCoordinator (10): the coordinator of a group, of a transactional id or of a share partition.

Versions: v1 adds the key type, an error message and the throttle time; v3 is flexible; v4 has many
keys (KIP-699); v5 adds an error code that Muster does not send. v6 adds keys of share partitions,
``group:topicId:partition`` (KIP-932), which get INVALID_REQUEST while share.version is 0.

The first request that needs a coordinator's topic creates the topic and waits until it exists.
Kafka responds COORDINATOR_NOT_AVAILABLE instead, and the client retries.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.shared.authorization import TEXTS, is_allowed, split
from broker.config.config_table import SHARE_VERSION
from broker.config.config_value import BadValue
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import DENIED, Rights, cluster_action, of_each
from broker.topics.owned_topics import OWNED, OwnedTopic
from broker.topics.registry import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    BrokerNode,
)
from broker.topics.topic_changes import BadFactor, CannotChange, TopicExists
from offsets.partitioner import partition_for
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    NONE,
)
from protocol.messages.find_coordinator import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
"""The values of the field key_type in a request."""
_FIRST_WITH_SHARE = 6
_DESCRIBE = {
    _GROUP: of_each(ResourceType.GROUP, Operation.DESCRIBE),
    _TRANSACTION: of_each(ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE),
}
"""The ACL operation that a client needs, by the type of the key."""
_OF_SHARE = cluster_action("for share groups")
_TOPICS = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTION_TOPIC, _SHARE: SHARE_STATE_TOPIC}
"""The topic whose partition leaders are the coordinators, by the type of the key."""
_BAD_KEY = "The key must have the form group:topicId:partition."
_SHARE_IS_OFF = (
    "share groups are off: check group.coordinator.rebalance.protocols and feature share.version"
)
_SHARE_BEFORE_6 = "the key of a share partition needs FindCoordinator version 6 or later"


def _handle(services: Services, request: Request) -> Steps:
    request.connection.lookups += 1
    value = request.value
    key_type = value["key_type"]
    batched = request.api_version >= 4
    keys: Sequence[str] = value["coordinator_keys"] if batched else [value["key"]]
    denied: Sequence[str] = ()
    denial = CLUSTER_AUTHORIZATION_FAILED
    if key_type in _DESCRIBE:
        right = _DESCRIBE[key_type]
        denial = DENIED[right.kind]
        keys, denied = yield from split(services, request, right, keys, str)
    elif (
        key_type == _SHARE
        and request.api_version >= _FIRST_WITH_SHARE
        and not is_allowed(services, request, _OF_SHARE)
    ):
        keys, denied = (), keys
    made = True
    topic = _topic_of(services, request, key_type)
    bad: Sequence[str] = ()
    if topic == SHARE_STATE_TOPIC:
        keys, bad = _checked(keys)
    if not keys:  # all keys may have been denied: no topic is created for them
        topic = None
    if topic is not None and services.registry.topic(topic) is None:
        making = asyncio.ensure_future(is_made(services, OWNED[topic]))
        yield making
        made = making.result()
    if topic == TRANSACTION_TOPIC and not services.producer_ids.ids.left:
        yield asyncio.ensure_future(services.producer_ids.ready())  # for the next InitProducerId
    if batched:
        answers = request.array("coordinators")
        worst = NONE
        for key in keys:
            answer = _find(services, request, key_type, key, made)
            worst = max(worst, answer["error_code"])
            answers.append(answer)
            yield None
        for key in bad:
            worst = worst or INVALID_REQUEST
            answers.append(_error(key, INVALID_REQUEST, _BAD_KEY))
            yield None
        for key in denied:
            worst = worst or denial
            answers.append(_error(key, denial, TEXTS[denial]))
            yield None
        request.respond({"throttle_time_ms": 0, "coordinators": answers}, worst)
    else:
        if denied:
            answer = _error("", denial, TEXTS[denial])
        else:
            answer = _find(services, request, key_type, keys[0], made)
        del answer["key"]
        if answer["error_code"] == NONE:
            answer["error_message"] = "NONE"  # Kafka's text before v4; from v4 on it is ""
        request.respond({"throttle_time_ms": 0, **answer})


def _topic_of(services: Services, request: Request, key_type: int) -> str | None:
    """Returns the coordinator's topic for a type of keys. Returns None if this broker does not
    serve the type."""
    if key_type == _SHARE and (
        request.api_version < _FIRST_WITH_SHARE
        or SHARE_VERSION not in services.registry.features.levels
    ):
        return None
    return _TOPICS.get(key_type)


def _checked(keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the valid and the invalid keys of share partitions.

    Source: Kafka 4.3.1 ``SharePartitionKey.validate``.
    """
    good: list[str] = []
    bad: list[str] = []
    for key in keys:
        (good if _is_share_key(key) else bad).append(key)
    return good, bad


def _is_share_key(key: str) -> bool:
    try:
        group_id, topic_id, partition = key.rsplit(":", 2)
        int(partition)
        return bool(group_id.strip()) and len(base64.urlsafe_b64decode(topic_id + "==")) == 16
    except ValueError:
        return False


async def is_made(services: Services, owned: OwnedTopic) -> bool:
    """Creates a coordinator's topic if it does not exist. Returns False if the topic can't be
    created now."""
    try:
        await services.topics.ensure_owned(owned)
    except (TopicExists, CannotChange):  # temporary
        return False
    except (BadValue, BadFactor, OSError) as error:
        logger.error(f"{owned.name} can't be created", error=str(error))
        return False
    return True


def _find(
    services: Services, request: Request, key_type: int, key: str, made: bool
) -> dict[str, Any]:
    topic = _topic_of(services, request, key_type)
    if topic is None:
        kind = "share groups" if key_type == _SHARE else f"keys of type {key_type}"
        advice = f"this broker does not coordinate {kind}"
        if key_type == _SHARE:
            is_early = request.api_version < _FIRST_WITH_SHARE
            advice = _SHARE_BEFORE_6 if is_early else _SHARE_IS_OFF
        services.unsupported.asked(request.connection, API.name, advice)
        return _error(key, INVALID_REQUEST, f"This broker does not coordinate {kind}.")
    if not made:
        message = f"{topic} can't be created: see the reason in the broker's log."
        return _error(key, COORDINATOR_NOT_AVAILABLE, message)
    if key_type == _GROUP:
        services.stuck_clients.asked(request.connection, key)
    node = _coordinator(services, request, topic, key)
    if node is None:
        message = f"The partition of {topic} for this key has no leader yet."
        return _error(key, COORDINATOR_NOT_AVAILABLE, message)
    return {
        "key": key,
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": NONE,
        "error_message": "",
    }


def _coordinator(services: Services, request: Request, name: str, key: str) -> BrokerNode | None:
    """Returns the broker that leads the partition of ``key`` in topic ``name``; None if the
    partition has no leader.

    The number of partitions comes from the coordinator's runtime, because the metadata may lack
    partitions at first.
    """
    if name == SHARE_STATE_TOPIC:
        count = services.share_coordinator.partitions
    else:
        runtime = services.groups if name == OFFSETS_TOPIC else services.transactions
        count = runtime.life.partitions
    if not count:
        return None
    cluster = services.cluster
    found = cluster.partition(name, partition_for(key, count))
    if found is None:
        return None
    return cluster.node(found.leader, services.advertised.listener(request))


def _error(key: str, error_code: int, message: str) -> dict[str, Any]:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error_code,
        "error_message": message,
    }


SERVED = ServedApi(
    API,
    0,
    6,
    _handle,
    "FindCoordinator for a share group returns INVALID_REQUEST, after which clients do not retry",
    rights=Rights(own=(*_DESCRIBE.values(), _OF_SHARE)),
)
