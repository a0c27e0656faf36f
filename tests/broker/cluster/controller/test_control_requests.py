"""Tests that encoding and decoding preserve the controller's requests, except fields that a version
lacks."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.controller.control_requests import (
    decode_leader_and_isr,
    decode_stop_replica,
    decode_update_metadata,
    encode,
)
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
from protocol.znodes.brokers import Endpoint

ID = bytes(range(16))
LISTENER = "IN"
BROKERS = [
    BrokerFact(1, -1, (Endpoint("IN", "h1", 1), Endpoint("OUT", "o1", 11)), "r1"),
    BrokerFact(2, -1, (Endpoint("IN", "h2", 2),)),
]
HEAD = (7, 77, 1, 5)
"""Broker id, broker epoch, controller id and controller epoch."""
LEADER_AND_ISR = LeaderAndIsrRequest(
    *HEAD,
    [
        LeaderAndIsrTopic(
            "t",
            ID,
            [
                LeaderAndIsrPartition(0, 4, 1, 9, (1, 2), 3, (1, 2, 7), (7,), (2,), True, True),
                LeaderAndIsrPartition(1, 4, -1, 10, (), 4, (2, 1), (), (), False, False),
            ],
        )
    ],
    BROKERS,
)
UPDATE_METADATA = UpdateMetadataRequest(
    *HEAD,
    BROKERS,
    [ShownTopic("t", ID, [ShownPartition(0, 4, -2, 9, (1, 2), 3, (1, 2, 7), (7,))])],
)
STOP_REPLICA = StopReplicaRequest(
    *HEAD,
    [
        StoppedTopic("t", [StoppedPartition(0, 9, False), StoppedPartition(1, -2, True)]),
        StoppedTopic("u", [StoppedPartition(4, 1, True)]),
    ],
)


def _encoded_and_decoded(request: Send, api: Any, version: int, decode: Any) -> list[Any]:
    found = []
    for message in encode(request, lambda _: version, LISTENER):
        assert (message.api, message.version) == (api, version)
        value = api.decode_request(version, api.encode_request(version, message.value))
        found.append(decode(value))
    return found


@pytest.mark.parametrize("version", leader_and_isr.API.versions)
def test_leader_and_isr_round_trips_in_every_version(version: int) -> None:
    (read,) = _encoded_and_decoded(
        LEADER_AND_ISR, leader_and_isr.API, version, decode_leader_and_isr
    )
    (topic,) = LEADER_AND_ISR.topics
    partitions = [
        each._replace(
            adding=each.adding if version >= 3 else (),
            removing=each.removing if version >= 3 else (),
            recovering=each.recovering and version >= 6,
            is_new=each.is_new and version >= 1,
        )
        for each in topic.partitions
    ]
    assert read.topics == [LeaderAndIsrTopic("t", ID if version >= 5 else None, partitions)]
    assert read[:4] == (-1, 77 if version >= 2 else -1, 1, 5)
    assert [each.endpoints[0].port for each in read.live_leaders] == [1, 2]


@pytest.mark.parametrize("version", update_metadata.API.versions)
def test_update_metadata_of_every_version_is_unchanged_after_encoding_and_decoding(
    version: int,
) -> None:
    (read,) = _encoded_and_decoded(
        UPDATE_METADATA, update_metadata.API, version, decode_update_metadata
    )
    (topic,) = UPDATE_METADATA.topics
    partitions = [
        each._replace(offline=each.offline if version >= 4 else ()) for each in topic.partitions
    ]
    assert read.topics == [ShownTopic("t", ID if version >= 7 else None, partitions)]
    assert read[:4] == (-1, 77 if version >= 5 else -1, 1, 5)
    if version >= 3:
        assert read.brokers == BROKERS
    assert [each.rack for each in read.brokers] == (["r1", None] if version >= 2 else [None] * 2)


@pytest.mark.parametrize("version", stop_replica.API.versions)
def test_stop_replica_round_trips_in_every_version(version: int) -> None:
    read = _encoded_and_decoded(STOP_REPLICA, stop_replica.API, version, decode_stop_replica)
    if version >= 3:
        assert [each.topics for each in read] == [STOP_REPLICA.topics]
        return
    stopped, deleted = read
    assert stopped.topics == [StoppedTopic("t", [StoppedPartition(0, -1, False)])]
    assert deleted.topics == [
        StoppedTopic("t", [StoppedPartition(1, -1, True)]),
        StoppedTopic("u", [StoppedPartition(4, -1, True)]),
    ]
