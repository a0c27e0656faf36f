"""Encodes and decodes the controller's requests to brokers, in each version.

The request objects of `controller/requests.py` do not depend on versions. Encoding omits fields
that a version does not have. Decoding sets these fields to the values that older versions imply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from broker.cluster.peers.fitting import Value, fitting
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import BrokerFact
from protocol.messages import leader_and_isr, stop_replica, update_metadata
from protocol.schema import ZERO_UUID, Api
from protocol.znodes.brokers import Endpoint

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols; the index of each protocol is its id in Kafka's requests."""
_ONE_DELETION_FOR_ALL = 3
"""The first StopReplica version with a deletion flag for each partition. Older versions have one
flag for all partitions of a request."""


class Message(NamedTuple):
    """A request to send: its API, version and fields."""

    api: Api
    version: int
    value: Value


def encode(request: Send, version_of: Callable[[str], int | None], listener: str) -> list[Message]:
    """Returns the messages for a request, in the versions that brokers support. A StopReplica may
    need two messages, all other requests one.

    ``listener`` is the name of the inter-broker listener.
    """
    if isinstance(request, LeaderAndIsrRequest):
        return [_message(leader_and_isr.API, version_of, _leader_and_isr(request, listener))]
    if isinstance(request, UpdateMetadataRequest):
        return [_message(update_metadata.API, version_of, _update_metadata(request))]
    api = stop_replica.API
    version = version_of(api.name)
    assert version is not None
    parts = [request] if version >= _ONE_DELETION_FOR_ALL else list(_by_deletion(request))
    return [_message(api, version_of, _stop_replica(each)) for each in parts]


def _message(api: Api, version_of: Callable[[str], int | None], value: Value) -> Message:
    version = version_of(api.name)
    assert version is not None, "each release knows the controller's requests"
    return Message(api, version, fitting(api.request, version, value))


def _head(request: Send) -> Value:
    return {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "is_kraft_controller": False,
    }


def _leader_and_isr(request: LeaderAndIsrRequest, listener: str) -> Value:
    topics = [
        _topic(topic, [_leader_and_isr_state(each) for each in topic.partitions])
        for topic in request.topics
    ]
    leaders = [(each.broker_id, _endpoint(each, listener)) for each in request.live_leaders]
    return {
        **_head(request),
        "topic_states": topics,
        "ungrouped_partition_states": _ungrouped(topics),
        "live_leaders": [
            {"broker_id": broker_id, "host_name": endpoint.host, "port": endpoint.port}
            for broker_id, endpoint in leaders
            if endpoint is not None
        ],
    }


def _topic(topic: LeaderAndIsrTopic | ShownTopic, states: list[Value]) -> Value:
    return {
        "topic_name": topic.name,
        "topic_id": topic.topic_id or ZERO_UUID,
        "partition_states": states,
    }


def _state(each: LeaderAndIsrPartition | ShownPartition) -> Value:
    """Returns the fields of a partition that LeaderAndIsr and UpdateMetadata share."""
    return {
        "partition_index": each.partition,
        "controller_epoch": each.controller_epoch,
        "leader": each.leader,
        "leader_epoch": each.leader_epoch,
        "isr": list(each.isr),
        "replicas": list(each.replicas),
    }


def _leader_and_isr_state(each: LeaderAndIsrPartition) -> Value:
    return {
        **_state(each),
        "partition_epoch": each.partition_epoch,
        "adding_replicas": list(each.adding),
        "removing_replicas": list(each.removing),
        "is_new": each.is_new,
        "leader_recovery_state": int(each.recovering),
    }


def _update_metadata(request: UpdateMetadataRequest) -> Value:
    topics = [
        _topic(topic, [_shown(each) for each in topic.partitions]) for topic in request.topics
    ]
    return {
        **_head(request),
        "topic_states": topics,
        "ungrouped_partition_states": _ungrouped(topics),
        "live_brokers": [_broker(each) for each in request.brokers],
    }


def _shown(each: ShownPartition) -> Value:
    return {
        **_state(each),
        "zk_version": each.partition_epoch,
        "offline_replicas": list(each.offline),
    }


def _broker(broker: BrokerFact) -> Value:
    first = broker.endpoints[0] if broker.endpoints else Endpoint("PLAINTEXT", "", -1)
    return {
        "id": broker.broker_id,
        "endpoints": [
            {
                "port": each.port,
                "host": each.host,
                "listener": each.listener,
                "security_protocol": SECURITY_PROTOCOLS.index(each.security_protocol),
            }
            for each in broker.endpoints
        ],
        "rack": broker.rack,
        "v0_host": first.host,
        "v0_port": first.port,
    }


def _by_deletion(request: StopReplicaRequest) -> Iterator[StopReplicaRequest]:
    """Splits a StopReplica into one for the replicas that are only stopped, and one for the
    replicas that are deleted."""
    for delete in (False, True):
        topics = [
            StoppedTopic(topic.name, [each for each in topic.partitions if each.delete == delete])
            for topic in request.topics
        ]
        topics = [topic for topic in topics if topic.partitions]
        if topics:
            yield request._replace(topics=topics)


