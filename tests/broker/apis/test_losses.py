"""Tests that the journal of a group lists the records and offsets that administrators deleted, with
principal and client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.shared import losses
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.messages.delete_records import API as DELETE_RECORDS
from protocol.messages.delete_topics import API as DELETE_TOPICS
from protocol.messages.offset_delete import API as OFFSET_DELETE
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen, seeing
from tests.broker.web.test_http_api import got
from tests.wire import batch

WHO = {"principal": "User:ANONYMOUS", "client": "tester", "host": "127.0.0.1"}


async def losses_of(seen: Seen, group: str) -> list[dict[str, Any]]:
    journal = await got(seen, f"/api/groups/{group}/journal")
    last: list[dict[str, Any]] = journal["losses"]["last"]
    return last


async def test_delete_records_adds_a_loss_to_the_journal_of_each_group_with_a_lower_offset(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        partition_of(seen.broker, "orders").append(batch(*[b"v"] * 9), seen.time.wall_ms)
        await seen.client.commit("slow", 2)
        await seen.client.commit("done", 9)
        await seen.client.call(
            DELETE_RECORDS.key,
            1,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 6}]}],
            timeout_ms=1000,
        )
        (lost,) = await losses_of(seen, "slow")
        assert (await got(seen, "/api/groups/done/journal"))["losses"] == {"count": 0, "last": []}
    assert {name: lost[name] for name in WHO} == WHO
    assert (lost["what"], lost["offsets"]) == ("trimmed", 1)
    assert lost["examples"] == [{"topic": "orders", "partition": 0, "from": 2, "to": 6}]
    assert lost["sentence"] == (
        "User:ANONYMOUS (client tester) from 127.0.0.1 deleted records of orders:0 before 6; the"
        " committed offset was 2"
    )


async def test_delete_records_that_deletes_no_records_adds_no_loss_to_the_journal(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        partition_of(seen.broker, "orders").append(batch(*[b"v"] * 9), seen.time.wall_ms)
        await seen.client.commit("slow", 2)
        for _ in range(2):
            await seen.client.call(
                DELETE_RECORDS.key,
                1,
                topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 6}]}],
                timeout_ms=1000,
            )
        assert len(await losses_of(seen, "slow")) == 1


async def test_journal_entries_about_losses_by_deletions_have_principal_and_client(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await seen.broker.topics.create("other", 1, {})
        for topic in ("orders", "other"):
            await seen.client.commit("g", 2, topic=topic)
        await seen.client.call(
            OFFSET_DELETE.key,
            0,
            group_id="g",
            topics=[{"name": "other", "partitions": [{"partition_index": 0}]}],
        )
        await seen.client.call(DELETE_TOPICS.key, 3, topic_names=["orders"], timeout_ms=1000)
        await seen.client.call(DELETE_GROUPS.key, 1, groups_names=["g"])
        lost = await losses_of(seen, "g")
    assert all({name: each[name] for name in WHO} == WHO for each in lost)
    assert [(each["what"], each["examples"][:1]) for each in lost] == [
        ("offsets_deleted", [{"topic": "other", "partition": 0, "from": 2, "to": None}]),
        ("topic_deleted", [{"topic": "orders", "partition": 0, "from": 2, "to": None}]),
        ("group_deleted", []),
    ]
    assert lost[2]["sentence"].endswith("deleted the group, which had no offsets")


@pytest.mark.parametrize("faulty", ["_committed", "lost"])
async def test_exception_in_a_loss_report_does_not_prevent_the_deletion_of_records_or_topics(
    faulty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("a bug in a report")

    async with seeing(tmp_path) as seen:
        partition_of(seen.broker, "orders").append(batch(*[b"v"] * 9), seen.time.wall_ms)
        await seen.client.commit("slow", 2)
        monkeypatch.setattr(losses, faulty, fail)
        trimmed = await seen.client.call(
            DELETE_RECORDS.key,
            1,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 6}]}],
            timeout_ms=1000,
        )
        (entry,) = trimmed["topics"][0]["partitions"]
        assert (entry["error_code"], entry["low_watermark"]) == (0, 6)
        deleted = await seen.client.call(
            DELETE_TOPICS.key, 3, topic_names=["orders"], timeout_ms=1000
        )
        assert deleted["responses"][0]["error_code"] == 0
        assert seen.broker.registry.topic("orders") is None
        counts = seen.broker.internal_errors.counts
        assert counts["observer"] == 2
        assert sum(counts.values()) == 2, "no reply fails over a report"
