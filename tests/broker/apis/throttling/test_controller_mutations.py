"""Tests that the controller mutation quota limits the created and deleted partitions per second of
each client (KIP-599)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.errors import NONE, THROTTLING_QUOTA_EXCEEDED
from protocol.messages.create_partitions import API as CREATE_PARTITIONS
from protocol.messages.create_topics import API as CREATE_TOPICS
from protocol.messages.delete_topics import API as DELETE_TOPICS
from protocol.messages.metadata import API as METADATA
from tests.broker.apis.throttling.bounded import QuotaBroker, broker_with_quotas
from tests.broker.edge import Client
from tests.broker.topic_calls import topic

SETTINGS = {"controller.quota.window.num": "10", "controller.quota.window.size.seconds": "1"}
"""Ten quota windows of one second. With a quota of one partition per second, a client can therefore
create ten partitions at once."""


async def create(client: Client, version: int, *partitions: int, **more: Any) -> dict[str, Any]:
    prefix = more.pop("prefix", "new")
    topics = [topic(f"{prefix}{number}", count) for number, count in enumerate(partitions)]
    return await client.call(CREATE_TOPICS.key, version, topics=topics, timeout_ms=10_000, **more)


def codes(answer: dict[str, Any], field: str = "topics") -> list[int]:
    return [each["error_code"] for each in answer[field]]


@pytest.mark.proves("security 18")
async def test_create_topics_above_the_quota_is_refused_only_from_version_6_on(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path, SETTINGS) as bound:
        await bound.set(controller_mutation_rate=1)
        client = await bound.client()
        strict = await create(client, 6, 8, 5, 1, 1)
        assert codes(strict) == [NONE, NONE, THROTTLING_QUOTA_EXCEEDED, THROTTLING_QUOTA_EXCEEDED]
        assert strict["throttle_time_ms"] == 3_000
        assert bound.broker.registry.topic("new1").partitions == 5
        assert bound.broker.registry.topic("new2") is None
        await bound.time.advance(3_000)
        old = await create(client, 5, 8, 5, prefix="old")
        assert codes(old) == [NONE, NONE]
        assert old["throttle_time_ms"] == 13_000


@pytest.mark.parametrize("version", [2, 3])
async def test_create_partitions_counts_for_the_mutation_quota(
    version: int, tmp_path: Path
) -> None:
    async with broker_with_quotas(tmp_path, SETTINGS) as bound:
        await bound.set(controller_mutation_rate=1)
        first = await grown(await bound.client(), version, 12)
        assert (codes(first, "results"), first["throttle_time_ms"]) == (
            [NONE],
            0 if version == 3 else 1_000,
        )
        second = await grown(await bound.client(), version, 13)
        refused = [THROTTLING_QUOTA_EXCEEDED] if version == 3 else [NONE]
        assert codes(second, "results") == refused
        assert second["throttle_time_ms"] == (1_000 if version == 3 else 2_000)


async def grown(client: Client, version: int, count: int) -> dict[str, Any]:
    topics = [{"name": "t", "count": count, "assignments": None}]
    return await client.call(
        CREATE_PARTITIONS.key, version, topics=topics, timeout_ms=10_000, validate_only=False
    )


@pytest.mark.parametrize("version", [4, 5])
async def test_delete_topics_counts_partitions_for_the_mutation_quota(
    version: int, tmp_path: Path
) -> None:
    async with broker_with_quotas(tmp_path, SETTINGS) as bound:
        await create(await bound.client(), 7, 12, 1)
        await bound.set(controller_mutation_rate=1)
        answer = await deleted(bound, version, "new0", "new1")
        strict = version == 5
        assert codes(answer, "responses") == [NONE, THROTTLING_QUOTA_EXCEEDED if strict else NONE]
        assert answer["throttle_time_ms"] == (2_000 if strict else 3_000)


async def deleted(bound: QuotaBroker, version: int, *names: str) -> dict[str, Any]:
    client = await bound.client()
    return await client.call(DELETE_TOPICS.key, version, topic_names=list(names), timeout_ms=10_000)


async def test_validate_only_does_not_count_for_the_mutation_quota(tmp_path: Path) -> None:
    async with broker_with_quotas(tmp_path, SETTINGS) as bound:
        await bound.set(controller_mutation_rate=1)
        for _ in range(3):
            answer = await create(await bound.client(), 7, 9, validate_only=True)
            assert (codes(answer), answer["throttle_time_ms"]) == ([NONE], 0)


async def test_topic_auto_creation_is_not_throttled_but_uses_the_mutation_quota(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path, SETTINGS | {"num.partitions": "12"}) as bound:
        await bound.set(controller_mutation_rate=1)
        client = await bound.client()
        made = await client.call(
            METADATA.key, 9, topics=[{"name": "asked"}], allow_auto_topic_creation=True
        )
        assert (codes(made), made["throttle_time_ms"]) == ([NONE], 0)
        assert codes(await create(client, 7, 1)) == [THROTTLING_QUOTA_EXCEEDED]
