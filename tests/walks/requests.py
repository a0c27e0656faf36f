"""Requests to a simulated broker with loaded shards. For each request, the recorder lists the
functions that handle it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from tests.simulation.whole.living import LivingWorld
from tests.walks.recorder import Walk
from tests.wire import batch

CLIENT = "walker"
ANSWERED_WITHIN_MS = 5_000
GROUP, TOPIC, PRODUCER = "payments", "orders", "billing"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
DENIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
Value = dict[str, Any]


class WalkedBroker(LivingWorld):
    """A simulated broker without faults and with one connection. The broker receives each request
    in a single read."""

    def __init__(self, **settings: str) -> None:
        super().__init__(seed=1)
        self.settings = SETTINGS | settings
        self.network.torn = 0.0
        self.network.on_written = lambda wire, frame: None
        self.network.on_closed = lambda wire: None
        self.run(5.0)
        wire = self.network.connect(self.port, "10.0.0.1")
        assert wire is not None
        self._wire = wire
        self._frames: list[bytes] = []
        wire.on_frame = self._frames.append
        self._correlation_id = 0

    def ask(self, name: str, version: int, walk: Walk | None = None, **value: Any) -> Value:
        """Sends a request and returns the response. If ``walk`` is given, it records the function
        calls of the broker."""
        api = BY_NAME[name]
        self._correlation_id += 1
        body = encode_request_header(api.key, version, self._correlation_id, CLIENT)
        body += api.encode_request(version, value)
        self._wire.send(struct.pack(">i", len(body)) + body)
        if walk is None:
            frame = self._answer()
        else:
            with walk.recorded():
                frame = self._answer()
        _, position = decode_response_header(api.key, version, frame)
        return api.decode_response(version, frame, position)

    def _answer(self) -> bytes:
        for _ in range(ANSWERED_WITHIN_MS):
            if self._frames:
                return self._frames.pop()
            self.run(0.001)
        raise AssertionError("no answer")

    def warm(self) -> None:
        """Loads the shard of the group and creates the topic, so that the recorded function calls
        do not include this work."""
        while self.ask("FindCoordinator", 2, key=GROUP, key_type=0)["error_code"]:
            self.run(0.5)
        topic = {
            "name": TOPIC,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        self.ask("CreateTopics", 2, topics=[topic], timeout_ms=1_000, validate_only=False)
        self.run(1.0)


def _join(broker: WalkedBroker, walk: Walk | None = None, member_id: str = "") -> Value:
    return broker.ask(
        "JoinGroup",
        5,
        walk,
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


def _sync(broker: WalkedBroker, joined: Value, walk: Walk | None = None) -> Value:
    member_id = joined["member_id"]
    return broker.ask(
        "SyncGroup",
        3,
        walk,
        group_id=GROUP,
        generation_id=joined["generation_id"],
        member_id=member_id,
        group_instance_id=None,
        assignments=[{"member_id": member_id, "assignment": b"orders"}],
    )


def _joined(broker: WalkedBroker) -> Value:
    """Creates a group with one member, which has joined and synced. Returns its JoinGroup
    response."""
    joined = _join(broker, member_id=_join(broker)["member_id"])
    assert _sync(broker, joined)["error_code"] == 0
    broker.run(1.0)
    return joined


def _join_group(broker: WalkedBroker, walk: Walk) -> int:
    member_id = _joined(broker)["member_id"]
    return int(_join(broker, walk, member_id)["error_code"])


def _sync_group(broker: WalkedBroker, walk: Walk) -> int:
    joined = _join(broker, member_id=_joined(broker)["member_id"])
    broker.run(1.0)
    return int(_sync(broker, joined, walk)["error_code"])


def _heartbeat(broker: WalkedBroker, walk: Walk) -> int:
    joined = _joined(broker)
    beat = {
        "group_id": GROUP,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "group_instance_id": None,
    }
    broker.ask("Heartbeat", 3, **beat)
    return int(broker.ask("Heartbeat", 3, walk, **beat)["error_code"])


COMMIT: Value = {
    "group_id": GROUP,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "topics": [
        {
            "name": TOPIC,
            "partitions": [
                {
                    "partition_index": 0,
                    "committed_offset": 1,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
            ],
        }
    ],
}


def _offset_commit(broker: WalkedBroker, walk: Walk) -> int:
    joined = _joined(broker)
    commit = COMMIT | {
        "generation_id_or_member_epoch": joined["generation_id"],
        "member_id": joined["member_id"],
    }
    broker.ask("OffsetCommit", 8, **commit)
    return _code(broker.ask("OffsetCommit", 8, walk, **commit)["topics"][0])


def _denied_commit(broker: WalkedBroker, walk: Walk) -> int:
    broker.ask("OffsetCommit", 8, **COMMIT)
    return _code(broker.ask("OffsetCommit", 8, walk, **COMMIT)["topics"][0])


def _code(topic: Value) -> int:
    return int(topic["partitions"][0]["error_code"])


def _offset_fetch(broker: WalkedBroker, walk: Walk) -> int:
    fetch = {"topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": False}
    broker.ask("OffsetCommit", 8, **COMMIT)
    broker.ask("OffsetFetch", 7, group_id=GROUP, **fetch)
    return _code(broker.ask("OffsetFetch", 7, walk, group_id=GROUP, **fetch)["topics"][0])


def _produce(broker: WalkedBroker, walk: Walk | None = None) -> int:
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch(b"paid")}]}
    answer = broker.ask(
        "Produce", 7, walk, transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[data]
    )
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


def _produce_warm(broker: WalkedBroker, walk: Walk) -> int:
    _produce(broker)
    return _produce(broker, walk)


def _fetch(broker: WalkedBroker, walk: Walk) -> int:
    _produce(broker)
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    fetch = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    broker.ask("Fetch", 11, **fetch)
    answer = broker.ask("Fetch", 11, walk, **fetch)
    return int(answer["responses"][0]["partitions"][0]["error_code"])


def _end_txn(broker: WalkedBroker, walk: Walk) -> int:
    """Makes two transactions, and records the EndTxn of the second one. The record includes all
    calls within 0.1 s after the response, because these calls write the markers."""
    code = -1
    while code:  # until the shard of the transactional id is loaded
        asked = {"transactional_id": PRODUCER, "transaction_timeout_ms": 60_000}
        begun = broker.ask("InitProducerId", 1, **asked)
        code = int(begun["error_code"])
        broker.ask("FindCoordinator", 2, key=PRODUCER, key_type=1)
        broker.run(0.5)
    for each in (Walk(), walk):
        _add_partition(broker, begun)
        answer = broker.ask(
            "EndTxn",
            1,
            each,
            transactional_id=PRODUCER,
            producer_id=begun["producer_id"],
            producer_epoch=begun["producer_epoch"],
            committed=True,
        )
        code = int(answer["error_code"])
        with each.recorded():
            broker.run(0.1)
    return code


def _add_partition(broker: WalkedBroker, begun: Value) -> None:
    answer = broker.ask(
        "AddPartitionsToTxn",
        1,
        v3_and_below_transactional_id=PRODUCER,
        v3_and_below_producer_id=begun["producer_id"],
        v3_and_below_producer_epoch=begun["producer_epoch"],
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )
    assert (
        answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0][
            "partition_error_code"
        ]
        == 0
    ), answer
    broker.run(0.1)


WALKS: dict[str, tuple[str, Callable[[WalkedBroker, Walk], int], int]] = {
    "Heartbeat": ("Heartbeat v3", _heartbeat, 0),
    "OffsetFetch": ("OffsetFetch v7, one partition", _offset_fetch, 0),
    "OffsetCommit": ("OffsetCommit v8, one partition", _offset_commit, 0),
    "Fetch": ("Fetch v11, one partition", _fetch, 0),
    "Produce": ("Produce v7, one partition, acks=all", _produce_warm, 0),
    "JoinGroup": ("JoinGroup v5 that completes", _join_group, 0),
    "SyncGroup": ("SyncGroup v3 of the leader", _sync_group, 0),
    "EndTxn": ("EndTxn v1, the answer and the markers", _end_txn, 0),
    "denied": ("OffsetCommit v8 of a principal without ACLs", _denied_commit, 30),
}
"""For each recorded request: its title, the function that sends it, and the expected error code."""


def walk(name: str) -> Walk:
    """Records the functions that handle the request ``name`` of `WALKS`."""
    _, record, code = WALKS[name]
    broker = WalkedBroker(**(DENIES if name == "denied" else {}))
    try:
        if name != "denied":
            broker.warm()
        recorded = Walk()
        assert record(broker, recorded) == code
        return recorded
    finally:
        broker.end()
