"""Metadata (3): brokers, topics and the leaders of partitions.

Versions: in v0, an empty list selects all topics, and partitions have only brokers that the
response lists. From v1 on, null selects all topics; v1 also adds the controller, racks and the flag
of internal topics. v2 adds the cluster id; v4 allow_auto_topic_creation (earlier versions always
allow it); v5 offline replicas; v6 an error for a leader that has no endpoint on the client's
listener; v7 leader epochs; v8 authorized operations (KIP-430). v9 is flexible; v10 has topic ids in
the response; v11 omits the authorized operations of the cluster, which moved to DescribeCluster;
v12 accepts topic ids in the request; v13 adds a top-level error.

A requested topic that does not exist is created with the broker's defaults if the request and the
broker allow it. The response then has the complete entry of the new topic. In a cluster, the entry
is LEADER_NOT_AVAILABLE until leaders are elected.

A response waits for the controller's first UpdateMetadata (`shared/deferred_answer.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence, Set
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.shared.authorization import (
    NOT_ASKED,
    cluster_operations,
    denied,
    is_allowed,
    split,
)
from broker.apis.shared.deferred_answer import await_live_brokers
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import (
    AuthorizedOperations,
    HandlerAcl,
    Rights,
    cluster,
    each_shown_topic,
)
from broker.topics.cluster_view import NO_LEADER, PartitionView
from broker.topics.owned_topics import OWNED
from broker.topics.registry import INTERNAL_TOPICS, Topic
from broker.topics.topic_changes import BadFactor, CannotChange, TopicExists
from protocol.errors import (
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    LISTENER_NOT_FOUND,
    NONE,
    REPLICA_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.metadata import API
from protocol.schema import ZERO_UUID
from protocol.topic_names import BadTopicName, check_topic_name
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)


_DESCRIBE = each_shown_topic()
_CREATE_ANY = cluster(Operation.CREATE, is_logged=False)
_CREATE = HandlerAcl(
    Operation.CREATE,
    ResourceType.TOPIC,
    "each topic that the request would create",
    unless=_CREATE_ANY,
)
_TELLS_TOPIC = AuthorizedOperations(ResourceType.TOPIC)
_TELLS_CLUSTER = AuthorizedOperations(ResourceType.CLUSTER, cluster(Operation.DESCRIBE))
NO_EPOCH = -1
_KNOWS_LISTENERS = 6
"""The first version with LISTENER_NOT_FOUND, the error for a live leader that has no endpoint on
the client's listener."""
Found = Topic | dict[str, Any]
"""A topic that exists, or the finished response entry of a topic with an error."""


def _handle(services: Services, request: Request) -> Steps | None:
    request.connection.lookups += 1
    return await_live_brokers(services, request, _answer_now)


def _answer_now(services: Services, request: Request) -> Steps | None:
    value = request.value
    version = request.api_version
    asked = value["topics"]
    if asked is None or (version == 0 and not asked):
        return _answer(services, request, list(services.registry.topics.values()), is_all=True)
    judges = services.authorizer.judges
    ids = dict.fromkeys(map(itemgetter("topic_id"), asked))
    ids.pop(ZERO_UUID, None)
    names = list(map(itemgetter("name"), asked))
    if 10 <= version < 12 and (ids or None in names):
        return _answer(services, request, (_refused(entry, INVALID_REQUEST) for entry in asked))
    if ids:
        by_id = list(ids)
        return (_answer_allowed_ids if judges else _answer_ids)(services, request, by_id)
    if None in names:
        names = [name for name in names if name is not None]
    return (_answer_allowed if judges else _answer_names)(services, request, names)


def _answer_allowed_ids(services: Services, request: Request, ids: Sequence[bytes]) -> Steps:
    name_of = services.registry.topic_name
    ids, refused = yield from split(services, request, _DESCRIBE, ids, name_of)
    entries = (_denied(None, topic_id) for topic_id in refused)
    yield from _answer_ids(services, request, ids, entries)


def _answer_ids(
    services: Services,
    request: Request,
    ids: Sequence[bytes],
    refused: Iterable[dict[str, Any]] = (),
) -> Steps:
    return _answer(services, request, map(partial(_by_id, services), ids), refused)


