"""Tests calls to share coordinators on other brokers (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.coordinators.remote_share_states import RemoteShareStates
from broker.share import persister
from broker.share.persister import SharePersister
from broker.share.state_messages import FORMS
from broker.time import Time
from broker.topics.registry import SHARE_STATE_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from protocol.messages.read_share_group_state import API as READ
from protocol.messages.write_share_group_state import API as WRITE
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    StateReply,
    WriteState,
)
from share.persister.values import coordinator_key
from share.values import SharePartitionKey, StateBatch, StoredState
from tests.broker.cluster.other_broker import SETTINGS, FakeView, OtherBroker, Value, other_broker
from tests.broker.edge import eventually

TOPIC_ID = b"t" * 16
KEY = SharePartitionKey("g", TOPIC_ID, 0)
PARTITIONS = 4
ACCEPTED = StateBatch(0, 4, 2, 1)
FREE = StateBatch(5, 9, 0, 1)


class LocalCoordinator:
    """A fake share coordinator of this broker. Records the calls that it receives."""

    are_started = True
    partitions = PARTITIONS

    def __init__(self) -> None:
        self.coordinated: set[SharePartitionKey] = set()
        self.calls: list[Call] = []

    def coordinates(self, key: SharePartitionKey) -> bool:
        return key in self.coordinated

    def submit(self, call: Call) -> None:
        self.calls.append(call)
        call.ticket.take(StateReply(NONE))


class ShareScene:
    """A broker whose share coordinator is broker 2 or, if the test sets it, the broker itself."""

    def __init__(self, other: OtherBroker, spawn: Any) -> None:
        self.other = other
        self.cluster = FakeView(other.node)
        self.local: Any = LocalCoordinator()
        self.remote = RemoteShareStates(self.local, self.cluster, SETTINGS, Time(), spawn)
        topic = SimpleNamespace(partitions=3)
        registry: Any = SimpleNamespace(topic_by_id={TOPIC_ID: topic}.get)
        topics: Any = None
        self.persister = SharePersister(self.remote, registry, topics, Time(), spawn, retries=5)
        self.replies: list[StateReply] = []
        for index in range(PARTITIONS):
            self.cluster.leaders[SHARE_STATE_TOPIC, index] = 2

    def lead(self, node_id: int, key: SharePartitionKey = KEY) -> None:
        """Makes a broker the coordinator of a share partition in the metadata."""
        index = partition_for(coordinator_key(key), PARTITIONS)
        self.cluster.leaders[SHARE_STATE_TOPIC, index] = node_id

    def write(self, *batches: StateBatch, start: int = 0, count: int = 0, epoch: int = 1) -> None:
        ticket: Any = SimpleNamespace(take=self.replies.append)
        self.persister.submit(WriteState(ticket, KEY, epoch, 0, start, count, batches))

    def read(self, key: SharePartitionKey = KEY) -> None:
        ticket: Any = SimpleNamespace(take=self.replies.append)
        self.persister.submit(ReadState(ticket, key, 3))

    async def codes(self, count: int = 1) -> list[int]:
        """Waits for ``count`` replies. Returns their error codes."""
        await eventually(lambda: len(self.replies) >= count)
        return [each.error_code for each in self.replies]


@asynccontextmanager
async def share_scene() -> AsyncIterator[ShareScene]:
    async with other_broker() as other:
        tasks: set[asyncio.Task[None]] = set()

        def spawn(work: Any, name: str = "") -> asyncio.Task[None]:
            task = asyncio.get_running_loop().create_task(work, name=name)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return task

        here = ShareScene(other, spawn)
        try:
            yield here
        finally:
            here.remote.stop()
            here.persister.stop()


def results(request: Value, **fields: Any) -> Value:
    """Returns a response with the same fields for each share partition of a request."""
    return {
        "results": [
            {
                "topic_id": topic["topic_id"],
                "partitions": [
                    {"partition": each["partition"], "error_code": NONE, **fields}
                    for each in topic["partitions"]
                ],
            }
            for topic in request["topics"]
        ]
    }


def answers(*codes: int) -> Any:
    """Returns a function that responds with these errors, one in each response. The last error is
    repeated. A negative code closes the connection."""
    left = list(codes)

    async def answer(_: int, request: Value) -> Value | None:
        code = left.pop(0) if len(left) > 1 else left[0]
        return None if code < 0 else results(request, error_code=code)

    return answer


def entries(request: Value) -> list[dict[str, Any]]:
    return [each for topic in request["topics"] for each in topic["partitions"]]


async def test_share_state_calls_of_one_turn_are_sent_in_one_request_per_api_and_group() -> None:
    async with share_scene() as here:
        here.other.serve(READ.key, 0, 0, answers(NONE))
        here.other.serve(WRITE.key, 0, 1, answers(NONE))
        here.read()
        here.read(KEY._replace(partition=1))
        here.read(KEY._replace(group_id="h"))
        here.write(ACCEPTED, start=5, count=2)
        assert await here.codes(4) == [NONE] * 4
        found = [
            (key, value["group_id"], len(entries(value))) for key, _, value in here.other.asked
        ]
        assert sorted(found) == [(READ.key, "g", 2), (READ.key, "h", 1), (WRITE.key, "g", 1)]
        [written] = [value for key, _, value in here.other.asked if key == WRITE.key]
        assert entries(written) == [
            {
                "partition": 0,
                "state_epoch": 1,
                "leader_epoch": 0,
                "start_offset": 5,
                "delivery_complete_count": 2,
                "state_batches": [ACCEPTED._asdict()],
            }
        ]


async def test_share_state_write_omits_delivery_complete_count_in_version_0() -> None:
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 0, answers(NONE))
        here.write(ACCEPTED, count=2)
        assert await here.codes() == [NONE]
        [(_, version, request)] = here.other.asked
        assert version == 0
        assert entries(request)[0]["state_batches"] == [ACCEPTED._asdict()]


async def test_share_state_writes_that_wait_for_a_request_are_merged() -> None:
    go = asyncio.Event()

    async def answer(_: int, request: Value) -> Value:
        await go.wait()
        return results(request)

    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answer)
        here.write(ACCEPTED, start=0, count=5)
        await eventually(lambda: here.other.asked)
        here.write(FREE, start=5, count=0)
        here.write(StateBatch(10, 10, 2, 1), start=-1, count=1)
        here.write(FREE, epoch=2)
        go.set()
        assert await here.codes(4) == [NONE] * 4
        first, joined, other = [entries(value)[0] for _, _, value in here.other.asked]
        assert first["state_batches"] == [ACCEPTED._asdict()]
        assert [each["first_offset"] for each in joined["state_batches"]] == [5, 10]
        assert (joined["start_offset"], joined["delivery_complete_count"]) == (5, 1)
        assert other["state_epoch"] == 2, "a write of another epoch stays apart"


async def test_share_state_is_read_from_the_coordinator_on_another_broker() -> None:
    async def answer(_: int, request: Value) -> Value:
        batches = [ACCEPTED._asdict()]
        return results(request, state_epoch=7, start_offset=3, state_batches=batches)

    async with share_scene() as here:
        here.other.serve(READ.key, 0, 0, answer)
        here.read()
        await here.codes()
        assert here.replies == [StateReply(NONE, state=StoredState(7, -1, 3, -1, (ACCEPTED,)))]


@pytest.mark.parametrize("first", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, 14, -1])
async def test_share_state_call_is_repeated_until_the_coordinator_is_found(first: int) -> None:
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answers(first, NONE))
        here.write(ACCEPTED)
        assert await here.codes() == [NONE]
        assert len(here.other.asked) == 2


async def test_share_state_call_is_handled_locally_after_the_coordinator_moved_to_this_broker() -> (
    None
):
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answers(NOT_COORDINATOR))
        here.write(ACCEPTED)
        await eventually(lambda: here.other.asked)
        here.local.coordinated.add(KEY)
        assert await here.codes() == [NONE]
        [call] = here.local.calls
        assert call.batches == (ACCEPTED,)


@pytest.mark.parametrize("code", [FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST])
async def test_share_state_call_is_not_repeated_after_a_final_error(code: int) -> None:
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answers(code))
        here.write(ACCEPTED)
        assert await here.codes() == [code]
        assert len(here.other.asked) == 1


async def test_share_state_call_is_repeated_when_the_coordinator_lacks_the_topic() -> None:
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answers(UNKNOWN_TOPIC_OR_PARTITION, NONE))
        here.write(ACCEPTED)
        assert await here.codes() == [NONE]


@pytest.mark.parametrize("leader", [-1, 1])
async def test_share_state_call_fails_when_no_coordinator_is_found(leader: int) -> None:
    """In one case the metadata wrongly says that this broker, broker 1, is the leader."""
    async with share_scene() as here:
        here.persister.retries = 1
        here.lead(leader)
        here.write(ACCEPTED)
        assert await here.codes() == [
            COORDINATOR_NOT_AVAILABLE if leader == -1 else NOT_COORDINATOR
        ]


async def test_share_partition_is_requested_again_when_the_response_omits_it() -> None:
    given: list[Value] = [{"results": []}]

    async def answer(_: int, request: Value) -> Value:
        return given.pop() if given else results(request)

    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answer)
        here.write(ACCEPTED)
        assert await here.codes() == [NONE]
        assert len(here.other.asked) == 2


async def test_share_coordinator_that_does_not_support_an_api_gets_no_requests() -> None:
    async with share_scene() as here:
        here.other.serve(READ.key, 0, 0, answers(NONE))
        here.write(ACCEPTED)
        here.read()
        assert sorted(await here.codes(2)) == [NONE, UNSUPPORTED_VERSION]


async def test_share_state_calls_in_flight_are_answered_when_the_broker_stops() -> None:
    async def answer(_: int, __: Value) -> Value:
        await asyncio.Event().wait()
        raise AssertionError

    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answer)
        here.write(ACCEPTED)
        await eventually(lambda: here.other.asked)
        here.write(FREE)
        here.remote.stop()
        here.write(FREE)
        here.persister.stop()
        here.write(FREE)
        assert await here.codes(4) == [COORDINATOR_NOT_AVAILABLE] * 4
        assert len(here.other.asked) == 1


async def test_number_of_unanswered_share_state_calls_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(persister, "CALLS_MAX", 2)
    async with share_scene() as here:
        here.other.serve(WRITE.key, 0, 1, answers(NONE))
        for _ in range(3):
            here.write(ACCEPTED)
        assert [each.error_code for each in here.replies] == [COORDINATOR_NOT_AVAILABLE]
        assert await here.codes(3) == [COORDINATOR_NOT_AVAILABLE, NONE, NONE]


@pytest.mark.parametrize(
    "call",
    [
        InitializeState("t", KEY, 3, 17),
        ReadState("t", KEY, 4),
        ReadStateSummary("t", KEY, 5),
        WriteState("t", KEY, 3, 4, 17, 2, [ACCEPTED, FREE]),
        DeleteState("t", KEY),
    ],
)
def test_share_state_call_is_unchanged_after_encoding_and_decoding(call: Call) -> None:
    form = FORMS[type(call)]
    newest = form.api.versions.stop - 1
    entry = {"partition": 0, **form.request(call)}
    value = {"group_id": "g", "topics": [{"topic_id": TOPIC_ID, "partitions": [entry]}]}
    decoded = form.api.decode_request(newest, form.api.encode_request(newest, value))
    [found] = entries(decoded)
    assert form.call("t", KEY, found) == call


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (ReadState, StoredState(3, -1, 17, -1, (ACCEPTED, FREE))),
        (ReadStateSummary, StoredState(3, 4, 17, 2)),
    ],
)
def test_share_state_is_unchanged_after_encoding_and_decoding(
    kind: type, state: StoredState
) -> None:
    form = FORMS[kind]
    for version in form.api.versions:
        entry = form.entry(0, StateReply(NONE, state=state))
        value = {"results": [{"topic_id": TOPIC_ID, "partitions": [entry]}]}
        found = form.api.decode_response(version, form.api.encode_response(version, value), 0)
        [result] = found["results"][0]["partitions"]
        expected = (
            state
            if version == form.api.versions.stop - 1
            else state._replace(delivery_complete_count=-1)
        )
        assert form.reply(result) == StateReply(NONE, state=expected)
