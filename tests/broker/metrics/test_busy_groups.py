"""Tests that each scrape contains the lag in seconds of every group, however often the group
commits between scrapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metrics import record_times, scan
from broker.metrics.record_times import Key, _Wanted
from log.record_time import RecordTime, TimeReader
from protocol.errors import NONE
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen, seeing

AT = ("consumergroup=busy", "topic=orders", "partition=0")
RECORDS = 50


def fill(seen: Seen) -> None:
    """Appends one record per second to ``orders``. The last record has the current time."""
    partition = partition_of(seen.broker, "orders")
    now_ms = seen.time.wall_ms
    records = [Record(n, now_ms - 1000 * (RECORDS - 1 - n), None, b"v") for n in range(RECORDS)]
    partition.append(encode_batch(records), now_ms)


def find_nothing(step: list[_Wanted]) -> tuple[list[Key], list[tuple[Key, RecordTime]]]:
    """Replaces the thread that looks up records. The replacement finds no record times."""
    return [(each.topic_id, each.partition, first) for each in step for first in each.offsets], []


async def test_metric_lag_seconds_is_computed_from_the_latest_commit(tmp_path: Path) -> None:
    """A scrape first looks up the timestamps of unread records. Therefore its lag in seconds
    belongs to the latest commit, even if commits are frequent."""
    async with seeing(tmp_path) as seen:
        fill(seen)
        for offset in range(10):
            assert await seen.client.commit("busy", offset) == NONE
            scrape = await seen.scrape()
            assert scrape["muster_consumergroup_lag_seconds", *AT] == RECORDS - 1 - offset
            assert scrape["muster_consumergroup_lag_seconds_max", *AT[:2]] == RECORDS - 1 - offset
        assert scrape["muster_lag_lookups_total"] == 10


async def test_scrape_omits_lag_seconds_when_record_lookups_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LOOKUP_S_MAX", 0.001)
    monkeypatch.setattr(record_times, "_look_up", find_nothing)
    async with seeing(tmp_path) as seen:
        fill(seen)
        assert await seen.client.commit("busy", 4, partitions=3) == NONE
        scrape = await seen.scrape()

        assert scrape["kafka_consumergroup_lag", *AT] == RECORDS - 4
        assert scrape["muster_consumergroup_lag_seconds", *AT] is None
        assert len(scrape.of("kafka_consumergroup_lag")) == 3, "once each"


async def test_scrape_does_not_wait_for_an_unreadable_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(reader: TimeReader, offset: int) -> RecordTime:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(TimeReader, "first_at", broken)
    monkeypatch.setattr(scan, "LOOKUP_S_MAX", 3600)
    async with seeing(tmp_path) as seen:
        fill(seen)
        for _ in range(2):
            assert await seen.client.commit("busy", 4) == NONE
            scrape = await seen.scrape()
            assert scrape["kafka_consumergroup_lag", *AT] == RECORDS - 4
            assert scrape["muster_consumergroup_lag_seconds", *AT] is None
