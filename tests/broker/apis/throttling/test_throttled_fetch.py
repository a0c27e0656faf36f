"""Tests a Fetch above its quota: the response has no records and does not count for the quota. A
later request gets the records, which then count for the quota."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.apis.fetch import handler as fetch_handler
from broker.quotas.client_quotas import Kind
from protocol.messages.fetch import API as FETCH
from protocol.messages.produce import API as PRODUCE
from tests.broker.apis.throttling.bounded import QuotaBroker, broker_with_quotas, is_silent
from tests.broker.edge import Client
from tests.broker.topic_calls import fetch_request, produce_request
from tests.wire import batch, values_of

VALUE = bytes(4_700)


@asynccontextmanager
async def filled(
    directory: Path, batches: int = 4, value: bytes = VALUE
) -> AsyncIterator[QuotaBroker]:
    """Yields a broker whose topic ``t`` contains ``batches`` batches of about 5 kB each. Consumers
    may read 1000 bytes per second."""
    async with broker_with_quotas(directory) as bound:
        client = await bound.client("writer")
        for _ in range(batches):
            await client.call(PRODUCE.key, 9, **produce_request("t", batch(value)))
        await bound.set(consumer_byte_rate=1000)
        yield bound


async def fetched(client: Client, offset: int = 0, version: int = 12, **more: Any) -> Any:
    return await client.call(
        FETCH.key, version, **fetch_request("t", offset, **{"max_bytes": 9_800, **more})
    )


def records_of(answer: Any) -> list[bytes | None]:
    return [
        value
        for topic in answer["responses"]
        for partition in topic["partitions"]
        for value in values_of(partition["records"])
    ]


async def test_fetch_returns_at_most_the_bytes_that_all_quota_windows_allow(tmp_path: Path) -> None:
    async with filled(tmp_path) as bound:
        answer = await fetched(await bound.client(), max_bytes=1 << 20)
        assert len(records_of(answer)) == 2  # of 10,000 bytes; the third is cut
        assert answer["throttle_time_ms"] < 100  # for the bytes around the records


@pytest.mark.proves("security 17")
async def test_throttled_fetch_is_empty_and_does_not_count_for_the_quota(
    tmp_path: Path,
) -> None:
    async with filled(tmp_path) as bound:
        client = await bound.client()
        assert len(records_of(await fetched(client))) == 2
        share = bound.broker.secured.quotas.quotas.shares_of("ANONYMOUS", "tester").fetch
        used = share.bucket.rate.per_second(bound.time.now().mono_ms)
        throttled = await fetched(client, 2)
        assert throttled["throttle_time_ms"] == pytest.approx(9_700, abs=400)
        assert throttled["error_code"] == 0
        assert throttled["responses"] == []
        assert share.bucket.rate.per_second(bound.time.now().mono_ms) == used
        handle = client.send(FETCH.key, 12, **fetch_request("t", 2, max_bytes=9_800))
        assert await is_silent(client)
        await bound.time.advance(throttled["throttle_time_ms"])
        again = await client.receive(handle)  # the quota windows have not passed
        assert (again["throttle_time_ms"], again["responses"]) == (9_000, [])
        await bound.time.advance(11_000)
        assert len(records_of(await fetched(client, 2))) == 2


@pytest.mark.parametrize("version", [0, 1, 3, 6, 7, 11, 12])
async def test_throttled_fetch_is_empty_in_every_version(version: int, tmp_path: Path) -> None:
    async with filled(tmp_path) as bound:
        client = await bound.client()
        await fetched(client)
        answer = await fetched(client, version=version, partition_max_bytes=9_800)
        assert answer["responses"] == []
        assert answer["throttle_time_ms"] > 8_000 or not version
        assert bound.throttled == 1


async def test_fetch_session_is_unchanged_by_a_throttled_response(tmp_path: Path) -> None:
    async with filled(tmp_path) as bound:
        reader = await bound.client()
        begun = await fetched(reader, 4, session_id=0, session_epoch=0)
        session_id = begun["session_id"]
        assert session_id
        assert begun["responses"][0]["partitions"][0]["high_watermark"] == 4
        other = await bound.client()
        await fetched(other)
        writer = await bound.client("writer")
        await writer.call(PRODUCE.key, 9, **produce_request("t", batch(VALUE)))
        changes = {"session_id": session_id, "topics": []}
        throttled = await fetched(reader, **changes, session_epoch=1)
        assert (throttled["session_id"], throttled["responses"]) == (session_id, [])
        assert throttled["throttle_time_ms"] > 0
        await bound.time.advance(11_000)
        assert len(records_of(await fetched(reader, **changes, session_epoch=2))) == 1


async def test_fetch_session_is_not_created_when_its_first_fetch_is_throttled(
    tmp_path: Path,
) -> None:
    async with filled(tmp_path) as bound:
        client = await bound.client()
        await fetched(client, session_epoch=-1)
        answer = await fetched(client, 2, session_id=0, session_epoch=0)
        assert answer["throttle_time_ms"] > 0
        assert answer["session_id"] == 0


async def test_client_gets_a_batch_that_exceeds_its_quota_and_is_throttled_afterwards(
    tmp_path: Path,
) -> None:
    async with filled(tmp_path, 2, bytes(30_000)) as bound:
        client = await bound.client()
        first = await fetched(client)
        assert len(records_of(first)) == 1
        assert first["throttle_time_ms"] == pytest.approx(20_100, abs=200)
        handle = client.send(FETCH.key, 12, **fetch_request("t", 1, max_bytes=1 << 20))
        await bound.time.advance(first["throttle_time_ms"])
        assert len(records_of(await client.receive(handle))) == 1
        assert bound.broker.secured.quotas.quotas.throttled[Kind.FETCH].times == 2


@pytest.mark.parametrize(
    ("version", "replica"),
    [(12, {"replica_id": 2}), (17, {"replica_state": {"replica_id": 2, "replica_epoch": 1}})],
)
@pytest.mark.parametrize("comes_from_broker", [True, False])
async def test_fetch_counts_for_the_quota_only_when_a_client_sent_the_fetch(
    version: int,
    replica: dict[str, Any],
    comes_from_broker: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_handler, "comes_from_broker", lambda *_: comes_from_broker)
    async with filled(tmp_path) as bound:
        await bound.set(request_percentage=1e-7)
        topic_id = bound.broker.registry.topic("t").topic_id
        fetcher = await bound.client("broker-2-fetcher-0")
        for _ in range(3 if comes_from_broker else 1):
            answer = await fetched(fetcher, version=version, topic_id=topic_id, **replica)
            assert (answer["throttle_time_ms"] > 0) is not comes_from_broker
            assert bool(answer["responses"]) is comes_from_broker
        client = await bound.client("broker-2-fetcher-0")
        assert (await fetched(client, version=version, topic_id=topic_id))["throttle_time_ms"] > 0
