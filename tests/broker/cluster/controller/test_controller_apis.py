"""Tests requests to the controller in every version: the resulting call to the controller host, and
the response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.calls import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Call,
    ControlledShutdown,
    ElectLeaders,
    IsrChange,
    ListReassignments,
)
from controller.controller import refusal
from controller.outcome import (
    AlteredPartition,
    AlterPartitionReply,
    ControlledShutdownReply,
    ElectLeadersReply,
    ListedReassignments,
    ProducerIdsReply,
    ReassignmentsReply,
    Reply,
)
from controller.values import Assignment
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    INELIGIBLE_REPLICA,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_CONTROLLER,
    OPERATION_NOT_ATTEMPTED,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_TOPIC_ID,
)
from tests.broker.cluster.fellows import Fellow
from tests.wire import Wire

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
_CLIENTS = ThreadPoolExecutor(2)


class Host:
    """A fake controller host that records calls, and answers each of them with the configured
    reply."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.reply: Reply | None = None

    def submit(self, call: Call) -> None:
        self.calls.append(call)
        call.ticket.take(refusal(call) if self.reply is None else self.reply)


class Scene:
    """A broker with the fake controller host."""

    def __init__(self, fellow: Fellow, host: Host) -> None:
        self.fellow = fellow
        self.host = host

    async def asks(
        self, name: str, version: int, value: dict[str, Any], reply: Reply | None = None
    ) -> tuple[Call | None, dict[str, Any]]:
        """Sends a request. Returns the call that the controller host received, or None, and the
        response."""
        self.host.calls, self.host.reply = [], reply

        def call() -> dict[str, Any]:
            with Wire(self.fellow.port) as wire:
                return wire.call(name, version, value)

        answer = await asyncio.get_running_loop().run_in_executor(_CLIENTS, call)
        return (self.host.calls[0] if self.host.calls else None), answer


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    host = Host()
    fellow = Fellow(1, host=host)
    await fellow.start()
    try:
        yield Scene(fellow, host)
    finally:
        await fellow.stop()


def fields_of(call: Call | None) -> dict[str, Any]:
    """Returns the fields of a call except its ticket."""
    assert call is not None
    return {name: getattr(call, name) for name in call.__slots__ if name != "ticket"}


@pytest.mark.parametrize("version", range(4))
async def test_alter_partition_requests_of_all_versions_are_passed_to_the_controller(
    version: int,
) -> None:
    by_id, with_epochs = version >= 2, version >= 3
    isr: dict[str, Any] = {"new_isr": [1, 2]}
    if with_epochs:
        isr = {"new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 9}, {"broker_id": 2}]}
    name = {"topic_id": ID} if by_id else {"topic_name": "t"}
    partition = {"partition_index": 3, "leader_epoch": 4, "partition_epoch": 5, **isr}
    if version >= 1:
        partition["leader_recovery_state"] = 1
    reply = AlterPartitionReply(
        NONE,
        [
            AlteredPartition("t", ID, 3, NONE, 1, 4, (1, 2), 6, True),
            AlteredPartition("t", ID, 4, INELIGIBLE_REPLICA),
            AlteredPartition("u", OTHER_ID, 0, INVALID_UPDATE_VERSION),
        ],
    )
    async with scene() as there:
        call, answer = await there.asks(
            "AlterPartition",
            version,
            {"broker_id": 1, "broker_epoch": 7, "topics": [{**name, "partitions": [partition]}]},
            reply,
        )
    assert isinstance(call, AlterPartition)
    assert fields_of(call) == {
        "broker_id": 1,
        "broker_epoch": 7,
        "changes": [
            IsrChange(
                "" if by_id else "t",
                ID if by_id else None,
                3,
                4,
                5,
                (1, 2),
                (9, -1) if with_epochs else (),
                version >= 1,
            )
        ],
    }
    first, second = answer["topics"]
    assert (first["topic_id"], second["topic_id"]) == (ID, OTHER_ID) if by_id else True
    assert (first["topic_name"], second["topic_name"]) == ("t", "u") if not by_id else True
    done, ineligible = first["partitions"]
    assert done["error_code"] == NONE
    assert done["isr"] == [1, 2]
    assert (done["leader_id"], done["leader_epoch"], done["partition_epoch"]) == (1, 4, 6)
    if version >= 1:
        assert done["leader_recovery_state"] == 1
    assert ineligible["error_code"] == (INELIGIBLE_REPLICA if by_id else OPERATION_NOT_ATTEMPTED)
    assert second["partitions"][0]["error_code"] == INVALID_UPDATE_VERSION


async def test_alter_partition_with_a_zero_topic_id_gets_unknown_topic_id() -> None:
    async with scene() as there:
        partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}
        call, answer = await there.asks(
            "AlterPartition",
            2,
            {
                "broker_id": 1,
                "broker_epoch": 7,
                "topics": [{"topic_id": bytes(16), "partitions": [{**partition, "new_isr": [1]}]}],
            },
            AlterPartitionReply(NONE, [AlteredPartition("", bytes(16), 0, UNKNOWN_TOPIC_ID)]),
        )
    assert isinstance(call, AlterPartition)
    assert call.changes[0].topic_id == bytes(16)
    assert answer["topics"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_ID


async def test_allocate_producer_ids_is_passed_to_the_controller() -> None:
    value = {"broker_id": 1, "broker_epoch": 7}
    async with scene() as there:
        call, answer = await there.asks(
            "AllocateProducerIds", 0, value, ProducerIdsReply(NONE, 3000, 1000)
        )
        assert isinstance(call, AllocateProducerIds)
        assert fields_of(call) == value
        assert (answer["producer_id_start"], answer["producer_id_len"]) == (3000, 1000)
        _, answer = await there.asks(
            "AllocateProducerIds", 0, value, ProducerIdsReply(STALE_BROKER_EPOCH)
        )
        assert answer["error_code"] == STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(1, 4))
