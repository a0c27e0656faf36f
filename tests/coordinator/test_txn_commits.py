"""TxnOffsetCommit and transaction markers: which commits are accepted, and how pending offsets are
committed or aborted."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.calls import DeleteGroup, DescribeGroup, OffsetDelete, OffsetFetch, TopicOffsets
from coordinator.classic.states import State
from coordinator.events import (
    CommitRejected,
    MovedOffset,
    OffsetsExpired,
    OffsetsMovedBack,
    TransactionalOffsets,
)
from coordinator.outcome import CommitReply, DescribeReply, FetchReply, OffsetDeleteReply
from coordinator.refusal import not_served
from coordinator.txn_commits import PENDING_MAX
from protocol.consumer_protocol import encode_subscription
from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_COMMIT_OFFSET_SIZE,
    INVALID_GROUP_ID,
    NAMES,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
    UNSTABLE_OFFSET_COMMIT,
)
from protocol.now import Now
from tests.coordinator.calls_for_tests import Driver, commit, end, heartbeat, join, sync, txn_commit
from tests.coordinator.invariants import check_against_log, check_shard
from tests.coordinator.test_precedence import FOLLOWER, LEADER, full, rows

__all__ = ["full"]

OTHER = [("range", encode_subscription(["other"]))]
"""The protocols of a member with another subscription. A JoinGroup with these protocols causes a
rebalance."""


def topic(offsets: dict[int, int], name: str = "t", text: str | None = None) -> TopicOffsets:
    texts = None if text is None else [text] * len(offsets)
    return TopicOffsets(name, [*offsets], [*offsets.values()], [-1] * len(offsets), texts, None)


def fetched(driver: Driver, *, stable: bool = False, group: str = "g", **topics: Any) -> Any:
    """Returns offset and error code of each partition, for the given topics or for all topics."""
    asked = [("t", topics["t"])] if topics else None
    reply = driver.answer(OffsetFetch("fetch", group, asked, stable))
    assert isinstance(reply, FetchReply)
    found = {}
    for each in reply.topics:
        codes = [each.codes] * len(each.partitions) if isinstance(each.codes, int) else each.codes
        for partition, offset, epoch, code in zip(
            each.partitions, each.offsets, each.leader_epochs, codes, strict=True
        ):
            found[partition] = (offset, code)
            assert not code or epoch == -1
    return found


# ------------------------------------------------------------------------------- accepted commits

COMMIT = """
group | generation | member | instance | metadata | error
-     | 7          | x-9    | i9       | long     | INVALID_GROUP_ID
none  | 7          | x-9    | i9       | long     | ILLEGAL_GENERATION
g     | 7          | x-9    | i9       | long     | UNKNOWN_MEMBER_ID
g     | 7          | x-9    | i1       | long     | FENCED_INSTANCE_ID
g     | 7          | x-9    | -        | long     | UNKNOWN_MEMBER_ID
g     | -1         | x-9    | -        | long     | UNKNOWN_MEMBER_ID
g     | -1         | -      | i1       | long     | FENCED_INSTANCE_ID
g     | 2          | -      | -        | long     | UNKNOWN_MEMBER_ID
g     | 7          | i1-1   | -        | long     | ILLEGAL_GENERATION
g     | 1          | i1-1   | i1       | long     | ILLEGAL_GENERATION
g     | -1         | i1-1   | i1       | long     | ILLEGAL_GENERATION
g     | 2          | i1-1   | i1       | long     | OFFSET_METADATA_TOO_LARGE
g     | 2          | i1-1   | i1       | ok       | NONE
g     | -1         | -      | -        | ok       | NONE
none  | -1         | x-9    | i9       | ok       | NONE
"""


@pytest.mark.proves("transactions 27")
@pytest.mark.parametrize(
    ("group", "generation", "member", "instance", "metadata", "error"), rows(COMMIT)
)
def test_txn_offset_commit_returns_the_error_of_its_first_failing_check(
    full: Driver, group: str, generation: str, member: str, instance: str, metadata: str, error: str
) -> None:
    call = txn_commit(
        "t",
        member,
        int(generation),
        group_id=group,
        group_instance_id=instance or None,
        topics=[topic({0: 5}, text=metadata * (2 if metadata == "long" else 1))],
    )
    reply = full.answer(call)
    assert isinstance(reply, CommitReply)
    codes = reply.errors
    assert NAMES[codes if isinstance(codes, int) else codes[0][0]] == error


@pytest.mark.parametrize("known", [LEADER, FOLLOWER])
def test_txn_offset_commit_is_accepted_in_every_phase_of_a_rebalance(
    full: Driver, known: str
) -> None:
    """OffsetCommit returns REBALANCE_IN_PROGRESS while the group waits for the assignment. A
    transaction cannot wait for the assignment."""
    instance = known[:2]
    full.handle(join("again", LEADER, group_instance_id="i1", protocols=OTHER))
    states = []
    for generation in (2, 3):
        group = full.shard.view.groups["g"]
        states.append(group.state)
        call = txn_commit("c", known, generation, group_instance_id=instance)
        assert full.answer(call) == CommitReply(NONE)
        if group.state is State.PREPARING_REBALANCE:
            full.handle(join("last", FOLLOWER, group_instance_id="i2"))
    assert states == [State.PREPARING_REBALANCE, State.AWAITING_SYNC]


@pytest.mark.proves("transactions 27")
def test_txn_offset_commit_without_a_member_is_accepted_by_any_group() -> None:
    """Versions 0 to 2 of the request have no member fields."""
    driver = Driver()
    driver.form("a")
    assert driver.answer(txn_commit("c")) == CommitReply(NONE)
    assert driver.answer(commit("plain")) == CommitReply(UNKNOWN_MEMBER_ID)


def test_empty_group_accepts_a_transactional_commit_that_has_no_generation() -> None:
    driver = Driver()
    driver.handle(commit("make"))
    call = txn_commit("c", "nobody", group_instance_id="nothing")
    assert driver.answer(call) == CommitReply(NONE)
    assert driver.answer(txn_commit("c", "nobody", 1)) == CommitReply(UNKNOWN_MEMBER_ID)


@pytest.mark.proves("transactions 27")
def test_txn_offset_commit_of_removed_member_or_old_generation_is_refused() -> None:
    driver = Driver()
    kicked, staying = driver.form("a", "b")
    generation = driver.shard.view.groups["g"].generation_id
    driver.mono_ms += 9_000
    driver.handle(heartbeat("h", staying, generation))
    driver.mono_ms += 5_000  # the first member's session has expired
    driver.take(driver.shard.expire(driver.now, 100))
    driver.handle(join("again", staying))
    driver.handle(sync("s", staying, generation + 1, assignments=[(staying, b"")]))
    refused = {
        (kicked, generation): UNKNOWN_MEMBER_ID,
        (staying, generation): ILLEGAL_GENERATION,
        (staying, generation + 1): NONE,
    }
    for (member_id, of), error in refused.items():
        assert driver.answer(txn_commit("c", member_id, of)) == CommitReply(error)


def test_txn_offset_commit_of_a_replaced_static_member_is_fenced(full: Driver) -> None:
    full.handle(join("new", "", group_instance_id="i1", fresh_id="9"))
    call = txn_commit("c", LEADER, 2, group_instance_id="i1")
    assert full.answer(call) == CommitReply(FENCED_INSTANCE_ID)


def test_txn_offset_commit_to_an_unknown_group_creates_a_simple_group() -> None:
    driver = Driver()
    assert driver.answer(txn_commit("c", "", 3)) == CommitReply(ILLEGAL_GENERATION)
    assert not driver.shard.view.groups
    assert driver.answer(txn_commit("c")) == CommitReply(NONE)
    assert driver.shard.view.groups["g"].state is State.EMPTY
    described = driver.answer(DescribeGroup("d", "g"))
    assert isinstance(described, DescribeReply)
    assert (described.state, described.protocol_type) == ("Empty", "")


def test_txn_offset_commit_with_an_empty_group_id_is_refused_while_the_shard_loads() -> None:
    assert not_served(txn_commit("c", group_id=""), 14) == CommitReply(INVALID_GROUP_ID)


def test_txn_offset_commit_does_not_renew_the_session() -> None:
    driver = Driver()
    [member] = driver.form("a")
    generation = driver.shard.view.groups["g"].generation_id
    driver.mono_ms += 9_000
    assert driver.answer(txn_commit("c", member, generation)) == CommitReply(NONE)
    driver.mono_ms += 2_000
    driver.take(driver.shard.expire(driver.now, 100))
    assert not driver.shard.view.groups["g"].members


def test_txn_offset_commit_with_too_long_metadata_fails_only_for_that_partition() -> None:
    driver = Driver(offset_metadata_max_bytes=3)
    mixed = TopicOffsets("t", [0, 1], [5, 6], [-1, -1], ["long", "ok"], None)
    reply = driver.answer(txn_commit("c", topics=[mixed, topic({0: 7}, "u")]))
    assert reply == CommitReply([[OFFSET_METADATA_TOO_LARGE, NONE], NONE])
    driver.handle(end("e", committed=True))
    assert driver.shard.view.offsets.keys("g") == [("t", 1), ("u", 0)]


def test_txn_offset_commit_too_large_for_a_batch_is_refused() -> None:
    driver = Driver(max_record_bytes=700)
    call = txn_commit("c", topics=[topic(dict.fromkeys(range(20), 1))])
    assert driver.answer(call) == CommitReply(INVALID_COMMIT_OFFSET_SIZE)
    assert not driver.log


# ------------------------------------------------------------------------------ pending and ended
# transactions


def test_offset_fetch_returns_unstable_offset_error_only_with_require_stable() -> None:
    driver = Driver()
    driver.handle(commit("c", topics=[topic({0: 1, 1: 1})]))
    driver.handle(txn_commit("t", topics=[topic({0: 9, 2: 9})]))
    unstable = (-1, UNSTABLE_OFFSET_COMMIT)
    old = {0: (1, 0), 1: (1, 0), 2: (-1, 0)}
    assert fetched(driver, t=[0, 1, 2]) == old
    assert fetched(driver, t=[0, 1, 2], stable=True) == {0: unstable, 1: (1, 0), 2: unstable}
    # a fetch of all topics lists committed offsets only
    assert fetched(driver) == {0: (1, 0), 1: (1, 0)}
    assert fetched(driver, stable=True) == {0: unstable, 1: (1, 0)}
    assert fetched(driver, t=[1], stable=True) == {1: (1, 0)}

    driver.handle(end("e", committed=True))
    new = {0: (9, 0), 1: (1, 0), 2: (9, 0)}
    assert fetched(driver, stable=True) == fetched(driver) == new


def test_aborted_transaction_does_not_change_committed_offsets() -> None:
    driver = Driver()
    driver.handle(commit("c", topics=[topic({0: 1})]))
    driver.handle(txn_commit("t", topics=[topic({0: 9, 2: 9})]))
    driver.handle(end("e", committed=False))
    assert fetched(driver, stable=True) == {0: (1, 0)}


def test_offset_fetch_with_require_stable_hides_metadata_of_an_unstable_offset() -> None:
    driver = Driver()
    driver.handle(commit("c", topics=[topic({0: 1, 1: 1}, text="mine")]))
    driver.handle(txn_commit("t", topics=[topic({0: 9})]))
    reply = driver.answer(OffsetFetch("f", "g", [("t", [0, 1])], True))
    assert isinstance(reply, FetchReply)
    assert reply.topics[0].metadata == ["", "mine"]


@pytest.mark.parametrize("plain_last", [True, False])
def test_last_commit_wins_whether_it_is_transactional_or_not(
    plain_last: bool,
) -> None:
    """The order of the commits in the log counts, not the position of the COMMIT marker. A load has
    the same result."""
    driver = Driver()
    calls = [txn_commit("t", topics=[topic({0: 8})]), commit("p", topics=[topic({0: 10})])]
    for call in calls if plain_last else reversed(calls):
        driver.handle(call)
    driver.handle(end("e", committed=True))
    assert fetched(driver) == {0: (10 if plain_last else 8, 0)}
    check_against_log(driver.shard, driver.config, driver.log, driver.now)


def test_marker_ends_the_transaction_while_the_group_rebalances(full: Driver) -> None:
    full.handle(txn_commit("t", LEADER, 2, group_instance_id="i1"))
    full.handle(join("again", LEADER, group_instance_id="i1", protocols=OTHER))
    assert full.shard.view.groups["g"].state is State.PREPARING_REBALANCE
    assert full.answer(end("e", committed=True)) == NONE
    assert fetched(full, stable=True) == {0: (5, 0)}


def test_marker_of_a_producer_without_pending_offsets_is_written() -> None:
    driver = Driver()
    outcome = driver.handle(end("e", committed=True, producer_id=99))
    assert len(outcome.records) == 1
    assert not outcome.events


def test_marker_reports_committed_or_dropped_offsets_per_group() -> None:
    driver = Driver()
    for committed in (True, False):
        driver.handle(txn_commit("1", topics=[topic({0: 8, 1: 8}), topic({0: 8}, "u")]))
        driver.handle(txn_commit("2", group_id="h"))
        assert driver.shard.view.pending("g") == [(7, 0, 3)]
        outcome = driver.handle(end("e", committed=committed))
        assert outcome.events == [
            TransactionalOffsets("g", 7, 0, committed, 3),
            TransactionalOffsets("h", 7, 0, committed, 1),
        ]
        assert driver.shard.view.pending("g") == []


def test_transaction_that_lowers_committed_offsets_is_reported() -> None:
    driver = Driver()
    driver.handle(commit("c", topics=[topic({0: 10, 1: 10, 2: 10})]))
    driver.handle(txn_commit("t", topics=[topic({0: 8, 1: 12, 2: 9})]))
    driver.handle(commit("c", topics=[topic({2: 11})]))  # a later record: it applies
    _, told = driver.handle(end("e", committed=True)).events
    moved = MovedOffset("t", 0, 10, 8)
    assert told == OffsetsMovedBack("g", "", "producer 7", "", 1, (moved,))
    assert fetched(driver) == {0: (8, 0), 1: (12, 0), 2: (11, 0)}


# ---------------------------------------------------------------------------------- deletions


def left_behind(driver: Driver) -> dict[str, Any]:
    """Ends the open transaction with a COMMIT marker. Returns the keys of all committed offsets
    after the marker, by group."""
    check_against_log(driver.shard, driver.config, driver.log, driver.now)
    driver.handle(end("e", committed=True))
    check_shard(driver.shard)
    check_against_log(driver.shard, driver.config, driver.log, driver.now)
    return {group: driver.shard.view.offsets.keys(group) for group in driver.shard.view.groups}


@pytest.mark.proves("transactions 40")
def test_pending_offsets_of_a_deleted_group_are_removed() -> None:
    driver = Driver()
    driver.handle(txn_commit("t", topics=[topic({0: 8, 1: 8})]))
    outcome = driver.handle(DeleteGroup("d", "g"))
    assert outcome.replies == [("d", NONE)]
    assert OffsetsExpired("g", 2, "deleted") in outcome.events
    assert left_behind(driver) == {}
    assert driver.answer(DeleteGroup("d", "g")) == GROUP_ID_NOT_FOUND


@pytest.mark.proves("transactions 40")
def test_offset_delete_removes_a_pending_offset() -> None:
    driver = Driver()
    driver.handle(txn_commit("t", topics=[topic({0: 8, 1: 8}), topic({0: 8}, "u")]))
    reply = driver.answer(OffsetDelete("d", "g", [("t", [0, 5])]))
    assert reply == OffsetDeleteReply(NONE, [("t", [(0, NONE), (5, NONE)])])
    assert left_behind(driver) == {"g": [("t", 1), ("u", 0)]}


@pytest.mark.proves("transactions 40")
def test_pending_offsets_of_a_deleted_topic_are_removed() -> None:
    driver = Driver()
    driver.handle(txn_commit("t", topics=[topic({0: 8}), topic({0: 8}, "u")]))
    driver.take(driver.shard.topics_deleted({"t": 99}, driver.now))
    assert left_behind(driver) == {"g": [("u", 0)]}


def test_pending_offsets_of_a_recreated_topic_are_kept() -> None:
    """When the shard drops the offsets of the deleted topic, a transaction has already committed
    offsets for a new topic with the same name."""
    driver = Driver()
    driver.handle(commit("c", topics=[topic({0: 1, 1: 1})]))  # log offsets 0 and 1
    driver.handle(txn_commit("t", topics=[topic({0: 8})]))  # log offset 2: the new topic
    driver.take(driver.shard.topics_deleted({"t": 2}, driver.now))
    assert left_behind(driver) == {"g": [("t", 0)]}
    assert fetched(driver) == {0: (8, 0)}


def later(driver: Driver, ms: int) -> None:
    driver.mono_ms += ms
    driver.take(driver.shard.expire(driver.now, 1000))


@pytest.mark.proves("transactions 40")
def test_offset_and_group_with_a_pending_offset_do_not_expire() -> None:
    hour_ms = 3_600_000
    driver = Driver(offsets_retention_ms=hour_ms, offsets_retention_check_interval_ms=hour_ms)
    driver.handle(commit("c", topics=[topic({0: 1, 1: 1})]))
    driver.handle(txn_commit("t", topics=[topic({0: 8})]))
    assert not list(driver.shard.view.expiring("g", 1 << 62))[1:], "0 does not expire"
    later(driver, 2 * hour_ms)
    assert driver.shard.view.offsets.keys("g") == [("t", 0)]
    driver.handle(OffsetDelete("d", "g", [("t", [0])]))
    driver.handle(txn_commit("t", topics=[topic({0: 8})]))
    later(driver, 2 * hour_ms)
    assert "g" in driver.shard.view.groups, "only something pending"
    driver.handle(end("e", committed=False))
    later(driver, 2 * hour_ms)
    assert "g" not in driver.shard.view.groups


def test_load_restores_pending_offsets_and_the_group_that_has_them() -> None:
    driver = Driver()
    driver.handle(txn_commit("t", topics=[topic({0: 8})]))
    again = Driver()
    fresh = type(again.shard)(again.config)
    for base_offset, run in driver.log:
        fresh.replay(run, base_offset)
    fresh.loaded(Now(0, 0))
    again.shard, again.log = fresh, driver.log
    assert list(fresh.view.groups) == ["g"]
    assert fetched(again, t=[0], stable=True) == {0: (-1, UNSTABLE_OFFSET_COMMIT)}
    again.handle(end("e", committed=True))
    assert fetched(again) == {0: (8, 0)}


# ----------------------------------------------------------------------------------------- bounds


def test_number_of_pending_offsets_per_transaction_is_bounded() -> None:
    """The event loop applies all pending offsets of a transaction without a break, so their number
    is bounded."""
    driver = Driver()
    half = PENDING_MAX // 2

    def committed(name: str, partitions: range, producer_id: int = 7) -> Any:
        offsets = dict.fromkeys(partitions, 5)
        call = txn_commit("c", topics=[topic(offsets, name)], producer_id=producer_id)
        return driver.answer(call)

    assert committed("t", range(half)) == CommitReply(NONE)
    assert committed("u", range(half)) == CommitReply(NONE)
    assert committed("u", range(half)) == CommitReply(NONE), "what is pending takes no more room"
    one_more = txn_commit("c", topics=[topic({half - 1: 5, half: 5}, "u")])
    outcome = driver.handle(one_more)
    assert outcome.replies == (("c", CommitReply(INVALID_COMMIT_OFFSET_SIZE)),)
    [event] = outcome.events
    assert isinstance(event, CommitRejected)
    assert "exceed 10000 pending offsets" in event.detail
    assert driver.shard.view.offsets.pending_count() == 2 * half

    assert committed("u", range(half, half + 1), producer_id=8) == CommitReply(NONE)
    driver.handle(end("marker", committed=True))
    assert committed("u", range(half, half + 1)) == CommitReply(NONE), "its next one"
