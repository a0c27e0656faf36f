"""Known sequences of requests, after which tests check the metrics of the broker."""

from __future__ import annotations

from protocol.consumer_protocol import encode_assignment
from protocol.errors import ILLEGAL_GENERATION, NONE, UNKNOWN_TOPIC_OR_PARTITION
from protocol.messages.produce import API as PRODUCE
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen
from tests.wire import batch

SESSION_MS = 10_000


async def produce(
    seen: Seen, records: int, partition: int = 0, version: int = 9, data: bytes = b""
) -> None:
    data = data or batch(*[b"v"] * records)
    topic = {"name": "orders", "partition_data": [{"index": partition, "records": data}]}
    reply = await seen.client.call(
        PRODUCE.key, version, acks=-1, timeout_ms=1000, topic_data=[topic]
    )
    assert reply["responses"][0]["partition_responses"][0]["error_code"] == NONE


async def a_busy_day(seen: Seen) -> None:
    """Produces five records. One member joins, commits offsets, gets an error for a commit, and
    expires. Another group commits offsets."""
    client = seen.client
    await produce(seen, 5)
    member_id, generation = await client.join_alone("auditors", session_timeout_ms=SESSION_MS)
    mine = {"member_id": member_id, "generation_id": generation}
    assert await client.commit("auditors", 2, partitions=2, **mine) == NONE
    assert await client.heartbeat("auditors", member_id, generation) == NONE
    wrong = {"member_id": member_id, "generation_id": generation + 7}
    assert await client.commit("auditors", 9, **wrong) == ILLEGAL_GENERATION
    assert await client.commit("readers", 4) == NONE
    assert await client.commit("readers", 1, topic="unheard-of") == UNKNOWN_TOPIC_OR_PARTITION


async def one_that_is_behind(seen: Seen) -> None:
    """Creates a group without members, and a group whose only member has committed an offset in the
    middle of a large batch."""
    seen.pass_ms(1000)
    partition = partition_of(seen.broker, "orders", 2)
    partition.append(batch(*[b"v"] * 9, compression=1), seen.time.wall_ms)
    assert await seen.client.commit("gone", 3, partitions=3) == NONE
    assignment = encode_assignment({"orders": [2]})
    mine = await seen.client.join_alone("behind", assignment=assignment)
    fenced = dict(zip(("member_id", "generation_id"), mine, strict=True))
    assert await seen.client.commit("behind", 3, partitions=3, **fenced) == NONE
