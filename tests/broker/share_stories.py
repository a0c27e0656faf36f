"""Known sequences of requests of the share group `payments`, which reads the topic `orders`. Tests
check how Muster explains the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.topics.ticket import Awaited
from coordinator.calls import ShareHeartbeat
from coordinator.outcome import ShareHeartbeatReply
from protocol.messages.alter_share_group_offsets import API as ALTER
from protocol.messages.share_acknowledge import API as SHARE_ACKNOWLEDGE
from protocol.messages.share_fetch import API as SHARE_FETCH
from tests.broker.edge import eventually
from tests.broker.seen import Seen
from tests.broker.share_calls import ACCEPT, REJECT, RELEASE, acknowledgement_batches
from tests.broker.stories import produce

PAYMENTS = "payments"
SETTINGS = {"share.coordinator.state.topic.num.partitions": 1}
"""One partition of the share state topic makes the start of the broker fast."""


class Sharer:
    """A member of group `payments` that fetches from partition 0 of the topic `orders`."""

    def __init__(self, seen: Seen, member_id: str, client_id: str, host: str) -> None:
        self.seen = seen
        self.member_id = member_id
        self.client_id = client_id
        self.host = host
        self.session_epoch = 0

    async def heartbeat(self, epoch: int = 0) -> None:
        """Sends ShareGroupHeartbeat. Epoch 0 joins the group, and epoch -1 leaves it."""
        ticket: Awaited[ShareHeartbeatReply] = Awaited()
        topics = ["orders"] if epoch == 0 else None
        call = ShareHeartbeat(
            ticket, PAYMENTS, self.member_id, epoch, None, topics, self.client_id, self.host
        )
        self.seen.broker.groups.submit(PAYMENTS, call)
        assert (await ticket.reply).error_code == 0

    def _topics(self, acknowledged: Sequence[tuple[int, int, Sequence[int]]]) -> Any:
        topic = self.seen.broker.registry.topic("orders")
        assert topic is not None
        batches = acknowledgement_batches(acknowledged)
        entry = {"partition_index": 0, "acknowledgement_batches": batches}
        return [{"topic_id": topic.topic_id, "partitions": [entry]}]

    async def fetch(self, max_records: int = 500) -> list[tuple[int, int, int]]:
        """Fetches records. Returns first offset, last offset and delivery count of each acquired
        range."""
        reply = await self.seen.client.call(
            SHARE_FETCH.key,
            2,
            group_id=PAYMENTS,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=5_000 if not self.session_epoch else 0,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=500,
            share_acquire_mode=1,
            topics=self._topics([]),
            forgotten_topics_data=[],
        )
        assert reply["error_code"] == 0, reply
        self.session_epoch += 1
        return [
            (each["first_offset"], each["last_offset"], each["delivery_count"])
            for topic in reply["responses"]
            for entry in topic["partitions"]
            for each in entry["acquired_records"]
        ]

    async def acknowledge(self, *batches: tuple[int, int, Sequence[int]]) -> None:
        reply = await self.seen.client.call(
            SHARE_ACKNOWLEDGE.key,
            2,
            group_id=PAYMENTS,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            topics=self._topics(batches),
        )
        assert reply["error_code"] == 0, reply
        [[entry]] = [topic["partitions"] for topic in reply["responses"]]
        assert entry["error_code"] == 0, entry
        self.session_epoch += 1


async def pass_locks(seen: Seen, milliseconds: int = 30_000) -> None:
    """Advances the time and releases the records whose acquisition locks have expired."""
    partitions = seen.broker.share_partitions
    seen.pass_ms(milliseconds)
    partitions.tick()
    await eventually(lambda: not any(live.writes for live in partitions.of_group(PAYMENTS)))


def drop_from_memory(seen: Seen) -> None:
    """Drops the share partitions of the group from memory, as the broker does when no request uses
    them for a long time."""
    partitions = seen.broker.share_partitions
    for live in list(partitions.of_group(PAYMENTS)):
        partitions.drop(live)


async def two_sharers(seen: Seen, records: int = 3) -> tuple[Sharer, Sharer]:
    """Produces records to partition 0 and forms the group with two members."""
    await produce(seen, records)
    partitions = [{"partition_index": each, "start_offset": 0} for each in range(3)]
    topics = [{"topic_name": "orders", "partitions": partitions}]
    client = seen.client
    reply = await client.call(ALTER.key, 0, group_id=PAYMENTS, topics=topics)
    assert [each["error_code"] for each in reply["responses"][0]["partitions"]] == [0, 0, 0]
    one = Sharer(seen, "payments-1-aaaa", "payments-1", "/10.0.0.7")
    two = Sharer(seen, "payments-2-bbbb", "payments-2", "/10.0.0.8")
    for each in (one, two):
        await each.heartbeat()
    return one, two


async def a_poisonous_record(seen: Seen) -> tuple[Sharer, Sharer]:
    """Delivers offset 0 five times until it is archived, rejects offset 1 and accepts offset 2.
    Returns both members."""
    one, two = await two_sharers(seen)
    assert await one.fetch(1) == [(0, 0, 1)]
    await pass_locks(seen)
    assert await two.fetch(3) == [(0, 0, 2), (1, 2, 1)]
    seen.pass_ms(1_000)
    await two.acknowledge((0, 2, [RELEASE, REJECT, ACCEPT]))
    for delivery in (3, 4, 5):
        for each in (one, two):
            await each.heartbeat()
        member = (one, two)[delivery % 2]
        found = await member.fetch(1)
        assert found == [(0, 0, delivery)], found
        await pass_locks(seen)
    return one, two