def _stop_replica(request: StopReplicaRequest) -> Value:
    topics = [
        {
            "topic_name": topic.name,
            "partition_states": [
                {
                    "partition_index": each.partition,
                    "leader_epoch": each.leader_epoch,
                    "delete_partition": each.delete,
                }
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    deletes = any(each.delete for topic in request.topics for each in topic.partitions)
    indexes = [
        (topic.name, [each.partition for each in topic.partitions]) for topic in request.topics
    ]
    return {
        **_head(request),
        "delete_partitions": deletes,
        "topic_states": topics,
        "topics": [{"name": name, "partition_indexes": found} for name, found in indexes],
        "ungrouped_partitions": [
            {"topic_name": name, "partition_index": index}
            for name, found in indexes
            for index in found
        ],
    }


def _ungrouped(topics: Iterable[Value]) -> list[Value]:
    return [
        {"topic_name": topic["topic_name"], **each}
        for topic in topics
        for each in topic["partition_states"]
    ]


def _endpoint(broker: BrokerFact, listener: str) -> Endpoint | None:
    named = [each for each in broker.endpoints if each.listener == listener]
    return next(iter([*named, *broker.endpoints]), None)


# -- decoding

RECEIVED = -1
"""The receiver's broker id in a decoded request. The id is unknown, because encoded requests do not
name their receiver."""


def decode_leader_and_isr(value: Value) -> LeaderAndIsrRequest:
    """Decodes a LeaderAndIsr of any version."""
    return LeaderAndIsrRequest(
        RECEIVED,
        value["broker_epoch"],
        value["controller_id"],
        value["controller_epoch"],
        [
            LeaderAndIsrTopic(
                name,
                topic_id,
                [
                    LeaderAndIsrPartition(
                        each["partition_index"],
                        each["controller_epoch"],
                        each["leader"],
                        each["leader_epoch"],
                        tuple(each["isr"]),
                        each["partition_epoch"],
                        tuple(each["replicas"]),
                        tuple(each.get("adding_replicas", ())),
                        tuple(each.get("removing_replicas", ())),
                        each.get("leader_recovery_state", 0) == 1,
                        each["is_new"],
                    )
                    for each in partitions
                ],
            )
            for name, topic_id, partitions in _topics(value)
        ],
        [
            BrokerFact(each["broker_id"], -1, (Endpoint("", each["host_name"], each["port"]),))
            for each in value["live_leaders"]
        ],
    )


def decode_update_metadata(value: Value) -> UpdateMetadataRequest:
    """Decodes an UpdateMetadata of any version."""
    return UpdateMetadataRequest(
        RECEIVED,
        value["broker_epoch"],
        value["controller_id"],
        value["controller_epoch"],
        [_read_broker(each) for each in value["live_brokers"]],
        [
            ShownTopic(
                name,
                topic_id,
                [
                    ShownPartition(
                        each["partition_index"],
                        each["controller_epoch"],
                        each["leader"],
                        each["leader_epoch"],
                        tuple(each["isr"]),
                        each["zk_version"],
                        tuple(each["replicas"]),
                        tuple(each.get("offline_replicas", ())),
                    )
                    for each in partitions
                ],
            )
            for name, topic_id, partitions in _topics(value)
        ],
    )


def decode_stop_replica(value: Value) -> StopReplicaRequest:
    """Decodes a StopReplica of any version. The leader epoch is -1 if the version does not have
    it."""
    deletes = value["delete_partitions"]
    if value["topic_states"]:
        topics = [
            StoppedTopic(
                topic["topic_name"],
                [
                    StoppedPartition(
                        each["partition_index"], each["leader_epoch"], each["delete_partition"]
                    )
                    for each in topic["partition_states"]
                ],
            )
            for topic in value["topic_states"]
        ]
    else:
        places = [
            (topic["name"], index)
            for topic in value["topics"]
            for index in topic["partition_indexes"]
        ]
        places += [
            (each["topic_name"], each["partition_index"]) for each in value["ungrouped_partitions"]
        ]
        topics = [
            StoppedTopic(name, [StoppedPartition(index, -1, deletes) for _, index in found])
            for name, found in groupby(places, itemgetter(0))
        ]
    return StopReplicaRequest(
        RECEIVED, value["broker_epoch"], value["controller_id"], value["controller_epoch"], topics
    )


def _topics(value: Value) -> Iterator[tuple[str, bytes | None, list[Value]]]:
    """Yields the name, id and partitions of each topic. Some versions do not group partitions by
    topic."""
    if value["topic_states"]:
        for topic in value["topic_states"]:
            topic_id = topic["topic_id"]
            known = None if topic_id == ZERO_UUID else topic_id
            yield topic["topic_name"], known, topic["partition_states"]
        return
    by_name = itemgetter("topic_name")
    for name, found in groupby(value["ungrouped_partition_states"], by_name):
        yield name, None, list(found)


def _read_broker(value: Value) -> BrokerFact:
    endpoints = tuple(
        Endpoint(
            each["listener"] or _protocol(each["security_protocol"]),
            each["host"],
            each["port"],
            _protocol(each["security_protocol"]),
        )
        for each in value["endpoints"]
    )
    if not endpoints:
        endpoints = (Endpoint("PLAINTEXT", value["v0_host"], value["v0_port"]),)
    return BrokerFact(value["id"], -1, endpoints, value["rack"] or None)


def _protocol(number: int) -> str:
    known = 0 <= number < len(SECURITY_PROTOCOLS)
    return SECURITY_PROTOCOLS[number] if known else f"PROTOCOL_{number}"
