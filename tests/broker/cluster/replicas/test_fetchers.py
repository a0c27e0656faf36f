"""Tests that followers fetch from their leader, truncate diverging records, and then have the same
log as the leader."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.apis.fetch.reading import Reader
from broker.apis.fetch.response import Fetched, refused
from broker.apis.fetch.sessions import Wanted
from broker.cluster.replicas import fetcher
from broker.cluster.replicas.fetch_messages import Asked, FetchHead, encode_fetch
from broker.cluster.replicas.followed import Followed, Next
from log.partition_log import PartitionLog
from protocol.errors import KAFKA_STORAGE_ERROR, NAMES, UNKNOWN_SERVER_ERROR
from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from replication.values import PartitionState
from tests.broker.cluster.fellows import Fellow, cluster, eventually, identical_logs
from tests.log.log_tools import NOW_MS

BY_FETCH = "3.9"
BY_EPOCH = "2.6"
WITH_EPOCHS = ["0.11.0", "1.0", "1.1", "2.0", "2.3", BY_EPOCH, "2.7", "2.8", "3.1", "3.5", BY_FETCH]


def fellows_of(spoken: str, count: int = 3, **settings: int) -> list[Fellow]:
    return [Fellow(each, spoken, **settings) for each in range(1, count + 1)]


@pytest.mark.parametrize("spoken", WITH_EPOCHS)
async def test_followers_replicate_the_leader_in_every_protocol_version(spoken: str) -> None:
    one, two, three = fellows = fellows_of(spoken)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        for _ in range(3):
            one.append(5, b"v" * 1000)
            await identical_logs(*fellows)
        await eventually(lambda: one.replica().high_watermark == 15)
        one.append()
        await identical_logs(*fellows)
        await eventually(lambda: two.replica().high_watermark == 16)
        await eventually(lambda: three.replica().high_watermark == 16)
        assert two.replica().log.epochs.entries == one.replica().log.epochs.entries == [(0, 0)]


@pytest.mark.parametrize("spoken", ["1.0", BY_EPOCH, BY_FETCH])
async def test_former_leader_truncates_records_that_no_other_replica_has(spoken: str) -> None:
    one, two, three = fellows = fellows_of(spoken)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(5)
        kept = await identical_logs(*fellows)
        # The first broker does not learn of this leadership.
        await controller.lead(2, to=[two, three])
        one.append(4, b"lost")
        two.append(2, b"kept")
        await eventually(lambda: three.end_offset() == 7)
        await controller.lead(2)
        found = await identical_logs(*fellows)
        assert found.startswith(kept)
        assert b"lost" not in found
        assert one.end_offset() == 7
        assert one.replica().log.epochs.entries == [(0, 0), (1, 5)]


@pytest.mark.parametrize("spoken", ["1.0", BY_EPOCH, BY_FETCH])
async def test_fetch_after_a_truncation_waits_until_the_truncation_is_on_disk(
    spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread fsyncs the truncation. The event loop and other partitions continue."""
    loop_thread, allowed, begun = threading.get_ident(), threading.Event(), threading.Event()
    real = PartitionLog.sync_cuts

    def slow(log: PartitionLog) -> None:
        if not log.cuts_are_synced:
            assert threading.get_ident() != loop_thread
            begun.set()
            assert allowed.wait(30)
        real(log)

    one, two, three = fellows = fellows_of(spoken)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(5)
        await identical_logs(*fellows)
        await controller.lead(2, to=[two, three])
        one.append(4, b"lost")
        two.append(2, b"kept")
        await eventually(lambda: three.end_offset() == 7)
        monkeypatch.setattr(PartitionLog, "sync_cuts", slow)
        await controller.lead(2)
        await eventually(begun.is_set)
        assert one.end_offset() == 5
        two.append(1, b"kept too")
        await eventually(lambda: three.end_offset() == 8)
        assert one.end_offset() == 5
        led = two.replica().led
        assert led is not None
        # The value is -1 or the end before the truncation.
        assert led.followers[1].end_offset in (-1, 9)
        allowed.set()
        await identical_logs(*fellows)


async def test_new_leader_fsyncs_the_truncation_that_it_made_as_a_follower() -> None:
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(5)
        await identical_logs(*fellows)
        log = two.replica().log
        two.replica().truncate_for_leader(3)
        assert not log.cuts_are_synced
        await controller.lead(2, to=[two])
        assert log.cuts_are_synced