def _answer_allowed(services: Services, request: Request, names: Sequence[str]) -> Steps:
    """Answers a request by topic names on a broker with an authorizer.

    A topic that the client may not describe is denied whether or not it exists. A topic that the
    request would create is denied if the client may not create it.
    """
    names, undescribed = yield from split(services, request, _DESCRIBE, names, str)
    uncreated: Set[str] = frozenset()
    new = _new(services, request, dict.fromkeys(names))
    if new and not is_allowed(services, request, _CREATE_ANY):
        uncreated = yield from denied(services, request, _CREATE, new)
    if uncreated:
        names = [name for name in names if name not in uncreated]
    refused = chain(
        map(_denied, dict.fromkeys(undescribed)),
        map(_uncreated, (name for name in new if name in uncreated)),
    )
    yield from _answer_names(services, request, names, refused) or ()


def _answer_names(
    services: Services,
    request: Request,
    names: Sequence[str],
    refused: Iterable[dict[str, Any]] = (),
) -> Steps | None:
    once = list(dict.fromkeys(names))
    if _new(services, request, once):
        request.answer_later(_create_and_answer(services, request, once, refused))
        return None
    return _answer(services, request, map(partial(_by_name, services), once), refused)


def _new(services: Services, request: Request, names: Iterable[str]) -> list[str]:
    """Returns the topics that the request may create: missing topics, if automatic creation is
    allowed."""
    allowed = request.value["allow_auto_topic_creation"]
    if not allowed or not services.config["auto.create.topics.enable"]:
        return []
    return [name for name in names if services.registry.topic(name) is None]


def _denied(name: str | None, topic_id: bytes = ZERO_UUID) -> dict[str, Any]:
    return {**missing(TOPIC_AUTHORIZATION_FAILED, name, topic_id), "is_internal": False}


def _uncreated(name: str) -> dict[str, Any]:
    return missing(TOPIC_AUTHORIZATION_FAILED, name)


async def _create_and_answer(
    services: Services,
    request: Request,
    names: Sequence[str],
    refused: Iterable[dict[str, Any]],
) -> None:
    slices = services.slicer.work(API.name)
    topics: list[Found] = []
    for name in names:
        is_new = services.registry.topic(name) is None
        topics.append(await slices.beside(_ensured(services, name)))
        if is_new and (made := services.registry.topic(name)) is not None:
            request.mutations(None).take(made.partitions)
        if slices.over:
            await slices.pause()
    slices.end()
    request.work_off(_answer(services, request, topics, refused))


async def _ensured(services: Services, name: str) -> Found:
    if services.registry.topic(name) is None:
        try:
            check_topic_name(name)
            if name in INTERNAL_TOPICS and not OWNED[name].is_created(services.registry.features):
                return missing(UNKNOWN_TOPIC_OR_PARTITION, name)
            if services.topics.collisions(name):
                return missing(INVALID_TOPIC_EXCEPTION, name)
            if await services.topics.ensure(name) is None:
                return missing(LEADER_NOT_AVAILABLE, name)
        except BadTopicName:
            return missing(INVALID_TOPIC_EXCEPTION, name)
        except (TopicExists, CannotChange):  # it is being deleted, or can't be created now
            return missing(LEADER_NOT_AVAILABLE, name)
        except BadFactor:
            return missing(INVALID_REPLICATION_FACTOR, name)
        except OSError as error:
            logger.error("topic can't be created", topic=name, error=str(error))
            return missing(KAFKA_STORAGE_ERROR, name)
    return _by_name(services, name)


def _by_name(services: Services, name: str) -> Found:
    topic = services.registry.topic(name)
    if topic is not None:
        return topic
    try:
        check_topic_name(name)
    except BadTopicName:
        return missing(INVALID_TOPIC_EXCEPTION, name)
    return missing(UNKNOWN_TOPIC_OR_PARTITION, name)


def _by_id(services: Services, topic_id: bytes) -> Found:
    return services.registry.topic_by_id(topic_id) or missing(UNKNOWN_TOPIC_ID, None, topic_id)


def _refused(entry: dict[str, Any], error_code: int) -> dict[str, Any]:
    return missing(error_code, entry["name"] or "", entry["topic_id"])


