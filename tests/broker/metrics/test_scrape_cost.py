"""The cost of a scrape: bounded steps, a bounded number of series, and a count of the omitted
series."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.loop.histogram import Histogram
from broker.metrics.scan import STEP, Scan
from protocol.consumer_protocol import encode_assignment
from protocol.errors import NONE
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from tests.broker.seen import Seen, seeing

PARTITIONS = 1000


async def commit_a_wide_group(seen: Seen, group_id: str = "wide") -> None:
    if "wide" not in seen.broker.logs.topics:
        await seen.broker.topics.create("wide", PARTITIONS, {})
    rows = [
        {"partition_index": each, "committed_offset": 0, "committed_metadata": ""}
        for each in range(PARTITIONS)
    ]
    reply = await seen.client.call(
        OFFSET_COMMIT.key,
        8,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "wide", "partitions": rows}],
    )
    assert reply["topics"][0]["partitions"][0]["error_code"] == NONE


@pytest.mark.campaign
async def test_each_step_of_a_scrape_reads_a_bounded_number_of_entries(tmp_path: Path) -> None:
    """The scrape yields to the event loop between steps, so a large group or topic does not block
    the loop."""
    async with seeing(tmp_path) as seen:
        await commit_a_wide_group(seen)
        steps = list(Scan(seen.broker.sources, []).steps())

    assert max(steps) <= STEP
    assert sum(steps) >= 2 * PARTITIONS, "its offsets, and the topic's partitions"


@pytest.mark.campaign
async def test_number_of_series_is_bounded_and_omitted_series_are_counted(tmp_path: Path) -> None:
    async with seeing(tmp_path, {"metrics.series.max": 4000}) as seen:
        await commit_a_wide_group(seen, "first")
        assert (await seen.scrape())["muster_metrics_series_left_out"] > 0
        for number in range(5):
            await commit_a_wide_group(seen, f"more-{number}")
        scrape = await seen.scrape()

    grown = [key for key in scrape.values if key[0].startswith(("kafka_", "muster_consumergroup"))]
    assert len(grown) <= 4000 + 2, "kafka_brokers and kafka_broker_info are the broker's"
    left_out = scrape["muster_metrics_series_left_out"]
    assert left_out is not None
    assert left_out > 3 * 5 * PARTITIONS


async def test_scrape_omits_a_member_with_a_very_long_assignment(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        everything = encode_assignment({"orders": list(range(20_000))})
        await seen.client.join_alone("greedy", assignment=everything)
        await seen.client.join_alone("modest", assignment=encode_assignment({"orders": [0]}))
        scrape = await seen.scrape()

    assert scrape["muster_metrics_members_left_out"] == 1
    assert len(scrape.of("muster_consumergroup_member_partitions")) == 1


async def test_request_duration_histogram_counts_each_request_once(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        member_id, generation = await seen.client.join_alone("team")
        for _ in range(5):
            assert await seen.client.heartbeat("team", member_id, generation) == NONE
        scrape = await seen.scrape()

    beats = scrape.of("muster_request_seconds_count")
    assert beats[frozenset({"api=Heartbeat"})] == 5
    assert scrape["muster_request_seconds_bucket", "api=Heartbeat", "le=+Inf"] == 5
    total = scrape["muster_request_seconds_sum", "api=Heartbeat"]
    assert total is not None
    assert 0 < total < 5


def test_histogram_buckets_are_powers_of_two() -> None:
    histogram = Histogram()
    for value in (0, 1, 2, 3, 4, 1000):
        histogram.add(value)

    assert histogram.cumulative(1, 4) == [(2, 2), (4, 4), (8, 5), (16, 5)]
    assert (histogram.count, histogram.total) == (6, 1010)


def test_histogram_quantiles_are_within_their_bucket() -> None:
    histogram = Histogram()
    assert histogram.quantiles([0.5]) == [0.0]
    for value in [100] * 98 + [5000] * 2:
        histogram.add(value)

    half, most = histogram.quantiles([0.5, 0.99])
    assert 64 <= half <= 128
    assert 4096 <= most <= 8192
