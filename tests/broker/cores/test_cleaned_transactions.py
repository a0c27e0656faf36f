"""Tests that the cleaning of `__transaction_state` starts when dead records outweigh live records,
and loses no state."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.cores import shard_lifecycle as life
from broker.topics.cleaner import cleaning
from broker.topics.registry import TRANSACTION_TOPIC
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of
from tests.broker.serving import eventually, serving
from tests.broker.transactions import TOPIC, added, ended, initialised, served, state_now

SETTINGS = {"transaction.state.log.num.partitions": "1", "transactional.id.expiration.ms": "1000"}


def values(broker: Broker) -> dict[str, Any]:
    view = broker.transactions.hosted_shards[0].core.view
    return {name: each.value for name, each in view.transactions.items()}


async def churn(broker: Broker, rounds: int) -> None:
    """Commits transactions of the transactional ids t0, t1 and t2."""
    producers = [await initialised(broker, f"t{n}") for n in range(3)]
    for number in range(rounds):
        for index, producer in enumerate(producers):
            assert await added(broker, producer) == 0
            producers[index] = await ended(broker, producer, committed=bool(number % 2))
            name = producer.transactional_id
            await eventually(
                "it is over",
                lambda name=name: state_now(broker, name).startswith("Complete"),
            )


async def test_cleaning_removes_most_records_of_the_transaction_log_and_loses_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "OWNED_DEAD_BYTES_MIN", 20_000)
    monkeypatch.setattr(cleaning, "OWNED_DIRTY_BYTES_AT_ONCE", 20_000)
    monkeypatch.setattr(cleaning, "OWNED_CHECK_MS", 20)
    monkeypatch.setattr(life, "SETTLING_MS", 0)
    async with serving(tmp_path, SETTINGS) as broker:
        await served(broker)
        await broker.topics.create(TOPIC, 3, {})
        await initialised(broker, "once")
        still_open = await initialised(broker, "open")
        assert await added(broker, still_open) == 0
        async with asyncio.timeout(60):
            while broker.cleaning.runs < 3:
                await churn(broker, 40)
                await asyncio.sleep(0.05)
        log = log_of(broker, TRANSACTION_TOPIC)
        assert broker.cleaning.failures == 0
        assert log.size_bytes < log.log_end_offset * 60, "most of what was written is gone"
        before = values(broker)
    async with serving(tmp_path, SETTINGS) as broker:
        await eventually("the load", lambda: not broker.transactions.life.loading)
        assert values(broker) == before
        assert state_now(broker, "open") == "Ongoing"


async def test_cleaning_removes_an_expired_transactional_id_and_its_tombstone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "OWNED_DEAD_BYTES_MIN", 100)
    monkeypatch.setattr(cleaning, "OWNED_DIRTY_BYTES_AT_ONCE", 100)
    monkeypatch.setattr(life, "SETTLING_MS", 0)
    time = MockTime()
    settings = {**SETTINGS, "log.cleaner.enable": "false"}
    async with serving(tmp_path, settings, time=time) as broker:
        await served(broker)
        for number in range(20):
            await initialised(broker, f"t{number}")
        time.move(3_600_000)
        broker.transactions.tick()
        log = log_of(broker, TRANSACTION_TOPIC)
        await eventually("a tombstone for each", lambda: log.log_end_offset == 40)
        assert not values(broker)
        log.config = replace(log.config, delete_retention_ms=0)
        for _ in range(2):
            time.move(1000)
            await broker.cleaning.clean_owned()
            await initialised(broker, "again")
        kept = [header.base_offset for _, header in log.scan() if header.record_count]
        assert min(kept) >= 39, "but for the last, which says how long the log is"
    async with serving(tmp_path, settings, time=time) as broker:
        await eventually("the load", lambda: not broker.transactions.life.loading)
        assert list(values(broker)) == ["again"]