def missing(error_code: int, name: str | None, topic_id: bytes = ZERO_UUID) -> dict[str, Any]:
    """Returns the response entry of a topic that has an error and no partitions."""
    internal = name is not None and Topic(name, topic_id, 0).is_internal
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": internal,
        "partitions": [],
    }


def described(topic: Topic) -> dict[str, Any]:
    """Returns the response entry of a topic, without its partitions and authorized operations."""
    return {
        "error_code": NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
    }


def partition_entry(
    services: Services, topic: str, index: int, brokers: Collection[int], version: int
) -> dict[str, Any]:
    """Returns a partition's entry in a Metadata response of ``version``. The same response lists
    the live ``brokers``.

    A client of version 0 can't parse a partition with a broker that the response does not list, so
    the entry omits such brokers. In later versions the entry has all replicas, and the leader is
    one of ``brokers`` or -1.
    """
    found = services.cluster.partition(topic, index)
    if found is None:
        found = PartitionView(NO_LEADER, NO_EPOCH, (), ())
    leader, replicas, isr = found.leader, found.replicas, found.isr
    error_code = NONE
    if version == 0:
        replicas = [each for each in replicas if each in brokers]
        isr = [each for each in isr if each in brokers]
        if len(replicas) < len(found.replicas) or len(isr) < len(found.isr):
            error_code = REPLICA_NOT_AVAILABLE
    if leader == NO_LEADER:
        error_code = LEADER_NOT_AVAILABLE
    elif leader not in brokers:
        error_code = LISTENER_NOT_FOUND if version >= _KNOWS_LISTENERS else LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    return {
        "error_code": error_code,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": found.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": found.offline,
    }


def _answer(
    services: Services,
    request: Request,
    found: Iterable[Found],
    refused: Iterable[dict[str, Any]] = (),
    *,
    is_all: bool = False,
) -> Steps:
    """Completes the request. If ``is_all`` is True, the response omits topics that the client may
    not describe, and the audit log has no entries for them."""
    value = request.value
    wanted = value["include_topic_authorized_operations"]
    hides = is_all and services.authorizer.judges
    worst = NONE
    brokers = services.cluster.brokers(services.advertised.listener(request))
    ids = {each.node_id for each in brokers}
    topics = request.array("topics")
    for each in found:
        if isinstance(each, dict):
            entry = each
        elif hides and not is_allowed(services, request, _DESCRIBE, each.name, is_logged=False):
            yield None
            continue
        else:
            entry = yield from _described(services, request, each, ids)
        name = entry["name"]
        if wanted and name is not None and entry["error_code"] != UNKNOWN_TOPIC_ID:
            entry["topic_authorized_operations"] = services.authorizer.operations(
                request.connection, _TELLS_TOPIC.kind, name
            )
        worst = worst or entry["error_code"]
        topics.append(entry)
        yield None
    for entry in refused:
        worst = worst or entry["error_code"]
        topics.append(entry)
        yield None
    operations = NOT_ASKED
    if value["include_cluster_authorized_operations"]:
        operations = cluster_operations(services, request, _TELLS_CLUSTER)
    request.respond(
        {
            "brokers": [each._asdict() for each in brokers],
            "cluster_id": services.registry.cluster_id,
            "controller_id": services.cluster.controller_id,
            "topics": topics,
            "cluster_authorized_operations": operations,
        },
        worst,
    )


def _described(
    services: Services, request: Request, topic: Topic, brokers: Collection[int]
) -> Generator[None, None, dict[str, Any]]:
    """Returns the entry of a topic; the entry has an error if the topic was deleted during this
    request."""
    there = services.registry.topic(topic.name)
    if there is None:
        return missing(UNKNOWN_TOPIC_OR_PARTITION, topic.name)
    partitions = request.array("topics", "partitions")
    for index in range(there.partitions):
        entry = partition_entry(services, topic.name, index, brokers, request.api_version)
        partitions.append(entry)
        yield None
    return {**described(topic), "partitions": partitions}


SERVED = ServedApi(
    API,
    0,
    13,
    _handle,
    rights=Rights(own=(_DESCRIBE, _CREATE), tells=(_TELLS_TOPIC, _TELLS_CLUSTER)),
)
