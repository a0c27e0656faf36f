"""Tests that the broker initializes and deletes the states of share partitions when the group's
records are stable, and passes the result to the shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.broker import Broker
from protocol.errors import NONE, NOT_COORDINATOR
from share.persister.calls import Call, DeleteState, InitializeState, StateReply
from tests.broker.apis.test_consumer_group_apis import create, owned
from tests.broker.apis.test_share_group_apis import SETTINGS, Member
from tests.broker.serving import asked, serving
from tests.broker.transactional_calls import GROUP, find
from tests.waiting import until
from tests.wire import Wire


class Persister:
    """A fake persister. It keeps the calls, and replies to each with ``error_code``. At each call,
    it records whether the group's log contains all accepted records."""

    def __init__(self, broker: Broker) -> None:
        self.calls: list[Call] = []
        self.error_code = NONE
        self.is_stable: set[bool] = set()
        self._broker = broker

    def submit(self, call: Call) -> None:
        hosted = self._broker.groups.hosted_for(call.key.group_id)
        assert hosted is not None
        self.is_stable.add(hosted.log.log_end_offset == hosted.accepted)
        self.calls.append(call)
        call.ticket.take(StateReply(self.error_code))

    def keys(self, kind: type) -> list[tuple[str, int]]:
        return [
            (each.key.group_id, each.key.partition) for each in self.calls if type(each) is kind
        ]


async def on_broker(directory: Path, work: Any) -> None:
    lingering = {**SETTINGS, "group.coordinator.append.linger.ms": "20"}
    async with serving(directory, lingering) as broker:
        persister = Persister(broker)
        broker.share_state_requests._persister = lambda: persister

        def prepared(wire: Wire) -> None:
            create(wire, "t", 2)
            find(wire, "g", GROUP)
            work(wire, persister)

        await asked(broker, prepared)
        assert persister.is_stable == {True}


def delete(wire: Wire) -> int:
    [result] = wire.call("DeleteGroups", 2, {"groups_names": ["g"]})["results"]
    error: int = result["error_code"]
    return error


async def test_share_partition_states_are_initialized_and_deleted_with_the_group(
    tmp_path: Path,
) -> None:
    def work(wire: Wire, persister: Persister) -> None:
        member = Member(wire, "a")
        assert member.joined("t") == [0, 1]
        [first, _] = persister.calls
        assert isinstance(first, InitializeState)
        assert (first.state_epoch, first.start_offset) == (2, -1)
        assert persister.keys(InitializeState) == [("g", 0), ("g", 1)]
        member.beat(member_epoch=-1)
        assert delete(wire) == NONE
        assert persister.keys(DeleteState) == [("g", 0), ("g", 1)]

    await on_broker(tmp_path, work)


async def test_initialization_and_deletion_of_share_states_are_repeated_after_errors(
    tmp_path: Path,
) -> None:
    def work(wire: Wire, persister: Persister) -> None:
        member = Member(wire, "a")
        persister.error_code = NOT_COORDINATOR
        member.join("t")
        until("a call", lambda: persister.calls)
        assert owned(member.beat(subscribed_topic_names=["t"])) == []
        persister.error_code = NONE
        until("an assignment", lambda: owned(member.beat(subscribed_topic_names=["t"])))
        assert len(persister.calls) > 2
        member.beat(member_epoch=-1)
        persister.error_code = NOT_COORDINATOR
        assert delete(wire) == NOT_COORDINATOR
        persister.error_code = NONE
        assert delete(wire) == NONE

    await on_broker(tmp_path, work)


async def test_share_partition_state_of_a_deleted_topic_is_deleted(tmp_path: Path) -> None:
    def work(wire: Wire, persister: Persister) -> None:
        Member(wire, "a").joined("t")
        wire.call("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 5000})
        until("two calls", lambda: persister.keys(DeleteState) == [("g", 0), ("g", 1)])

    await on_broker(tmp_path, work)
