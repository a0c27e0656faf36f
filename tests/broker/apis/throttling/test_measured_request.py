"""Tests that the broker measures each request and throttles the client by the same time in ms as
Kafka."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker.quotas.client_quotas import Kind
from protocol.messages.fetch import API as FETCH
from protocol.messages.metadata import API as METADATA
from protocol.messages.produce import API as PRODUCE
from security.quotas.entities import Entity
from tests.broker.apis.throttling.bounded import broker_with_quotas, is_silent, produce_of
from tests.broker.edge import Client
from tests.broker.serving import eventually
from tests.broker.topic_calls import fetch_request


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def produced(client: Client, size: int) -> int:
    """Sends a Produce of ``size`` bytes. Returns its throttle time in ms."""
    client.send_raw(framed(produce_of(size, client_id=client.client_id)))
    answer = await client.receive((PRODUCE.key, 9, 7))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
    told: int = answer["throttle_time_ms"]
    return told


@pytest.mark.proves("security 17")
async def test_produce_above_its_rate_is_acknowledged_then_throttled(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        client = await bound.client()
        client.send_raw(framed(produce_of(30_000)))
        pipelined = client.send(METADATA.key, 9, topics=[])
        answer = await client.receive((PRODUCE.key, 9, 7))
        assert answer["throttle_time_ms"] == 20_000
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert await is_silent(client)
        await bound.time.advance(19_999)
        assert await is_silent(client)
        other = await bound.client()
        assert (await other.call(METADATA.key, 9, topics=[]))["throttle_time_ms"] == 0
        await bound.time.advance(1)
        assert (await client.receive(pipelined))["throttle_time_ms"] == 0
        assert bound.throttled == 0


async def test_configured_quota_windows_limit_the_bytes_of_a_burst(tmp_path: Path) -> None:
    """With 3 windows of 2 s, as in Kafka, a client may send the bytes of 4 s (one window less)
    without a delay."""
    settings = {"quota.window.num": "3", "quota.window.size.seconds": "2"}
    async with broker_with_quotas(tmp_path, settings) as bound:
        await bound.set(producer_byte_rate=1000)
        client = await bound.client()
        assert await produced(client, 4_000) == 0
        assert await produced(client, 2_000) == 2_000
        await bound.time.advance(2_000)
        assert await produced(client, 300) == 2_300
        await bound.time.advance(6_000)
        assert await produced(client, 4_000) == 0  # three windows have passed


async def test_produce_with_acks_0_is_throttled_by_bytes(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        client = await bound.client()
        client.send_raw(framed(produce_of(11_000, acks=0)))
        pipelined = client.send(METADATA.key, 9, topics=[])
        await eventually("it is throttled", lambda: bound.throttled)
        assert await is_silent(client)
        await bound.time.advance(1_000)
        await client.receive(pipelined)


async def test_produce_with_acks_0_is_not_throttled_by_request_time(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1e9, request_percentage=1e-7)
        client = await bound.client()
        client.send_raw(framed(produce_of(11_000, acks=0)))
        client.send_raw(framed(produce_of(11_000, acks=-1)))
        assert (await client.receive((PRODUCE.key, 9, 7)))["throttle_time_ms"] == 1_000


async def test_clients_share_a_user_quota_and_each_has_its_own_default_client_quota(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        first, second = await bound.client("a"), await bound.client("b")
        told = [await produced(each, 8_000) for each in (first, second)]
        assert told == [0, 6_000]
        await bound.set(producer_byte_rate=None)
        await bound.set(Entity(client_id=None), producer_byte_rate=1000)
        third, fourth = await bound.client("a"), await bound.client("b")
        assert [await produced(each, 8_000) for each in (third, fourth)] == [0, 0]
        assert await produced(third, 8_000) == 6_000


async def test_longer_of_two_throttle_times_is_returned(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000, request_percentage=1e-7)
        assert await produced(await bound.client(), 30_000) == 20_000
        totals = bound.broker.secured.quotas.quotas.throttled
        assert (totals[Kind.PRODUCE].ms, totals[Kind.REQUEST].times) == (20_000, 0)
        await bound.set(producer_byte_rate=1000_000)
        assert await produced(await bound.client(), 300) == 1_000


async def test_removed_or_raised_quota_ends_the_throttling_of_its_clients(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        for raised in (None, 2000.0):
            await bound.set(producer_byte_rate=1)
            client = await bound.client()
            assert await produced(client, 30_000) > 20_000_000
            waiting = client.send(METADATA.key, 9, topics=[])
            await bound.set(Entity("somebody"), producer_byte_rate=1)
            assert await is_silent(client)
            await bound.set(producer_byte_rate=raised)
            await client.receive(waiting)


async def test_measured_bytes_of_a_client_are_kept_when_another_quota_changes(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        client = await bound.client()
        assert await produced(client, 9_000) == 0
        await bound.set(Entity("somebody"), producer_byte_rate=1)
        assert await produced(client, 9_000) == 8_000


async def test_throttle_is_removed_when_its_connection_closes(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1)
        client = await bound.client()
        await produced(client, 30_000)
        assert bound.throttled == 1
        client.close()
        await eventually("it is forgotten", lambda: not bound.throttled)
        await bound.time.advance(3_000_000)


async def test_parked_request_is_answered_while_its_connection_is_throttled(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        client, other = await bound.client(), await bound.client("other")
        waiting = client.send(FETCH.key, 12, **fetch_request("t", max_wait_ms=20_000))
        await eventually("it waits for records", lambda: len(bound.broker.long_polls))
        behind = client.send(METADATA.key, 9, topics=[])
        connection = next(iter(bound.broker.server.connections))
        bound.broker.server.throttles.hold(connection, Kind.PRODUCE, 1000, 5_000)
        assert await produced(other, 500) == 0
        assert (await client.receive(waiting))["responses"]
        assert await is_silent(client)
        await bound.time.advance(5_000)
        await client.receive(behind)


async def test_throttle_time_does_not_change_when_the_wall_clock_jumps(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(producer_byte_rate=1000)
        client = await bound.client()
        assert await produced(client, 30_000) == 20_000
        waiting = client.send(METADATA.key, 9, topics=[])
        await bound.time.set_wall(bound.time.now().wall_ms - 3_600_000)
        await bound.time.advance(19_999)
        assert await is_silent(client)
        await bound.time.advance(1)
        await client.receive(waiting)
