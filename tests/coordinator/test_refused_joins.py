"""Tests the journal entries about refused JoinGroup requests, and the conditions that end such an
entry."""

from __future__ import annotations

import pytest

from coordinator.events import JoinRefused, MemberJoined
from coordinator.group_journal import GroupJournal
from coordinator.journal import Journal
from coordinator.journal_entries import Rejections
from protocol.errors import (
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    UNSUPPORTED_VERSION,
)
from protocol.now import Now
from tests.coordinator.calls_for_tests import join
from tests.coordinator.test_journal import JournaledShard, measured

REFUSED = JoinRefused(
    "g", "", INCONSISTENT_GROUP_PROTOCOL, "app", "/10.0.0.7", "the client offers range"
)
JOINED = MemberJoined("g", "app-1", None, "app", "/10.0.0.7", None)


def kept_of(journal: Journal) -> GroupJournal:
    kept = journal.get("g")
    assert kept is not None
    return kept


def refusals(journal: Journal) -> list[Rejections]:
    return list(kept_of(journal).rejected)


@pytest.mark.parametrize(
    ("config", "call", "error_code", "why"),
    [
        (
            {},
            {"protocols": [("roundrobin", b"")]},
            INCONSISTENT_GROUP_PROTOCOL,
            "the client offers roundrobin; all members support range",
        ),
        (
            {},
            {"protocol_type": "connect"},
            INCONSISTENT_GROUP_PROTOCOL,
            "the client's protocol type is connect, but the group's is consumer",
        ),
        ({}, {"protocols": []}, INCONSISTENT_GROUP_PROTOCOL, "the client offers no protocol"),
        (
            {},
            {"session_timeout_ms": 100},
            INVALID_SESSION_TIMEOUT,
            "session.timeout.ms is 100, but the broker accepts 6000 to 1800000",
        ),
        (
            {"max_size": 1},
            {},
            GROUP_MAX_SIZE_REACHED,
            "the group is full: group.max.size is 1",
        ),
        (
            {"static_members": False},
            {"group_instance_id": "i-1"},
            UNSUPPORTED_VERSION,
            "the client has a group.instance.id,"
            " but the cluster does not support static members yet",
        ),
    ],
)
def test_refused_join_is_recorded_with_client_host_reason_and_count(
    config: dict[str, int], call: dict[str, object], error_code: int, why: str
) -> None:
    told = JournaledShard(**config)
    told.form("a")
    for number in range(3):
        told.handle(join(number, client_id="late", client_host="/10.0.0.9", **call))
    (kept,) = told.entry.rejected
    assert kept.key == (True, error_code, "late", "/10.0.0.9")
    assert (kept.count, kept.times, kept.since_ms) == (3, 3, told.now.wall_ms)
    assert kept.last is not None
    assert kept.last.detail == why


def test_join_that_gets_member_id_required_is_not_recorded_as_refused() -> None:
    told = JournaledShard()
    told.handle(join("first", member_id_required=True))
    assert told.journal.get("g") is None or not told.entry.rejected


def test_refused_join_of_an_unknown_group_is_recorded() -> None:
    told = JournaledShard()
    told.handle(join("first", session_timeout_ms=1))
    assert [each.count for each in told.entry.rejected] == [1]


def test_journal_entry_of_a_refused_join_ends_when_the_client_joins() -> None:
    journal = Journal()
    journal.observe(REFUSED, Now(0, 1000))
    journal.observe(JOINED, Now(0, 2000))
    (kept,) = refusals(journal)
    assert kept.is_over
    journal.observe(REFUSED, Now(0, 3000))
    (kept,) = refusals(journal)
    assert (kept.is_over, kept.since_ms, kept.times, kept.count) == (False, 3000, 1, 2)


def test_entry_about_refused_joins_stays_open_when_its_client_id_joins_from_another_host() -> None:
    journal = Journal()
    journal.observe(REFUSED, Now(0, 1000))
    journal.observe(MemberJoined("g", "app-1", None, "app", "/10.0.0.8", None), Now(0, 2000))
    assert [each.is_over for each in refusals(journal)] == [False]


def test_refused_join_long_after_the_previous_refused_join_starts_a_new_count() -> None:
    journal = Journal()
    for wall_ms in (0, 600_000, 1_200_001):
        journal.observe(REFUSED, Now(0, wall_ms))
    (kept,) = refusals(journal)
    assert (kept.since_ms, kept.times, kept.count) == (1_200_001, 1, 3)


def test_journal_drops_the_oldest_refused_clients_above_its_limit() -> None:
    journal = Journal()
    for number in range(1000):
        host = f"/10.1.{number // 256}.{number % 256}"
        event = JoinRefused(
            "g", "", INCONSISTENT_GROUP_PROTOCOL, "app", host, "the client offers range"
        )
        journal.observe(event, Now(0, number))
        journal.observe(REFUSED, Now(0, number))
    kept = refusals(journal)
    assert len(kept) == 128
    assert max(each.count for each in kept) == 1000
    assert journal.bytes == kept_of(journal).bytes


def test_refused_joins_of_all_groups_stay_within_the_size_bound() -> None:
    def build() -> Journal:
        journal = Journal(bytes_kept=1 << 20)
        for number in range(3000):
            client = f"{number}" + "c" * 32_000
            event = JoinRefused(
                f"group-{number % 300}", "", 23, client, "/h", "the client offers range"
            )
            journal.observe(event, Now(number, number))
        return journal

    _, taken = measured(build)
    assert taken < 2 << 20
