"""Tests the names, labels and values of the metrics on /metrics after a known sequence of
requests."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from broker.loop.pieces import NAMES as NAMES_OF_PIECES
from broker.metrics import text_format
from broker.metrics.exposition import render
from protocol.errors import NONE
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.messages.fetch import API as FETCH
from protocol.messages.metadata import API as METADATA
from protocol.messages.sync_group import API as SYNC_GROUP
from protocol.records.message_set import encode as encode_set
from protocol.records.section import Record
from security.acls.model import Operation, ResourceType
from tests.broker.edge import eventually
from tests.broker.net.tls.securing import with_tls
from tests.broker.partitions import log_of
from tests.broker.seen import PAGE, Scrape, documented, seeing
from tests.broker.share_stories import two_sharers
from tests.broker.stories import SESSION_MS, a_busy_day, one_that_is_behind, produce
from tests.broker.transaction_stories import opened
from tests.certificates import Authority

AUDITORS, ORDERS = "consumergroup=auditors", "topic=orders"


async def test_metrics_have_the_names_types_and_labels_of_the_metrics_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("log.record_time.COMPRESSED_BYTES_MAX", 10)
    own = Authority(tmp_path).issue("broker")
    async with seeing(tmp_path / "data", with_tls(own)) as seen:
        await a_busy_day(seen)
        await seen.client.call(DELETE_GROUPS.key, 2, groups_names=["readers"])
        await one_that_is_behind(seen)
        await opened(seen)
        sharer, _ = await two_sharers(seen)
        await sharer.fetch(1)
        seen.broker.secured.logins.counted("SASL_SSL", "PLAIN", "success")
        seen.broker.secured.audit.counts["Fetch", Operation.READ, ResourceType.TOPIC] += 1
        await seen.scrape()
        await seen.broker.lags.times.settled()
        scrape = await seen.scrape()
    page = documented()

    assert len(page) > 30
    assert {name: kind for name, (kind, _, _) in page.items()} == scrape.types
    assert set(scrape.labels) == set(page), "each has a series after such a day"
    assert {name: {labels} for name, (_, labels, _) in page.items()} == scrape.labels


async def test_group_metrics_match_a_known_sequence_of_requests(tmp_path: Path) -> None:
    settings = {"group.min.session.timeout.ms": 1000, "offsets.topic.num.partitions": 3}
    async with seeing(tmp_path, settings) as seen:
        await a_busy_day(seen)
        scrape = await seen.scrape()

        assert scrape["muster_groups", "state=Stable"] == 1
        assert scrape["muster_groups", "state=Empty"] == 1
        assert scrape["muster_groups", "state=Dead"] == 0
        assert scrape["muster_group_members"] == 1
        assert scrape["muster_rebalances_total", "cause=member_joined"] == 1
        assert scrape["muster_generations_total"] == 1
        assert scrape["muster_offsets_cached"] == 3
        assert scrape["muster_shards", "state=active"] == 3
        assert scrape["muster_connections"] == 1
        assert scrape["muster_log_segments", ORDERS] == 3, "one for each partition"
        assert scrape["muster_log_size_bytes", ORDERS] == log_of(seen.broker, "orders").size_bytes

        seen.pass_ms(SESSION_MS)
        after = await seen.scrape()
        assert after["muster_groups", "state=Empty"] == 2
        assert after["muster_group_members"] == 0
        assert after["muster_rebalances_total", "cause=session_expired"] == 1
        assert after["muster_generations_total"] == 1, "nobody was left to form one"


async def test_counters_with_few_labels_exist_before_their_first_event(tmp_path: Path) -> None:
    """The Prometheus function `rate` ignores the first event if the series starts with it."""
    async with seeing(tmp_path) as seen:
        first = await seen.scrape()
        before = first.values
        await a_busy_day(seen)
        for offset in (9, 3):
            await seen.client.commit("rewinder", offset)
        await seen.client.call(METADATA.key, 4, topics=[{"name": "?"}])
        seen.pass_ms(SESSION_MS)
        after = await seen.scrape()
    counters = {name for name, kind in after.types.items() if kind == "counter"}
    new = {(name, labels) for name, labels in after.values if name in counters} - set(before)

    # Two kinds of series appear later: error labels are unbounded, and topic series need the topic.
    of_errors = {(name, labels) for name, labels in new if name == "muster_requests_total"}
    assert all("error=NONE" not in labels for _, labels in of_errors)
    assert new - of_errors == set()
    pieces = {work for labels in first.of("muster_long_pieces_total") for work in labels}
    assert pieces >= {f"work={name}" for name in NAMES_OF_PIECES}


async def test_each_request_is_counted_once_under_its_error_code(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await a_busy_day(seen)
        await seen.client.call(METADATA.key, 4, topics=[{"name": "?"}])
        requests = (await seen.scrape()).of("muster_requests_total")

    counted = {tuple(sorted(labels)): count for labels, count in requests.items() if count}
    assert counted == {
        ("api=Heartbeat", "error=NONE"): 1,
        ("api=JoinGroup", "error=NONE"): 1,
        ("api=Metadata", "error=INVALID_TOPIC_EXCEPTION"): 1,
        ("api=OffsetCommit", "error=ILLEGAL_GENERATION"): 1,
        ("api=OffsetCommit", "error=NONE"): 2,
        ("api=OffsetCommit", "error=UNKNOWN_TOPIC_OR_PARTITION"): 1,
        ("api=Produce", "error=NONE"): 1,
        ("api=SyncGroup", "error=NONE"): 1,
    }


async def test_down_conversions_are_counted_only_for_old_clients(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        for version, converted in ((4, 0), (12, 0), (3, 5), (0, 10)):
            partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            await seen.client.call(
                FETCH.key,
                version,
                max_wait_ms=0,
                min_bytes=1,
                topics=[{"topic": "orders", "partitions": [partition]}],
            )
            scrape = await seen.scrape()
            assert scrape["muster_record_conversions_total", "request=fetch"] == converted
            assert scrape["muster_record_conversions_total", "request=produce"] == 0
        await produce(seen, 3, version=2, data=encode_set([Record(0, 0, None, b"v")] * 3, 1))
        scrape = await seen.scrape()
        assert scrape["muster_record_conversions_total", "request=produce"] == 3


async def test_commits_and_removed_offsets_are_counted(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("broker")
    async with seeing(tmp_path / "data", with_tls(own)) as seen:
        await a_busy_day(seen)
        await seen.client.call(DELETE_GROUPS.key, 2, groups_names=["readers"])
        scrape = await seen.scrape()

        assert scrape["muster_commits_total"] == 3, "that of an unknown topic never came so far"
        assert scrape["muster_commits_rejected_total", "error=ILLEGAL_GENERATION"] == 1
        assert scrape["muster_offsets_cached"] == 2
        assert scrape["muster_offsets_removed_total", "cause=deleted"] == 1


async def test_kafka_exporter_series_show_brokers_topics_and_groups(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await a_busy_day(seen)
        scrape = await seen.scrape()
        port = seen.broker.sockets.addresses()[0][1]

    first, second, third = ("partition=0", "partition=1", "partition=2")
    assert scrape["kafka_brokers"] == 1
    assert scrape["kafka_broker_info", "id=1", f"address=127.0.0.1:{port}"] == 1
    assert scrape["kafka_topic_partitions", ORDERS] == 3
    assert scrape["kafka_topic_partitions", "topic=__consumer_offsets"] == 2
    assert scrape["kafka_topic_partition_current_offset", ORDERS, first] == 5
    assert scrape["kafka_topic_partition_current_offset", ORDERS, second] == 0
    assert scrape["kafka_topic_partition_oldest_offset", ORDERS, first] == 0
    assert scrape["kafka_topic_partition_leader", ORDERS, third] == 1
    assert scrape["kafka_topic_partition_leader_is_preferred", ORDERS, third] == 1
    assert scrape["kafka_topic_partition_replicas", ORDERS, third] == 1
    assert scrape["kafka_topic_partition_in_sync_replica", ORDERS, third] == 1
    assert scrape["kafka_topic_partition_under_replicated_partition", ORDERS, third] == 0
    assert scrape["kafka_consumergroup_members", AUDITORS] == 1
    assert scrape["kafka_consumergroup_members", "consumergroup=readers"] == 0
    assert scrape["kafka_consumergroup_current_offset", AUDITORS, ORDERS, first] == 2
    assert scrape["kafka_consumergroup_current_offset", AUDITORS, ORDERS, second] == 2
    assert scrape["kafka_consumergroup_current_offset", AUDITORS, ORDERS, third] is None
    assert scrape["kafka_consumergroup_current_offset_sum", AUDITORS, ORDERS] == 4
    assert scrape["kafka_consumergroup_lag", AUDITORS, ORDERS, first] == 3
    assert scrape["kafka_consumergroup_lag", AUDITORS, ORDERS, second] == -2, "as kafka_exporter's"
    assert scrape["kafka_consumergroup_lag_sum", AUDITORS, ORDERS] == 3
    assert scrape["kafka_consumergroup_lag", "consumergroup=readers", ORDERS, first] == 1


async def test_records_below_the_log_start_offset_do_not_count_in_lag_metrics(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        assert await seen.client.commit("auditors", 2) == NONE
        log = log_of(seen.broker, "orders")
        log.delete_records(4)
        scrape = await seen.scrape()

    assert scrape["kafka_topic_partition_oldest_offset", ORDERS, "partition=0"] == 4
    assert scrape["kafka_consumergroup_lag", AUDITORS, ORDERS, "partition=0"] == 1


async def test_verdict_and_out_of_range_metrics_are_exported_per_group(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        log_of(seen.broker, "orders").delete_records(4)
        assert await seen.client.commit("lost", 2) == NONE
        assert await seen.client.commit("ahead", 9) == NONE
        assert await seen.client.commit("well", 5) == NONE
        scrape = await seen.scrape()

    ones = {
        frozenset({f"consumergroup={group}", f"verdict={verdict}"}): 1
        for group, verdict in (
            ("lost", "OUT_OF_RANGE"),
            ("ahead", "OUT_OF_RANGE"),
            ("well", "OK"),
        )
    }
    assert scrape.of("muster_group_verdict") == ones, "only the one that each has now"
    assert scrape.of("muster_group_offset_out_of_range") == {
        frozenset({f"consumergroup={group}", ORDERS, "partition=0", f"side={side}"}): 1
        for group, side in (("lost", "below"), ("ahead", "above"))
    }
    assert scrape["kafka_consumergroup_lag", "consumergroup=ahead", ORDERS, "partition=0"] == -4
    assert scrape["kafka_consumergroup_lag_sum", "consumergroup=ahead", ORDERS] == 0


async def test_load_metrics_after_a_restart_count_the_loaded_records(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        fresh = await seen.scrape()
        assert fresh["muster_load_records"] == 0
        await a_busy_day(seen)
        written = sum(hosted.log.log_end_offset for hosted in seen.broker.groups.hosted_shards)

    async with seeing(tmp_path) as seen:
        scrape = await seen.scrape()

        assert scrape["muster_load_records"] == written
        load_ms = sum(hosted.load_ms for hosted in seen.broker.groups.hosted_shards)
        assert scrape["muster_load_seconds"] == load_ms / 1000
        assert scrape["muster_offsets_cached"] == 3
        assert scrape["muster_groups", "state=Stable"] == 1
        assert scrape["muster_group_members"] == 1
        assert scrape["muster_commits_total"] == 0, "counted since the process began"


async def test_refused_and_failed_connections_are_counted(tmp_path: Path) -> None:
    async with seeing(tmp_path, {"max.connections": 2}) as seen:
        port = seen.broker.sockets.addresses()[0][1]
        wrong = await type(seen.client).connect(port)
        surplus = await type(seen.client).connect(port)
        assert await surplus.closed_by_peer()
        wrong.send_raw(b"GET / HTTP/1.1\r\n\r\n")
        assert await wrong.closed_by_peer()
        await eventually(lambda: len(seen.broker.server.connections) == 1)
        scrape = await seen.scrape()

    assert scrape["muster_connections"] == 1
    assert scrape["muster_connections_refused_total"] == 1
    assert scrape["muster_protocol_errors_total"] == 1


HARD_NAMES = ['quo"te', "back\\slash", "new\nline", "naïve ✓", "\x1b[31mred"]


async def test_group_ids_with_special_characters_are_escaped(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        for group_id in HARD_NAMES:
            assert await seen.client.commit(group_id, 1) == NONE
        scrape = await seen.scrape()

    for group_id in HARD_NAMES:
        labels = (f"consumergroup={group_id}", ORDERS)
        assert scrape["kafka_consumergroup_current_offset_sum", *labels] == 1
        assert scrape["kafka_consumergroup_members", labels[0]] == 0


async def test_scrape_contains_the_example_of_the_metrics_page(tmp_path: Path) -> None:
    """The page describes topic orders with two records, and group audit with committed offset 1."""
    example = re.findall(r"^    (kafka_.*)$", PAGE.read_text(), re.M)
    async with seeing(tmp_path) as seen:
        await produce(seen, 2)
        assert await seen.client.commit("audit", 1) == NONE
        text = (await seen.scrape()).text

    assert len(example) == 3
    assert set(example) <= set(text.splitlines())


async def test_scrape_yields_to_the_event_loop_between_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_format, "LINES_PER_CHUNK", 7)
    async with seeing(tmp_path) as seen:
        seen.broker.slicer.slice_ns = 0
        for number in range(50):
            assert await seen.client.commit(f"group-{number}", 1) == NONE
        turns = 0
        reading = True

        def turn() -> None:
            nonlocal turns
            if reading:
                turns += 1
                loop.call_soon(turn)

        loop = asyncio.get_running_loop()
        loop.call_soon(turn)
        text = b"".join([chunk async for chunk in render(seen.broker.sources)]).decode()
        reading = False

    assert turns > 50
    assert len(Scrape(text).of("kafka_consumergroup_lag")) == 50


def test_metrics_page_has_a_description_of_each_metric() -> None:
    rows: dict[str, Any] = documented()
    assert all(meaning for _, _, meaning in rows.values())
    assert {kind for kind, _, _ in rows.values()} == {"counter", "gauge", "histogram"}


async def test_rebalance_phases_and_topic_bytes_are_measured(tmp_path: Path) -> None:
    """The join phase takes 0 s and the sync phase takes 5 s. One batch is produced and is fetched
    twice."""
    async with seeing(tmp_path) as seen:
        joined = await seen.client.receive(seen.send_join("slow"))
        seen.pass_ms(5000)
        reply = await seen.client.call(
            SYNC_GROUP.key,
            3,
            group_id="slow",
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            assignments=[],
        )
        assert reply["error_code"] == NONE
        await produce(seen, 5)
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        wanted = [{"topic": "orders", "partitions": [partition]}]
        for _ in range(2):
            await seen.client.call(FETCH.key, 4, max_wait_ms=0, min_bytes=1, topics=wanted)
        scrape = await seen.scrape()

    assert scrape["muster_rebalance_phase_seconds_count", "phase=join"] == 1
    assert scrape["muster_rebalance_phase_seconds_sum", "phase=sync"] == 5
    assert scrape["muster_rebalance_phase_seconds_bucket", "phase=sync", "le=4.096"] == 0
    assert scrape["muster_rebalance_phase_seconds_bucket", "phase=sync", "le=8.192"] == 1
    came = scrape["muster_topic_bytes_in_total", ORDERS]
    assert came == scrape["muster_log_size_bytes", ORDERS]
    assert scrape["muster_topic_bytes_out_total", ORDERS] == 2 * (came or 0)
    assert scrape["muster_append_records_sum", "log=topics"] == 5
    assert scrape["muster_append_seconds_count", "log=topics"] == 1
