"""Responses of the HTTP API about a streams group (KIP-1071). openapi.json describes the
responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from protocol.messages.streams_group_heartbeat import API as HEARTBEAT
from tests.broker.seen import Seen, seeing
from tests.interop.streams_group_side import JOINING, heartbeat
from tests.interop.streams_topologies import subtopology, topology

GROUP = "counts"
SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.verdict.blocked.ms": "0",
    "group.verdict.not.ready.ms": "0",
}
READS_ORDERS = topology(subtopology("0", "orders"))
UNCHANGED: dict[str, Any] = {
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "topology": None,
    "active_tasks": None,
    "standby_tasks": None,
    "warmup_tasks": None,
    "process_id": None,
    "user_endpoint": None,
    "client_tags": None,
    "task_offsets": None,
    "task_end_offsets": None,
}


async def beat(seen: Seen, member_id: str, epoch: int, **fields: Any) -> dict[str, Any]:
    """Sends a StreamsGroupHeartbeat. Without ``fields``, the heartbeat reports no change."""
    call = {**UNCHANGED, **heartbeat(GROUP, member_id, epoch, **fields)}
    answer: dict[str, Any] = await seen.client.call(HEARTBEAT.key, 0, **call)
    assert answer["error_code"] == 0, answer
    return answer


async def test_http_api_shows_the_tasks_for_which_a_streams_member_waits(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        joining = {**JOINING, "topology": READS_ORDERS}
        await beat(seen, "a", 0, **joining)
        await beat(seen, "b", 0, **{**joining, "process_id": "p2"})
        await beat(seen, "a", 2)
        found = (await seen.get(f"/api/groups/{GROUP}")).json()
        journal = (await seen.get(f"/api/groups/{GROUP}/journal")).json()
    assert (found["type"], found["state"]) == ("streams", "Reconciling")
    assert [each["tasks"] for each in found["topology"]["subtopologies"]] == [3]
    assert (found["awaits"]["phase"], len(found["awaits"]["members"])) == ("revoke", 1)
    giver, taker = (each["tasks"] for each in found["members"])
    assert giver["assigned"]["active"] == ["0_0", "0_1"]
    assert giver["revoking"]["active"] == ["0_2"]
    assert taker["target"]["active"] == ["0_2"]
    assert taker["waits_for"] == [{"task": "0_2", "role": "active", "member": "a"}]
    assert found["members"][0]["partitions"] == {"orders": [0, 1]}
    assert found["verdict"] == "BLOCKED"
    assert "a rebalance has been waiting for a on 127.0.0.1" in found["sentence"]
    assert journal["rebalances"][-1]["moved"] == "0_2 from a to b"


async def test_http_api_shows_missing_topic_and_requested_shutdown_of_a_streams_group(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        missing = topology(subtopology("0", "absent"))
        await beat(seen, "a", 0, **{**JOINING, "topology": missing})
        await beat(seen, "a", 2, shutdown_application=True)
        found = (await seen.get(f"/api/groups/{GROUP}")).json()
        journal = (await seen.get(f"/api/groups/{GROUP}/journal")).json()
    assert found["state"] == "NotReady"
    assert found["topology"]["problem"]["topics"] == ["absent"]
    assert found["topology"]["shutdown_by"] == "a"
    assert found["verdict"] == "NOT_READY"
    assert "the source topic absent does not exist" in found["sentence"]
    assert [each["kind"] for each in journal["notes"]] == [
        "topology_not_ready",
        "shutdown_requested",
    ]


async def test_verdict_stays_not_ready_while_instances_restart_without_a_source_topic(
    tmp_path: Path,
) -> None:
    missing = {**JOINING, "topology": topology(subtopology("0", "absent"))}
    shown = []
    async with seeing(tmp_path, SETTINGS) as seen:
        for member_id in ("a", "b"):
            await beat(seen, member_id, 0, **missing)
            shown.append((await seen.get(f"/api/groups/{GROUP}")).json())
            await beat(seen, member_id, -1)
            shown.append((await seen.get(f"/api/groups/{GROUP}")).json())
        journal = (await seen.get(f"/api/groups/{GROUP}/journal")).json()
    assert [(each["state"], each["verdict"]) for each in shown] == [
        ("NotReady", "NOT_READY"),
        ("Empty", "NOT_READY"),
    ] * 2
    assert "the source topic absent does not exist" in shown[-1]["sentence"]
    [returned] = journal["returning"]
    assert "group.instance.id" not in returned["advice"]
