"""Tests the lag of groups in records, in exact seconds and per member, and the cost of its
computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.metrics import record_times
from broker.metrics.lag import PartitionLag
from broker.metrics.record_times import Key, _Wanted
from log.partition_log import PartitionLog
from log.record_time import RecordTime, TimeReader
from log.values import Marker
from protocol.consumer_protocol import encode_assignment
from protocol.errors import NONE
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.config.served import GROUP, Served, serving
from tests.broker.partitions import partition_of

DAY_MS = 86_400_000
AT_ONCE = {"group.initial.rebalance.delay.ms": 0}


def fill(served: Served, count: int, partition: int = 0, **fields: Any) -> PartitionLog:
    """Appends one record per second to ``orders``. The last record has the current time."""
    there = partition_of(served.broker, "orders", partition)
    now_ms = served.time.wall_ms
    first_ms = now_ms - 1000 * (count - 1)
    records = [Record(index, first_ms + 1000 * index, None, b"v") for index in range(count)]
    there.append(encode_batch(records, **fields), now_ms)
    return there.log


def find_nothing(step: list[_Wanted]) -> tuple[list[Key], list[tuple[Key, RecordTime]]]:
    """Replaces the thread that looks up records. The replacement finds no record times."""
    return [(each.topic_id, each.partition, first) for each in step for first in each.offsets], []


def of_group(served: Served, group_id: str = GROUP) -> list[PartitionLag]:
    hosted = served.broker.groups.hosted_for(group_id)
    assert hosted is not None
    return list(served.broker.lags.of_group(hosted, group_id))


async def lags_after_lookups(served: Served) -> list[PartitionLag]:
    """Returns the lags after the thread has looked up all requested records."""
    of_group(served)
    await served.broker.lags.times.settled()
    return of_group(served)


async def test_lag_in_seconds_is_available_only_after_the_record_lookup(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        fill(served, 10)
        assert await served.client.commit(GROUP, 4) == NONE

        (unknown,) = of_group(served)
        assert (unknown.records, unknown.seconds) == (6, None), "never 0 before it is known"
        await served.broker.lags.times.settled()
        (lag,) = of_group(served)
        assert (lag.log_start_offset, lag.offset, lag.log_end_offset) == (0, 4, 10)
        assert (lag.records, lag.seconds, lag.approximate) == (6, 5.0, False)

        served.pass_ms(2500)
        (lag,) = of_group(served)
        assert lag.seconds == 7.5, "it grows by itself"


async def test_lag_is_zero_when_the_group_has_read_all_records(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        fill(served, 3)
        assert await served.client.commit(GROUP, 3) == NONE
        served.pass_ms(60_000)
        (lag,) = of_group(served)

        assert (lag.records, lag.seconds) == (0, 0)
        assert served.broker.lags.times.lookups == 0


async def test_lag_is_zero_when_the_commit_is_above_the_log_end_offset(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert await served.client.commit(GROUP, 1000) == NONE
        assert [lag.records for lag in of_group(served)] == [0]


def end_transaction(served: Served, producer_id: int, *, committed: bool = True) -> None:
    """Appends a transaction marker with the current time to ``orders``."""
    marker = Marker(producer_id, 0, 0, committed=committed)
    partition_of(served.broker, "orders").append_marker(marker, served.time.wall_ms)


async def test_lag_is_zero_when_the_committed_offset_is_after_the_last_marker(
    tmp_path: Path,
) -> None:
    """A consumer that has read the marker has its position after the marker, and commits this
    offset. Kafka's tool also shows no lag in this case."""
    async with serving(tmp_path) as served:
        fill(served, 3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_transaction(served, 7)
        assert await served.client.commit(GROUP, 4) == NONE
        (lag,) = await lags_after_lookups(served)
        assert (lag.records, lag.seconds) == (0, 0)


async def test_lag_is_one_record_when_only_a_transaction_marker_is_unread(tmp_path: Path) -> None:
    """The consumer has committed the offset after the last record of a transaction, and only the
    marker follows. Kafka's tool also shows a lag of one record."""
    async with serving(tmp_path) as served:
        fill(served, 3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_transaction(served, 7)
        served.pass_ms(60_000)
        assert await served.client.commit(GROUP, 3) == NONE
        (lag,) = await lags_after_lookups(served)
        assert (lag.log_end_offset, lag.records, lag.seconds) == (4, 1, 0)
        (lag,) = await lags_after_lookups(served)
        assert served.broker.lags.times.lookups == 1, "it is not looked up again and again"

        fill(served, 1)
        (lag,) = await lags_after_lookups(served)
        assert (lag.records, lag.seconds) == (2, 0.0)
        served.pass_ms(5_000)
        (lag,) = await lags_after_lookups(served)
        assert lag.seconds == 5.0, "of the record behind the marker"


@pytest.mark.parametrize("committed", [True, False])
async def test_records_of_an_open_transaction_count_as_lag(tmp_path: Path, committed: bool) -> None:
    """A read_committed consumer waits at the last stable offset. The records of the open
    transaction are after this offset, so they are unread."""
    async with serving(tmp_path) as served:
        fill(served, 2)
        fill(served, 3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        served.pass_ms(5_000)
        there = partition_of(served.broker, "orders")
        assert (there.last_stable_offset, there.high_watermark) == (2, 5)
        assert await served.client.commit(GROUP, 2) == NONE
        (lag,) = await lags_after_lookups(served)
        assert (lag.records, lag.seconds) == (3, 7.0)

        end_transaction(served, 7, committed=committed)
        (lag,) = await lags_after_lookups(served)
        assert (lag.records, lag.seconds) == (4, 7.0)
        assert await served.client.commit(GROUP, 6) == NONE
        (lag,) = await lags_after_lookups(served)
        assert (lag.records, lag.seconds) == (0, 0)


async def test_records_below_the_log_start_offset_do_not_count_as_lag(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        log = fill(served, 10)
        assert await served.client.commit(GROUP, 2) == NONE
        (before,) = await lags_after_lookups(served)
        log.delete_records(7)
        (after,) = await lags_after_lookups(served)

    assert (before.records, before.seconds) == (8, 7.0)
    assert (after.records, after.seconds) == (3, 2.0)


async def test_record_time_is_looked_up_again_only_after_a_new_commit(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        fill(served, 10)
        assert await served.client.commit(GROUP, 4) == NONE
        for _ in range(3):
            await lags_after_lookups(served)
        assert served.broker.lags.times.lookups == 1

        assert await served.client.commit("others", 4) == NONE
        assert len(of_group(served, "others")) == 1
        assert served.broker.lags.times.lookups == 1, (
            "another group at the same place knows it already"
        )

        assert await served.client.commit(GROUP, 5) == NONE
        (lag,) = await lags_after_lookups(served)
        assert (lag.seconds, served.broker.lags.times.lookups) == (4.0, 2)


async def test_lag_seconds_of_the_previous_lookup_are_reported_during_a_lookup(
    tmp_path: Path,
) -> None:
    """After each commit, the broker looks up the timestamp of the first unread record. Until the
    result arrives, the reported lag in seconds is that of the previous committed offset."""
    async with serving(tmp_path) as served:
        fill(served, 10)
        for offset, expected in ((4, None), (5, 5.0), (6, 5.0)):
            assert await served.client.commit(GROUP, offset) == NONE
            (lag,) = of_group(served)
            assert lag.seconds == expected
            assert of_group(served) == [lag], "asking twice changes nothing"
            await served.broker.lags.times.settled()
            served.pass_ms(1000)

        (lag,) = of_group(served)
        assert lag.seconds == 3.0 + 3.0, "of offset 6, three seconds later"


async def test_lag_in_seconds_of_an_older_committed_offset_is_reported_for_at_most_two_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served:
        fill(served, 10)
        for offset in (4, 5, 6):
            assert await served.client.commit(GROUP, offset) == NONE
            (lag,) = of_group(served)
            if offset == 4:
                await served.broker.lags.times.settled()
                monkeypatch.setattr(record_times, "_look_up", find_nothing)
        assert lag.seconds == 5.0, "of offset 4; neither 5 nor 6 is known yet"

        served.pass_ms(120_000)
        assert of_group(served)[0].seconds == 5.0
        served.pass_ms(1)
        assert of_group(served)[0].seconds is None


async def test_number_of_queued_record_lookups_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_times, "KEPT_MIN", 10)
    async with serving(tmp_path) as served:
        fill(served, 10)
        monkeypatch.setattr(record_times, "_look_up", find_nothing)
        for number in range(30):
            assert await served.client.commit(f"group-{number}", 3) == NONE
            of_group(served, f"group-{number}")
            await served.client.call(DELETE_GROUPS.key, 2, groups_names=[f"group-{number}"])

        assert 0 < len(served.broker.lags.times._asked) <= 10


async def test_lag_seconds_are_approximate_inside_a_large_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("log.record_time.COMPRESSED_BYTES_MAX", 10)
    async with serving(tmp_path) as served:
        fill(served, 10, compression=1)
        assert await served.client.commit(GROUP, 4) == NONE
        (lag,) = await lags_after_lookups(served)

    assert (lag.seconds, lag.approximate) == (9.0, True)


async def test_lag_seconds_are_unknown_when_the_record_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(reader: TimeReader, offset: int) -> RecordTime:
        raise OSError(5, "Input/output error")

    async with serving(tmp_path) as served:
        fill(served, 10)
        assert await served.client.commit(GROUP, 4) == NONE
        with monkeypatch.context() as patch:
            patch.setattr(TimeReader, "first_at", broken)
            (lag,) = await lags_after_lookups(served)
            assert (lag.records, lag.seconds) == (6, None)

        (lag,) = await lags_after_lookups(served)
        assert lag.seconds == 5.0, "it is tried again"


async def test_lag_result_contains_the_time_at_which_the_committed_offset_expires(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {"offsets.retention.minutes": 24 * 60}) as served:
        assert await served.client.commit(GROUP, 1) == NONE
        committed_ms = served.time.wall_ms
        served.pass_ms(5000)
        (lag,) = of_group(served)

    assert (lag.committed_ms, lag.expires_ms) == (committed_ms, committed_ms + DAY_MS)


async def test_committed_offset_of_a_group_with_a_member_has_no_expiry_time(tmp_path: Path) -> None:
    async with serving(tmp_path, AT_ONCE) as served:
        member_id, generation = await served.client.join_alone(GROUP)
        mine = {"member_id": member_id, "generation_id": generation}
        assert await served.client.commit(GROUP, 1, **mine) == NONE
        assert [lag.expires_ms for lag in of_group(served)] == [None]


async def test_lag_is_unknown_when_the_topic_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert await served.client.commit(GROUP, 1) == NONE
        del served.broker.logs.topics["orders"]
        (lag,) = of_group(served)
        served.broker.logs.topics.clear()

    assert (lag.offset, lag.log_end_offset, lag.records, lag.seconds) == (1, None, None, None)


async def test_member_has_the_lag_of_its_partitions(tmp_path: Path) -> None:
    async with serving(tmp_path, AT_ONCE) as served:
        for partition, count in enumerate((10, 5, 7)):
            fill(served, count, partition)
        assert await served.client.commit(GROUP, 4, partitions=2) == NONE
        assignment = encode_assignment({"orders": [0, 1, 2]})
        member_id, _ = await served.client.join_alone(GROUP, assignment=assignment)
        lags = {"orders": {lag.partition: lag for lag in await lags_after_lookups(served)}}
        group = served.hosted.core.view.groups[GROUP]
        (only,) = group.members.values()
        member = served.broker.lags.of_member(group, only, lags)

    assert member is not None
    assert member.member.member_id == member_id
    assert (member.partitions, member.committed) == (3, 2)
    assert (member.records, member.seconds) == (6 + 1, 5.0)


async def test_member_with_an_unreadable_assignment_has_no_lag(tmp_path: Path) -> None:
    async with serving(tmp_path, AT_ONCE) as served:
        await served.client.join_alone(GROUP)
        group = served.hosted.core.view.groups[GROUP]
        (only,) = group.members.values()
        assert served.broker.lags.of_member(group, only, {}) is None, "their bytes are their own"


async def test_unused_record_times_are_evicted_before_used_record_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_times, "KEPT_MIN", 10)
    async with serving(tmp_path) as served:
        fill(served, 200)
        assert await served.client.commit("slow", 0) == NONE
        of_group(served, "slow")
        for offset in range(100):
            assert await served.client.commit(GROUP, offset) == NONE
            await lags_after_lookups(served)
            assert of_group(served, "slow")[0].seconds == 199
        lags = served.broker.lags

        assert lags.times.lookups == 100, "offset 0 is both groups'"
        assert len(lags.times.recent) + len(lags.times._older) <= 20