@pytest.mark.proves("clusters 5")
@pytest.mark.parametrize("spoken", [BY_EPOCH, BY_FETCH])
async def test_leader_epoch_without_records_is_stored_by_the_leader(
    spoken: str,
) -> None:
    """Broker 1 leads in an epoch without appending a record. If broker 1 did not store this epoch,
    broker 2 would keep records that broker 1 does not have."""
    one, two = fellows = fellows_of(spoken, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(3)
        await identical_logs(*fellows)
        await controller.lead(2, to=[])  # Neither broker learns of this leadership.
        await controller.lead(1, to=[one])  # The epoch begins at offset 3, without a record.
        assert one.replica().log.epochs.entries == [(0, 0), (2, 3)]
        await controller.lead(2, to=[two])
        two.append(2, b"second")
        assert two.replica().log.epochs.entries == [(0, 0), (3, 3)]
        await controller.lead(1)
        one.append(1, b"first!")
        found = await identical_logs(*fellows)
        assert b"second" not in found
        assert two.replica().log.epochs.entries == one.replica().log.epochs.entries


@pytest.mark.parametrize("spoken", [BY_EPOCH, BY_FETCH])
async def test_replicas_become_identical_when_each_has_leader_epochs_unknown_to_the_other(
    spoken: str,
) -> None:
    """KIP-279 describes this case."""
    one, _ = fellows = fellows_of(spoken, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(2, b"common")
        await identical_logs(*fellows)
        # Unclean elections: the brokers lead in turn, and the other broker does not learn of each
        # leadership.
        for number in range(4):
            leader = fellows[number % 2]
            await controller.lead(leader.node_id, to=[leader], isr=[leader.node_id])
            leader.append(2 + number, b"turn %d" % number)
        await controller.lead(1)
        one.append(1, b"last")
        found = await identical_logs(*fellows)
        assert b"common" in found
        assert b"turn 1" not in found
        assert b"turn 3" not in found


@pytest.mark.proves("clusters 9")
async def test_follower_waits_for_a_leader_that_metadata_does_not_list() -> None:
    """The controller should send live brokers first, but a follower does not depend on this
    order."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows, shown=False) as controller:
        state = PartitionState(1, 1, 0, (1, 2), 0, (1, 2))
        for each in fellows:
            assert (await controller.tell(each, controller.told("t", state))).error_code == 0
        one.append(3)
        assert two.end_offset() == 0
        controller.show(controller.shown("t", state))
        await identical_logs(*fellows)


async def test_follower_finds_the_new_address_of_its_leader() -> None:
    one, _ = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(3)
        await identical_logs(*fellows)
        await one.server.close()
        one.port = 0
        one.append(3)
        await one.listen()
        controller.show()
        await identical_logs(*fellows)


@pytest.mark.parametrize("spoken", ["1.0", BY_FETCH])
async def test_follower_below_log_start_offset_restarts_at_the_log_start_offset(
    spoken: str,
) -> None:
    one, two = fellows = fellows_of(spoken, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1, isr=[1])
        one.append(6)
        await identical_logs(*fellows)
        await controller.lead(1, isr=[1], to=[one])
        await controller.stop(two, 1, delete=False)
        one.append(600, b"v" * 5000)  # The records fill several segments.
        await eventually(lambda: one.replica().high_watermark == 606)
        log = one.replica().log
        log.delete_records(500)
        assert log.log_start_offset == 500
        await controller.lead(1, isr=[1])
        await eventually(lambda: two.end_offset() == 606)
        assert two.replica().log.log_start_offset == 500
        one.append()
        await eventually(lambda: two.end_offset() == 607)
        assert one.bytes_of().endswith(two.bytes_of())


@pytest.mark.parametrize("spoken", ["1.0", BY_FETCH])
async def test_follower_truncates_to_an_unclean_leader_with_fewer_records(spoken: str) -> None:
    one, two = fellows = fellows_of(spoken, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(2)
        await identical_logs(*fellows)
        await controller.lead(1, to=[one], isr=[1])
        one.append(5, b"lost")
        await controller.lead(2, isr=[2])
        two.append(1, b"kept")
        assert b"lost" not in await identical_logs(*fellows)


async def test_batch_larger_than_the_fetch_limits_is_replicated() -> None:
    one, _ = fellows = fellows_of(BY_FETCH, 2, partition_max_bytes=100, max_bytes=150)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(20, b"v" * 1000)
        await identical_logs(*fellows)


async def test_fetch_requests_of_followers_have_the_configured_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[FetchHead, set[int]]] = []

    def noted(version: int, head: FetchHead, asked: Any, forgotten: Any) -> bytes:
        limits = {each.max_bytes for partitions in asked.values() for each in partitions}
        said.append((head, limits))
        return encode_fetch(version, head, asked, forgotten)

    monkeypatch.setattr("broker.cluster.replicas.fetcher.encode_fetch", noted)
    known = {"wait_max_ms": 77, "min_bytes": 78, "max_bytes": 79_000, "partition_max_bytes": 8_000}
    one, _ = fellows = fellows_of(BY_FETCH, 2, **known)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(3)
        await identical_logs(*fellows)
    head, limits = said[0]
    assert (head.max_wait_ms, head.min_bytes, head.max_bytes) == (77, 78, 79_000)
    assert limits == {8_000}


async def test_follower_reconnects_to_a_leader_that_does_not_respond() -> None:
    one, two = fellows = fellows_of(BY_FETCH, 2, wait_max_ms=1, socket_timeout_ms=20, backoff_ms=1)
    connections = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.read()
        writer.close()

    async with cluster(*fellows) as controller:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port, one.port = one.port, server.sockets[0].getsockname()[1]
        controller.show()
        await controller.lead(1)
        one.append(3)
        await eventually(lambda: len(connections) >= 3)
        assert two.end_offset() == 0
        one.port = port
        controller.show()
        await identical_logs(*fellows)
        server.close()


async def test_follower_starts_a_new_fetch_session_when_the_leader_lost_the_session() -> None:
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1, partitions=range(5))
        one.append(3, index=2)
        await identical_logs(*fellows, index=2)
        await eventually(lambda: len(one.sessions) == 1)
        one.append(3, index=4)
        await identical_logs(*fellows, index=4)
        lost = one.sessions.get(one.session_id)
        assert lost is not None
        one.sessions.close(lost.session_id, lost.owner)
        one.append(3, index=1)
        await identical_logs(
            *fellows, index=1
        )  # A Fetch that waited in the lost session gets the records.
        await eventually(lambda: len(one.sessions) == 1)
        await eventually(lambda: two.replica(index=2).high_watermark == 3)


async def test_topics_are_fetched_by_name_when_some_topics_have_no_ids() -> None:
    one, _ = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(1)
        await identical_logs(*fellows)
        controller.topic_id = None  # An old controller creates topics without topic ids.
        await controller.lead(1, topic="u")
        one.append(2, topic="u")
        await identical_logs(*fellows, topic="u")
        one.append(2)
        await identical_logs(*fellows)


OLD = {"log.message.format.version": "0.10.2"}


async def test_log_without_leader_epochs_is_truncated_to_the_high_watermark() -> None:
    """The log stores only magic 1, and the leader returns no newer magic to a follower."""
    one, two = fellows = [Fellow(each, "0.10.2", config=OLD) for each in (1, 2)]
    async with cluster(*fellows, topic_id=None) as controller:
        await controller.lead(1)
        for each in range(3):
            one.replica().append(message_set(b"%d" % each), NOW_MS)
        found = await identical_logs(*fellows)
        assert {header.magic for header, _ in iter_stored(found)} == {1}
        await eventually(lambda: two.replica().high_watermark == 3)
        await controller.lead(1)  # The leader is unchanged, and the logs are not truncated.
        assert next_step(two) is Next.FETCH
        await controller.lead(2, to=[])
        await controller.lead(1, to=[one])
        one.replica().append(message_set(b"3"), NOW_MS)
        await controller.stop(two, -1, delete=False)
        two.replica().high_watermark = 1
        await controller.lead(2, to=[])
        await controller.lead(1)
        await identical_logs(*fellows)
        assert two.end_offset() == 4


def next_step(fellow: Fellow) -> Next:
    followed = fellow.fetchers.followed("t", 0)
    assert followed is not None
    return followed.step


def message_set(value: bytes) -> bytes:
    return encode([Record(0, NOW_MS, None, value)], 1)


@pytest.mark.proves("clusters 12")
async def test_follower_does_not_fetch_from_leader_without_inter_broker_listener() -> None:
    """The follower fetches as soon as the leader has the listener."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        one.listener = "TYPO"
        controller.show()
        await controller.lead(1)
        one.append(2)
        assert two.end_offset() == 0
        assert next_step(two) is Next.FETCH
        one.listener = "PLAINTEXT"
        controller.show()
        await identical_logs(*fellows)


async def test_partitions_are_distributed_over_the_configured_fetchers() -> None:
    one, two = fellows = fellows_of(BY_FETCH, 2, fetchers=3)
    async with cluster(*fellows) as controller:
        await controller.lead(1, partitions=range(10))
        for index in range(10):
            one.append(index + 1, index=index)
        for index in range(10):
            await identical_logs(*fellows, index=index)
        assert 1 < two.fetchers.count <= 3
        await controller.lead(2, partitions=range(10))
        assert two.fetchers.count == 0
        two.append(1, b"back", index=4)
        await identical_logs(*fellows, index=4)


async def test_follower_with_a_newer_leader_epoch_waits_for_its_leader() -> None:
    """The leader returns UNKNOWN_LEADER_EPOCH until it receives the epoch from the controller."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(2)
        await identical_logs(*fellows)
        state = one.replica().state
        assert state is not None
        later = controller.told("t", state._replace(leader_epoch=1))
        await controller.tell(two, later)
        one.append(2)
        followed = two.fetchers.followed("t", 0)
        assert followed is not None
        await eventually(lambda: followed.due_ms > 0)
        assert two.end_offset() == 2
        await controller.tell(one, later)
        await identical_logs(*fellows)


async def test_follower_with_an_older_leader_epoch_waits_for_the_controller() -> None:
    one, two = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        await controller.lead(1, to=[one])
        one.append(2)
        await eventually(lambda: next_step(two) is Next.WAIT)
        assert two.end_offset() == 0
        await controller.lead(1)
        await identical_logs(*fellows)


@pytest.mark.parametrize("error_code", [UNKNOWN_SERVER_ERROR, KAFKA_STORAGE_ERROR])
async def test_unexpected_error_of_the_leader_is_retried(
    error_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a leader with Kafka 0.10.2 refuses a whole Fetch because of an error in one
    partition."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    refusals: list[int] = []
    real = Reader.partition

    def refusing(self: Reader, wanted: Wanted, *rest: Any) -> Fetched:
        if len(refusals) == 3:
            return real(self, wanted, *rest)
        refusals.append(wanted.partition)
        return refused(wanted.partition, error_code)

    async with cluster(*fellows) as controller:
        await controller.lead(1)
        await identical_logs(*fellows)
        monkeypatch.setattr(Reader, "partition", refusing)
        with capture_logs() as lines:
            one.append(2)
            await identical_logs(*fellows)
        assert len(refusals) == 3
        (told,) = [each for each in lines if "rejected by the leader" in each["event"]]
        assert (told["partition"], told["error"]) == ("t-0", NAMES[error_code])
        followed = two.fetchers.followed("t", 0)
        assert followed is not None
        assert followed.trouble is None


async def test_fetcher_scans_idle_partitions_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changes are new data in the leader's response, and requests of the controller."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    monkeypatch.setattr(fetcher, "LOOKED_THROUGH_MS", 3_600_000)
    asked: list[int] = []
    real = Followed.asked

    def counted(self: Followed, *rest: Any, **more: Any) -> Asked:
        asked.append(self.place[1])
        return real(self, *rest, **more)

    monkeypatch.setattr(Followed, "asked", counted)
    async with cluster(*fellows) as controller:
        await controller.lead(1, partitions=range(5))
        one.append(1, index=3)
        await identical_logs(*fellows, index=3)
        (fetches,) = two.fetchers.all
        for index in range(5):
            await eventually(lambda: fetches._quiet_until_ms > 0)
            asked.clear()
            one.append(1, index=index)
            await identical_logs(*fellows, index=index)
            # The offset of one partition has changed.
            await eventually(lambda: set(asked) == set(range(5)))
        asked.clear()
        two.fetchers.forget("t", 2)
        session = one.sessions._sessions[one.session_id]
        await eventually(lambda: sorted(key[1] for key in session.partitions) == [0, 1, 3, 4])
        assert 2 not in asked


async def test_leader_reads_an_idle_partition_for_a_follower_only_after_an_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = fellows = fellows_of(BY_FETCH, 2)
    async with cluster(*fellows) as controller:
        await controller.lead(1, partitions=range(5))
        for index in range(5):
            one.append(1, index=index)
            await identical_logs(*fellows, index=index)
        quiet = [one.replica(index=index) for index in range(5)]
        await eventually(lambda: all(2 in each.quiet for each in quiet))
        session: Any = quiet[0].quiet._known[2][0]
        session._through_ms += 3_600_000  # The leader reads all partitions only after an hour.
        looked: list[int] = []
        real = Reader.partition

        def counted(self: Reader, wanted: Wanted, *rest: Any) -> Fetched:
            looked.append(wanted.partition)
            return real(self, wanted, *rest)

        monkeypatch.setattr(Reader, "partition", counted)
        one.append(1, index=3)
        await identical_logs(*fellows, index=3)
        assert set(looked) == {3}
        await eventually(lambda: fellows[1].replica(index=3).high_watermark == 2)


async def test_fetcher_does_not_repeat_a_fetch_whose_records_were_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fetcher repeats the same Fetch only until a partition has new records. The next Fetch
    must contain the new offset of this partition."""
    one, two = fellows = fellows_of(BY_FETCH, 2)
    monkeypatch.setattr(fetcher, "LOOKED_THROUGH_MS", 3_600_000)
    async with cluster(*fellows) as controller:
        await controller.lead(1, partitions=range(5))
        one.append(1, index=3)
        await identical_logs(*fellows, index=3)
        (fetches,) = two.fetchers.all
        await eventually(lambda: fetches._quiet_until_ms > 0)
        with capture_logs() as lines:
            for _ in range(2):
                fetches._news.set()
                await eventually(lambda: not fetches._news.is_set())
                one.append(1, index=2)
                await identical_logs(*fellows, index=2)
        assert [line for line in lines if line["log_level"] == "error"] == []
