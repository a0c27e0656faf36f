"""Tests the errors of ShareFetch and ShareAcknowledge: sessions, acknowledgements, topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.errors import (
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
    SHARE_SESSION_NOT_FOUND,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.share_calls import (
    ACCEPT,
    RELEASE,
    RENEW,
    ShareMember,
    acquired,
    entries_of,
    entry_of,
)
from tests.broker.share_scene import Scene, on_scene
from tests.broker.topic_calls import create_topic

UNKNOWN = b"unknown topic id"


async def test_share_requests_with_a_wrong_session_or_invalid_fields_get_errors(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")

        def fetched(**fields: Any) -> int:
            request = member.request((0,), **fields)
            code: int = member.wire.call("ShareFetch", 2, request)["error_code"]
            return code

        def acknowledged(epoch: int) -> int:
            code: int = member.send_acknowledge((0, 0, [ACCEPT]), epoch=epoch)["error_code"]
            return code

        # without a session
        assert fetched(epoch=1) == SHARE_SESSION_NOT_FOUND
        assert fetched(epoch=-1) == SHARE_SESSION_NOT_FOUND
        assert acknowledged(1) == SHARE_SESSION_NOT_FOUND
        assert acknowledged(-1) == SHARE_SESSION_NOT_FOUND
        assert acknowledged(0) == INVALID_SHARE_SESSION_EPOCH
        # requests that no session has
        assert fetched(epoch=0, acknowledge=[(0, 0, [ACCEPT])]) == INVALID_REQUEST
        assert fetched(epoch=0, share_acquire_mode=2) == INVALID_REQUEST
        assert fetched(epoch=0, group_id=None) == INVALID_REQUEST
        assert fetched(epoch=0, member_id=None) == INVALID_REQUEST
        assert fetched(epoch=0, member_id="m" * 37) == INVALID_REQUEST
        # with a session
        member.open(max_wait_ms=0)
        assert fetched(epoch=3) == INVALID_SHARE_SESSION_EPOCH
        assert acknowledged(3) == INVALID_SHARE_SESSION_EPOCH
        assert acknowledged(0) == INVALID_SHARE_SESSION_EPOCH
        assert fetched(epoch=1, is_renew_ack=True) == INVALID_REQUEST
        # the session continues, and the epochs of both requests are counted together
        assert fetched(epoch=1) == NONE
        assert member.send_acknowledge(epoch=2)["error_code"] == NONE
        assert fetched(epoch=3) == NONE
        assert fetched(epoch=-1) == NONE
        assert fetched(epoch=-1) == SHARE_SESSION_NOT_FOUND

    await on_scene(tmp_path, work)


@pytest.mark.proves("share 3")
async def test_share_acknowledgement_with_an_error_changes_no_record(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for number in range(4):
            scene.produce(b"%d" % number)
        member, other = scene.member("m"), scene.member("other")
        assert acquired(member.open()) == [(0, 3, 1)]
        other.open(max_wait_ms=0)
        cases: list[tuple[int, list[tuple[int, int, list[int]]]]] = [
            (INVALID_REQUEST, [(1, 0, [ACCEPT])]),
            (INVALID_REQUEST, [(0, 0, [])]),
            (INVALID_REQUEST, [(0, 2, [ACCEPT, ACCEPT])]),
            (INVALID_REQUEST, [(0, 0, [5])]),
            (INVALID_REQUEST, [(0, 0, [-1])]),
            (INVALID_REQUEST, [(0, 0, [RENEW])]),
            (INVALID_REQUEST, [(2, 2, [ACCEPT]), (0, 0, [ACCEPT])]),
            (INVALID_REQUEST, [(0, 4, [ACCEPT])]),
        ]
        for code, batches in cases:
            assert member.acknowledge(*batches) == code, batches
        assert other.acknowledge((0, 0, [ACCEPT])) == INVALID_RECORD_STATE
        # nothing was applied: the member holds all records
        assert member.acknowledge((0, 3, [RELEASE])) == NONE
        assert member.acknowledge((0, 0, [ACCEPT])) == INVALID_RECORD_STATE
        assert acquired(other.fetch(max_wait_ms=5_000)) == [(0, 3, 2)]

    await on_scene(tmp_path, work)


async def test_share_fetch_returns_the_results_of_its_acknowledgements(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        for number in range(3):
            scene.produce(b"%d" % number)
        member = scene.member("m")
        assert acquired(member.open(max_records=2)) == [(0, 1, 1)]
        reply = member.fetch(acknowledge=[(0, 1, [ACCEPT])])
        assert acquired(reply) == [(2, 2, 1)]
        assert entry_of(reply)["acknowledge_error_code"] == NONE
        reply = member.fetch(acknowledge=[(0, 0, [ACCEPT]), (7, 7, [ACCEPT])])
        assert entry_of(reply)["acknowledge_error_code"] == INVALID_REQUEST
        # renewals fetch nothing
        scene.produce(b"3")
        limits = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)
        reply = member.fetch(acknowledge=[(2, 2, [RENEW])], is_renew_ack=True, **limits)
        entry = entry_of(reply)
        assert (entry["acknowledge_error_code"], entry["acquired_records"]) == (NONE, [])
        # the last request of a session acknowledges too
        reply = member.fetch(acknowledge=[(2, 2, [ACCEPT])], epoch=-1)
        assert entry_of(reply)["acknowledge_error_code"] == NONE
        assert acquired(scene.member("n").open()) == [(3, 3, 1)]

    await on_scene(tmp_path, work)


async def test_share_requests_for_unknown_or_uninitialized_partitions_get_errors(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        reply = member.open(0, 7, max_wait_ms=0)
        assert entries_of(reply)[7]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        unknown = ShareMember(member.wire, UNKNOWN, "unknown")
        assert entry_of(unknown.open())["error_code"] == UNKNOWN_TOPIC_ID
        assert unknown.acknowledge((0, 0, [ACCEPT])) == UNKNOWN_TOPIC_ID
        # a partition whose state was never initialized
        other = create_topic(scene.wire, "other")["topic_id"]
        without = ShareMember(member.wire, other, "without")
        assert entry_of(without.open())["error_code"] == UNKNOWN_SERVER_ERROR
        assert without.acknowledge((0, 0, [ACCEPT])) == UNKNOWN_TOPIC_OR_PARTITION

    await on_scene(tmp_path, work)


async def test_waiting_share_fetch_gets_session_not_found_when_its_session_ends(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        member.open(max_wait_ms=0)
        scene.send_waiting(member)
        scene.until_waiting()
        scene.in_loop(lambda: scene.broker.share_sessions.member_removed("g", "m"))
        assert scene.receive(member)["error_code"] == SHARE_SESSION_NOT_FOUND

    await on_scene(tmp_path, work)


async def test_waiting_share_fetch_reports_its_acknowledgements_when_its_session_ends(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 0, 1)]
        scene.send_waiting(member, acknowledge=[(0, 0, [ACCEPT])])
        scene.until_waiting()
        scene.in_loop(lambda: scene.broker.share_sessions.member_removed("g", "m"))
        reply = scene.receive(member)
        assert acquired(reply) == []
        assert entry_of(reply)["acknowledge_error_code"] == NONE
        assert member.fetch()["error_code"] == SHARE_SESSION_NOT_FOUND

    await on_scene(tmp_path, work)


async def test_waiting_share_fetch_is_answered_when_its_topic_is_deleted(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        member = scene.member("m")
        member.open(max_wait_ms=0)
        scene.send_waiting(member)
        scene.until_waiting()
        topics = [{"name": "t", "topic_id": bytes(16)}]
        scene.wire.call("DeleteTopics", 6, {"topics": topics, "timeout_ms": 5_000})
        assert entry_of(scene.receive(member))["error_code"] == UNKNOWN_TOPIC_ID
        assert entry_of(member.fetch())["error_code"] == UNKNOWN_TOPIC_ID

    await on_scene(tmp_path, work)
