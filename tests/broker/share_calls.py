"""Helpers that send ShareFetch and ShareAcknowledge as members of a share group, with default
values for most fields."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from broker.broker import Broker
from broker.topics.ticket import Awaited
from share.persister.calls import InitializeState, ReadState, StateReply
from share.values import SharePartitionKey, StoredState
from tests.wire import Wire, values_of

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Range = tuple[int, int, int]
"""Acquired records: first offset, last offset, delivery count."""


class ShareMember:
    """A member of share group ``g`` that fetches partitions of one topic. Counts the epoch of its
    share session."""

    def __init__(self, wire: Wire, topic_id: bytes, member_id: str = "m", version: int = 2) -> None:
        self.wire = wire
        self.topic_id = topic_id
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def request(
        self,
        partitions: Iterable[int] = (),
        acknowledge: Sequence[tuple[int, int, Sequence[int]]] = (),
        epoch: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Returns a ShareFetch request. The acknowledgements are for partition 0."""
        batches = {0: acknowledgement_batches(acknowledge)} if acknowledge else {}
        indexes = dict.fromkeys((*partitions, *batches))
        topics = [
            {
                "topic_id": self.topic_id,
                "partitions": [
                    {"partition_index": each, "acknowledgement_batches": batches.get(each, [])}
                    for each in indexes
                ],
            }
        ]
        return {
            "group_id": "g",
            "member_id": self.member_id,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics if indexes else [],
            "forgotten_topics_data": [],
            **fields,
        }

    def fetch(self, partitions: Iterable[int] = (), **fields: Any) -> dict[str, Any]:
        """Sends ShareFetch, increments the session epoch and returns the response."""
        reply = self.wire.call("ShareFetch", self.version, self.request(partitions, **fields))
        if not reply["error_code"]:
            self.epoch += 1
        return reply

    def open(self, *partitions: int, **fields: Any) -> dict[str, Any]:
        """Opens a share session with these partitions. Returns the response, which contains
        available records."""
        self.epoch = 0
        return self.fetch(partitions or (0,), **{"max_wait_ms": 5_000, **fields})

    def send_acknowledge(
        self,
        *batches: tuple[int, int, Sequence[int]],
        partition: int = 0,
        epoch: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Sends ShareAcknowledge, increments the session epoch and returns the response."""
        entry = {
            "partition_index": partition,
            "acknowledgement_batches": acknowledgement_batches(batches),
        }
        request = {
            "group_id": "g",
            "member_id": self.member_id,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [entry]}] if batches else [],
            **fields,
        }
        reply = self.wire.call("ShareAcknowledge", self.version, request)
        if not reply["error_code"]:
            self.epoch += 1
        return reply

    def acknowledge(self, *batches: tuple[int, int, Sequence[int]], **fields: Any) -> int:
        """Sends ShareAcknowledge for one partition and returns the error code of the partition."""
        reply = self.send_acknowledge(*batches, **fields)
        assert reply["error_code"] == 0, reply
        code: int = entry_of(reply)["error_code"]
        return code

    def close(self) -> dict[str, Any]:
        return self.send_acknowledge(epoch=-1)


def acknowledgement_batches(
    batches: Iterable[tuple[int, int, Sequence[int]]],
) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for first, last, types in batches
    ]


def entry_of(reply: dict[str, Any]) -> dict[str, Any]:
    (topic,) = reply["responses"]
    (entry,) = topic["partitions"]
    found: dict[str, Any] = entry
    return found


def entries_of(reply: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Returns the partitions of a response by index."""
    return {
        entry["partition_index"]: entry
        for topic in reply["responses"]
        for entry in topic["partitions"]
    }


def acquired(reply: dict[str, Any], partition: int = 0) -> list[Range]:
    """Returns the acquired ranges of a partition, or an empty list if the response omits the
    partition."""
    assert reply["error_code"] == 0, reply
    entry = entries_of(reply).get(partition)
    if entry is None:
        return []
    assert entry["error_code"] == 0, entry
    return [
        (each["first_offset"], each["last_offset"], each["delivery_count"])
        for each in entry["acquired_records"]
    ]


def values(reply: dict[str, Any], partition: int = 0) -> list[bytes | None]:
    """Returns the values of all records that the response contains for a partition, including
    records that the member has not acquired."""
    return values_of(entries_of(reply)[partition]["records"])


def initialize(
    broker: Broker,
    loop: asyncio.AbstractEventLoop,
    topic_id: bytes,
    partitions: int = 1,
    start_offset: int = 0,
    epoch: int = 1,
) -> None:
    """Initializes the states of the share partitions of group g, as the group coordinator does. The
    caller must run in a client's thread, since the call waits for the event loop."""
    for index in range(partitions):
        key = SharePartitionKey("g", topic_id, index)
        call = asyncio.run_coroutine_threadsafe(_initialize(broker, key, epoch, start_offset), loop)
        assert call.result(20).error_code == 0


async def _initialize(
    broker: Broker, key: SharePartitionKey, epoch: int, start_offset: int
) -> StateReply:
    ticket: Awaited[StateReply] = Awaited()
    broker.share_persister.submit(InitializeState(ticket, key, epoch, start_offset))
    return await ticket.reply


def stored(
    broker: Broker, loop: asyncio.AbstractEventLoop, topic_id: bytes, partition: int = 0
) -> StoredState:
    """Returns the stored state of a share partition of group g. Blocks until ``loop`` has read the
    state, so it must be called in another thread."""

    async def read() -> StoredState:
        ticket: Awaited[StateReply] = Awaited()
        key = SharePartitionKey("g", topic_id, partition)
        broker.share_persister.submit(ReadState(ticket, key, 0))
        state = (await ticket.reply).state
        assert state is not None
        return state

    return asyncio.run_coroutine_threadsafe(read(), loop).result(20)
