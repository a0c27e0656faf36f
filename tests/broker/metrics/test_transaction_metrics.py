"""The metrics of transactions after a known sequence of transactions."""

from __future__ import annotations

from pathlib import Path

from broker.metrics.scan import STEP, Scan
from coordinator.events import TransactionalOffsets
from tests.broker.edge import eventually
from tests.broker.seen import seeing
from tests.broker.stories import produce
from tests.broker.transaction_stories import NEWER, Producer, opened

ORDERS_0 = ("topic=orders", "partition=0")


async def test_transaction_metrics_match_a_known_sequence_of_transactions(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        first = await opened(seen)
        seen.pass_ms(42_000)
        await produce(seen, 2)
        scrape = await seen.scrape()
        assert scrape["muster_transactional_ids", "state=Ongoing"] == 1
        assert scrape["muster_transactional_ids", "state=Empty"] == 0
        assert scrape["muster_transaction_oldest_open_seconds"] == 42
        assert scrape["muster_partition_held_back_records", *ORDERS_0] == 5
        assert scrape["muster_partition_held_back_seconds", *ORDERS_0] == 42
        assert scrape["muster_producers"] == 1
        assert scrape["muster_transaction_shards", "state=active"] == 50

        assert await first.end() == 0
        second = await opened(seen, "other")
        assert await second.end(committed=False) == 0
        third = await opened(seen, "third")
        newer = Producer(seen, "third", NEWER)
        assert await newer.init() != 0
        view = seen.broker.transactions.view_of("third")
        await eventually(lambda: "third" not in view.open())
        assert await third.add("orders", 0) != 0

        scrape = await seen.scrape()
        assert scrape["muster_transactions_committed_total"] == 1
        causes = ("client", "timeout", "fenced", "admin")
        assert [
            scrape["muster_transactions_aborted_total", f"cause={each}"] for each in causes
        ] == [
            1,
            0,
            1,
            0,
        ]
        assert scrape["muster_transaction_completion_seconds_count"] == 3
        assert scrape["muster_transaction_oldest_open_seconds"] == 0
        assert scrape.of("muster_partition_held_back_records") == {}
        refused = scrape["muster_transaction_requests_refused_total", "error=PRODUCER_FENCED"]
        assert refused == 1


async def test_metric_held_back_seconds_begins_at_the_first_record_of_a_hanging_transaction(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 1)
        stray = Producer(seen, "nobody")
        assert await stray.init() == 0
        await stray.write("orders")
        assert await stray.end() == 0
        stray.epoch += 1
        await stray.hang("orders")
        seen.pass_ms(90_000)
        scrape = await seen.scrape()
        assert scrape["muster_partition_held_back_seconds", *ORDERS_0] == 90


async def test_transactional_offsets_are_counted_by_outcome(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        now = seen.time.now()
        for committed, offsets in ((True, 3), (False, 2), (True, 4)):
            seen.broker.metrics.observe(TransactionalOffsets("g", 7, 0, committed, offsets), now)
        scrape = await seen.scrape()
    name = "muster_transactional_offsets_total"
    assert scrape[name, "outcome=committed"] == 7
    assert scrape[name, "outcome=dropped"] == 2


async def test_each_step_of_a_scrape_reads_a_bounded_number_of_transactional_ids(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 1)
        await opened(seen)
        view = seen.broker.transactions.view_of("billing-1")
        known = view.get("billing-1")
        state = view._state
        for number in range(20_000):
            state.transactions[f"id-{number}"] = known
            state.open[f"id-{number}"] = known
        scan = Scan(seen.broker.sources, [])
        steps = list(scan.steps())
        for number in range(20_000):
            del state.transactions[f"id-{number}"], state.open[f"id-{number}"]
    assert max(steps) <= max(STEP, 500)
    assert scan.transactions["Ongoing"] == 20_001
