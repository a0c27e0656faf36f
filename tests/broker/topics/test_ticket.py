"""The delivery of many replies in slices."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cores import runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.internal_errors import InternalErrors
from broker.topics import partition, ticket
from broker.topics.ticket import deliver_all
from coordinator.config import GroupConfig
from protocol.errors import NONE
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.sync_group import API as SYNC_GROUP
from tests.broker.edge import EdgeBroker

GROUP = "group-a"


class Taken:
    """A ticket that stores its reply in a list."""

    def __init__(self, into: list[int]) -> None:
        self._into = into

    def take(self, reply: int) -> None:
        if reply == 1:
            raise ValueError("a ticket with a bug")
        self._into.append(reply)


async def test_event_loop_does_other_work_between_the_slices_of_many_replies() -> None:
    taken: list[int] = []
    errors = InternalErrors()
    lengths = []

    with capture_logs():
        deliver_all([(Taken(taken), number) for number in range(450)], errors)
    while len(taken) < 449:
        lengths.append(len(taken))
        await asyncio.sleep(0)

    assert lengths == [199, 399], "one reply of the first 200 failed"
    assert taken == [0, *range(2, 450)]
    assert errors.counts["reply"] == 1


async def test_all_members_get_replies_when_the_replies_of_a_rebalance_need_several_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (runtime, partition, ticket):
        monkeypatch.setattr(module, "REPLIES_AT_ONCE", 2)
    settings = RuntimeSettings(GroupConfig(initial_rebalance_delay_ms=300))
    async with EdgeBroker(tmp_path, settings=settings, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        clients = [await broker.client() for _ in range(7)]
        joins = [
            each.send(
                JOIN_GROUP.key, 3, group_id=GROUP, session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000, member_id="", protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
            for each in clients
        ]  # fmt: skip
        joined = [await each.receive(handle) for each, handle in zip(clients, joins, strict=True)]
        members = [each["member_id"] for each in joined]
        assignments: list[dict[str, Any]] = [
            {"member_id": each, "assignment": each.encode()} for each in members
        ]
        syncs = [
            each.send(
                SYNC_GROUP.key, 1, group_id=GROUP, generation_id=reply["generation_id"],
                member_id=reply["member_id"],
                assignments=assignments if reply["leader"] == reply["member_id"] else [],
            )
            for each, reply in zip(clients, joined, strict=True)
        ]  # fmt: skip
        replies = [await each.receive(handle) for each, handle in zip(clients, syncs, strict=True)]

    assert [each["error_code"] for each in (*joined, *replies)] == [NONE] * 14
    assert [each["assignment"] for each in replies] == [each.encode() for each in members]