async def test_controlled_shutdown_requests_of_all_versions_are_passed_to_the_controller(
    version: int,
) -> None:
    value = {"broker_id": 2} | ({"broker_epoch": 7} if version >= 2 else {})
    async with scene() as there:
        call, answer = await there.asks(
            "ControlledShutdown", version, value, ControlledShutdownReply(NONE, [("t", 3)])
        )
        assert isinstance(call, ControlledShutdown)
        assert fields_of(call) == {"broker_id": 2, "broker_epoch": 7 if version >= 2 else -1}
        assert answer["remaining_partitions"] == [{"topic_name": "t", "partition_index": 3}]
        _, answer = await there.asks("ControlledShutdown", version, value)
        assert answer["error_code"] == STALE_CONTROLLER_EPOCH


async def test_alter_partition_reassignments_is_passed_to_the_controller() -> None:
    topics = [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "replicas": [1, 2]},
                {"partition_index": 1, "replicas": None},
                {"partition_index": 0, "replicas": [2, 3]},
            ],
        }
    ]
    reply = ReassignmentsReply(
        NONE, {("t", 0): (NONE, ""), ("t", 1): (INVALID_REPLICA_ASSIGNMENT, "why")}
    )
    async with scene() as there:
        call, answer = await there.asks("AlterPartitionReassignments", 0, {"topics": topics}, reply)
        assert isinstance(call, AlterReassignments)
        assert call.targets == {("t", 0): [2, 3], ("t", 1): None}
        assert answer["error_code"] == NONE
        assert answer["error_message"] is None
        assert answer["responses"] == [
            {
                "name": "t",
                "partitions": [
                    {"partition_index": 0, "error_code": NONE, "error_message": None},
                    {
                        "partition_index": 1,
                        "error_code": INVALID_REPLICA_ASSIGNMENT,
                        "error_message": "why",
                    },
                ],
            }
        ]
        _, answer = await there.asks("AlterPartitionReassignments", 0, {"topics": topics})
        assert answer["error_code"] == NOT_CONTROLLER
        assert answer["error_message"]


async def test_list_partition_reassignments_is_passed_to_the_controller() -> None:
    reply = ListedReassignments(NONE, {("t", 2): Assignment((3, 1, 2), (3,), (2,))})
    async with scene() as there:
        call, answer = await there.asks("ListPartitionReassignments", 0, {"topics": None}, reply)
        assert isinstance(call, ListReassignments)
        assert call.partitions is None
        (topic,) = answer["topics"]
        assert topic == {
            "name": "t",
            "partitions": [
                {
                    "partition_index": 2,
                    "replicas": [3, 1, 2],
                    "adding_replicas": [3],
                    "removing_replicas": [2],
                }
            ],
        }
        asked = [{"name": "t", "partition_indexes": [1, 2]}]
        call, answer = await there.asks("ListPartitionReassignments", 0, {"topics": asked})
        assert isinstance(call, ListReassignments)
        assert call.partitions == [("t", 1), ("t", 2)]
        assert (answer["error_code"], answer["topics"]) == (NOT_CONTROLLER, [])


@pytest.mark.parametrize("version", range(3))
async def test_elect_leaders_is_passed_to_the_controller_in_every_version(version: int) -> None:
    unclean = {"election_type": 1} if version else {}
    asked = [{"topic": "t", "partitions": [0, 1]}]
    results = {("t", 0): (NONE, ""), ("t", 1): (ELECTION_NOT_NEEDED, "led")}
    async with scene() as there:
        call, answer = await there.asks(
            "ElectLeaders",
            version,
            {"topic_partitions": asked, **unclean},
            ElectLeadersReply(NONE, results),
        )
        assert isinstance(call, ElectLeaders)
        assert fields_of(call) == {"unclean": version > 0, "partitions": [("t", 0), ("t", 1)]}
        assert answer["replica_election_results"] == [
            {
                "topic": "t",
                "partition_result": [
                    {"partition_id": 0, "error_code": NONE, "error_message": None},
                    {"partition_id": 1, "error_code": ELECTION_NOT_NEEDED, "error_message": "led"},
                ],
            }
        ]
        _, answer = await there.asks("ElectLeaders", version, {"topic_partitions": asked})
        assert answer.get("error_code", NONE) == NONE
        (topic,) = answer["replica_election_results"]
        assert {each["error_code"] for each in topic["partition_result"]} == {NOT_CONTROLLER}

        call, answer = await there.asks("ElectLeaders", version, {"topic_partitions": None})
        assert isinstance(call, ElectLeaders)
        assert not call.unclean
        assert call.partitions is None
        assert answer["replica_election_results"] == []
        if version:
            assert answer["error_code"] == NOT_CONTROLLER
            call, answer = await there.asks(
                "ElectLeaders", version, {"topic_partitions": None, "election_type": 7}
            )
            assert call is None
            assert answer["error_code"] == INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("AlterPartition", 0, {"broker_id": 1, "topics": []}),
        ("AllocateProducerIds", 0, {"broker_id": 1}),
        ("ControlledShutdown", 1, {"broker_id": 1}),
    ],
)
async def test_inter_broker_requests_that_clients_send_are_refused(
    name: str, version: int, value: dict[str, Any]
) -> None:
    async with scene() as there:
        object.__setattr__(there.fellow.settings, "listener", "BROKERS")
        call, answer = await there.asks(name, version, value)
    assert call is None
    assert answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED
