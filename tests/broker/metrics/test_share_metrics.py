"""The metrics of a share group after known deliveries."""

from __future__ import annotations

from pathlib import Path

from broker.metrics.share_series import ShareSeries
from broker.metrics.text_format import Families
from share.partition.counts import GROUPS_MAX, GroupCounts
from tests.broker.seen import Scrape, seeing
from tests.broker.share_calls import RELEASE
from tests.broker.share_stories import PAYMENTS, SETTINGS, a_poisonous_record, two_sharers

GROUP = f"consumergroup={PAYMENTS}"


def by_label(scrape: Scrape, name: str) -> dict[str, float]:
    """Returns the values of those series of a metric that belong to the group `GROUP`. The key is
    the value of the only other label."""
    found = {}
    for labels, value in scrape.of(name).items():
        (other,) = labels - {GROUP}
        found[other.partition("=")[2]] = value
    return found


async def test_share_metrics_count_deliveries_outcomes_and_archived_records(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        await a_poisonous_record(seen)
        scrape = await seen.scrape()
    assert by_label(scrape, "muster_share_deliveries_total") == {"first": 3, "again": 4}
    outcomes = by_label(scrape, "muster_share_outcomes_total")
    assert outcomes == {
        "accepted": 1,
        "released": 1,
        "rejected": 1,
        "gap": 0,
        "lock_expired": 4,
        "session_closed": 0,
    }
    assert scrape["muster_share_archived_total", GROUP] == 1
    assert by_label(scrape, "muster_share_records") == {"acquired": 0, "available": 0}


async def test_metric_share_records_counts_acquired_and_available_records(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen, 5)
        assert await one.fetch(4) == [(0, 3, 1)]
        await one.acknowledge((1, 1, [RELEASE]))
        scrape = await seen.scrape()
    assert by_label(scrape, "muster_share_records") == {"acquired": 3, "available": 1}


async def test_share_metrics_are_omitted_above_the_limit_of_series(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen)
        assert await one.fetch(1) == [(0, 0, 1)]
        families = Families(10)
        assert list(ShareSeries(seen.broker.sources, families).steps()) == []
    assert families.left_out == 11


def test_delivery_counts_are_kept_for_a_limited_number_of_share_groups() -> None:
    counts = GroupCounts()
    for number in range(GROUPS_MAX + 5):
        counts.of(f"g{number}").acquired(1, 1)
    assert len(list(counts)) == GROUPS_MAX
    counts.forget("g7")
    assert counts.of("g7").delivered == 0
