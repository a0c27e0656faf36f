"""Responses of the HTTP API about a consumer group (KIP-848). openapi.json describes the
responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.consumer.events import EpochCause
from protocol.messages.consumer_group_heartbeat import API as HEARTBEAT
from tests.broker.openapi import SCHEMAS
from tests.broker.seen import Seen, seeing

GROUP = "auditors"


async def beat(seen: Seen, member_id: str, epoch: int, **fields: Any) -> dict[str, Any]:
    """Sends a ConsumerGroupHeartbeat. Without ``fields``, the heartbeat reports no change."""
    unchanged: dict[str, Any] = {
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": None,
    }
    call = {**unchanged, "group_id": GROUP, "member_id": member_id, "member_epoch": epoch, **fields}
    answer: dict[str, Any] = await seen.client.call(HEARTBEAT.key, 1, **call)
    assert answer["error_code"] == 0, answer
    return answer


async def test_http_api_describes_a_consumer_group_that_waits_for_a_revocation(
    tmp_path: Path,
) -> None:
    joining = {
        "subscribed_topic_names": ["orders"],
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
    }
    settings = {"group.consumer.assignment.interval.ms": "0"}
    async with seeing(tmp_path, settings) as seen:
        await seen.client.commit("readers", 1)
        await beat(seen, "a", 0, **joining)
        await beat(seen, "b", 0, **joining)
        await beat(seen, "a", 2)
        found = (await seen.get(f"/api/groups/{GROUP}")).json()
        journal = (await seen.get(f"/api/groups/{GROUP}/journal")).json()
        rows = (await seen.get("/api/groups")).json()["groups"]
    assert (found["type"], found["state"]) == ("consumer", "Reconciling")
    assert found["awaits"]["phase"] == "revoke"
    giver, taker = found["members"]
    assert giver["reconciliation"]["state"] == "UNREVOKED"
    assert [each["member"] for each in taker["reconciliation"]["waits_for"]] == ["a"]
    assert journal["rebalances"][-1]["type"] == "consumer"
    assert {each["group"]: each["type"] for each in rows} == {
        "readers": "classic",
        GROUP: "consumer",
    }


@pytest.mark.parametrize("cause", EpochCause)
def test_each_cause_of_a_group_epoch_is_in_the_openapi_file(cause: EpochCause) -> None:
    assert cause.value in SCHEMAS["Rebalance"]["properties"]["cause"]["enum"]
