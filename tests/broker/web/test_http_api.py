"""The HTTP API: the example and the documented fields of its page, and responses about a group with
real requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.calls import TopicOffsets, TxnOffsetCommit
from coordinator.classic.states import State
from coordinator.expiring import DAY_MS
from coordinator.journal_entries import Note
from protocol.consumer_protocol import encode_assignment, encode_subscription
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.leave_group import API as LEAVE_GROUP
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from protocol.messages.produce import API as PRODUCE
from protocol.messages.sync_group import API as SYNC_GROUP
from tests.broker.edge import Client, Taker, eventually
from tests.broker.openapi import PATHS, fields
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen, seeing
from tests.wire import batch

GROUP = "auditors"


class Member:
    """A group member whose requests the test sends one by one."""

    def __init__(self, seen: Seen, group: str = GROUP, session_ms: int = 10_000) -> None:
        self.seen = seen
        self.group = group
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.client: Client
        """A connection of this member only, because a parked JoinGroup delays later requests of its
        connection."""

    def send_join(self, topics: list[str], reason: str | None = None) -> Any:
        return self.client.send(
            JOIN_GROUP.key,
            9,
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": encode_subscription(topics)}],
            reason=reason,
        )

    async def take_id(self) -> None:
        """Connects and sends the first JoinGroup. Its response contains the member id."""
        self.client = await Client.connect(self.seen.broker.sockets.addresses()[0][1])
        reply = await self.client.receive(self.send_join(["orders"]))
        self.member_id = reply["member_id"]

    async def lead(self, handle: Any, given: dict[str, dict[str, list[int]]]) -> None:
        """Receives the response to a JoinGroup as the group leader, and sends SyncGroup with the
        assignments ``given``."""
        joined = await self.client.receive(handle)
        assert joined["error_code"] == 0, joined
        self.generation = joined["generation_id"]
        synced = await self.client.call(
            SYNC_GROUP.key,
            5,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                {"member_id": name, "assignment": encode_assignment(partitions)}
                for name, partitions in given.items()
            ],
        )
        assert synced["error_code"] == 0, synced

    async def alone(self, *topics: str) -> Member:
        """Forms a Stable group whose only member owns all partitions of ``orders``."""
        await self.take_id()
        handle = self.send_join(list(topics) or ["orders"])
        await self.lead(handle, {self.member_id: {"orders": [0, 1, 2]}})
        return self

    async def heartbeat(self) -> int:
        reply = await self.client.call(
            HEARTBEAT.key,
            4,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
        )
        code: int = reply["error_code"]
        return code

    async def leave(self, reason: str = "") -> None:
        member = {"member_id": self.member_id, "group_instance_id": None, "reason": reason}
        await self.client.call(LEAVE_GROUP.key, 5, group_id=self.group, members=[member])


def state_of(seen: Seen) -> State:
    shard = seen.broker.groups.hosted_for(GROUP).core
    return shard.view.groups[GROUP].state


async def got(seen: Seen, path: str) -> Any:
    answer = await seen.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def story_of_the_page(seen: Seen) -> tuple[Any, Any]:
    """Returns the two example responses of the documentation page: the group, and its journal after
    the session of its member has expired.

    The broker computes verdicts only for these two requests, so that the verdicts are the same in
    each run.
    """
    await seen.broker.verdicts.stop()
    data = batch(*[b"v"] * 5)
    topic = {"name": "orders", "partition_data": [{"index": 0, "records": data}]}
    await seen.client.call(PRODUCE.key, 9, acks=-1, timeout_ms=1000, topic_data=[topic])
    member = await Member(seen).alone()
    mine = {"member_id": member.member_id, "generation_id": member.generation}
    assert await seen.client.commit(GROUP, 2, partitions=1, **mine) == 0
    seen.pass_ms(4000)
    group = await got(seen, f"/api/groups/{GROUP}")
    await seen.broker.lags.times.settled()
    seen.pass_ms(6000)
    journal = await got(seen, f"/api/groups/{GROUP}/journal?last=1")
    text = (
        json.dumps([group, journal]).replace(member.member_id, "app-1").replace('"tester"', '"app"')
    )
    renamed_group, renamed_journal = json.loads(text)
    return renamed_group, renamed_journal


async def test_example_of_the_http_api_page_equals_the_response(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        group, journal = await story_of_the_page(seen)
    shown = [
        PATHS[path]["get"]["responses"]["200"]["content"]["application/json"]["example"]
        for path in ("/api/groups/{group}", "/api/groups/{group}/journal")
    ]
    assert shown == [group, journal]


async def test_http_api_page_has_every_field_of_group_responses(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        member = await Member(seen).alone()
        for offset in (9, 3):
            mine = {"member_id": member.member_id, "generation_id": member.generation}
            await seen.client.commit(GROUP, offset, **mine)
        await seen.client.commit(GROUP, 1)
        await seen.client.commit("readers", 1)
        summary = await got(seen, "/api/groups")
        outside = await got(seen, "/api/groups/readers")
        # The group has only this member, so its join phase ends immediately.
        waiting = member.send_join(["orders", "u"])
        await member.lead(waiting, {})
        for topics in (["orders"], ["u"]):
            await member.lead(member.send_join(topics), {member.member_id: {"u": [0]}})
        topics = [TopicOffsets("orders", [0, 1], [7, 7], [-1, -1], None, None)]
        call = TxnOffsetCommit(Taker(print), GROUP, 4001, 2, -1, "", None, topics)
        seen.broker.groups.submit(GROUP, call)
        newcomer = Member(seen)
        await newcomer.take_id()
        group = await got(seen, f"/api/groups/{GROUP}")
        newcomer.send_join(["orders"])
        await eventually(lambda: state_of(seen) is State.PREPARING_REBALANCE)
        preparing = await got(seen, f"/api/groups/{GROUP}")
        await came_back(seen)
        returning = await got(seen, "/api/groups/returns/journal")
        gone = await Member(seen, "lossy").alone()
        await gone.leave()
        await seen.client.commit("lossy", 1)
        await seen.client.commit("lossy", 9)
        losses = (await got(seen, "/api/groups/lossy/journal"))["losses"]
        entry = seen.broker.keeper.journal.get(GROUP)
        assert entry is not None
        entry.add_note(Note(1, "deleted", "text"))
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
        week = 7 * DAY_MS
        expiring = await got(seen, f"/api/offsets/expiring?within_ms={week}&group=readers")
        clients = await got(seen, "/api/clients")
    assigned = [each for each in journal["rebalances"] if each["assigned"]]
    seen_fields = {
        "GroupSummary": summary["groups"][0],
        "Group": group,
        "Finding": outside["findings"][0],
        "PendingOffsets": group["pending_offsets"][0],
        "Awaits": preparing["awaits"],
        "AwaitedMember": preparing["awaits"]["members"][0],
        "Member": group["members"][0],
        "Offset": group["offsets"][0],
        "Journal": journal,
        "Rebalance": journal["rebalances"][-1],
        "MemberChange": journal["rebalances"][-1]["changes"][0],
        "Assigned": assigned[0]["assigned"][0],
        "Note": journal["notes"][0],
        "Rejected": journal["rejected_commits"][0],
        "MovedBack": journal["moved_back"]["last"][0],
        "Loss": losses["last"][0],
        "Flapping": group["flapping"][0],
        "RestartedClient": returning["returning"][0],
        "SameClient": returning["rebalances"][-1]["changes"][0]["same_client"],
        "ExpiringOffset": expiring["offsets"][0],
        "Client": clients["clients"][0],
    }
    whose = "2 offsets are pending in the transaction of producer 4001"
    assert group["pending_offsets"][0]["sentence"] == whose
    assert {name: set(value) for name, value in seen_fields.items()} == {
        name: fields(name) for name in seen_fields
    }


async def came_back(seen: Seen) -> tuple[str, str]:
    """Lets a client leave the group and join again. Returns the member ids before and after."""
    before = await Member(seen, "returns").alone()
    await before.leave()
    seen.pass_ms(3200)
    after = await Member(seen, "returns").alone()
    return before.member_id, after.member_id


async def test_http_journal_shows_a_rejoin_with_a_new_member_id_and_gives_advice(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        before, after = await came_back(seen)
        journal = await got(seen, "/api/groups/returns/journal")
    (change,) = journal["rebalances"][-1]["changes"]
    assert (change["member"], change["same_client"]["member"]) == (after, before)
    assert change["same_client"]["words"] == (
        f"the same client rejoined with a new member id, 3.2 s after {before} had left"
    )
    (returning,) = journal["returning"]
    assert (returning["client"], returning["times"], returning["away_ms"]) == ("tester", 1, 3200)
    assert "group.instance.id" in returning["advice"]


async def test_journal_of_a_group_has_the_generations_before_a_restart_of_the_broker(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        member = await Member(seen).alone()
        await member.lead(member.send_join(["orders"]), {})
    async with seeing(tmp_path) as seen:
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
    restored = journal["restored"]
    assert [each["generation"] for each in restored["generations"]] == [1, 2]
    assert restored["generations"][-1]["leader"] == member.member_id
    assert set(restored) == fields("Restored")
    assert set(restored["generations"][0]) == fields("Generation")
    known = [(each["generation"], each["source"]) for each in journal["rebalances"]]
    assert known == [(1, "kept"), (2, "kept")]


async def test_group_in_preparing_rebalance_lists_awaited_members_and_deadline(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        member = await Member(seen).alone()
        newcomer = Member(seen)
        await newcomer.take_id()
        newcomer.send_join(["orders"])
        await eventually(lambda: state_of(seen) is State.PREPARING_REBALANCE)
        await member.heartbeat()
        seen.pass_ms(3400)
        await member.heartbeat()
        seen.pass_ms(1600)
        group = await got(seen, f"/api/groups/{GROUP}")
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
    assert group["state"] == "PreparingRebalance"
    assert group["awaits"]["phase"] == "join"
    assert [each["member"] for each in group["awaits"]["members"]] == [member.member_id]
    assert group["awaits"]["remaining_ms"] == 55_000
    now_ms = seen.time.wall_ms
    assert group["awaits"]["deadline_ms"] == group["awaits"]["ends_ms"] == now_ms + 55_000
    waits = {each["member"]: each["waits_with"] for each in group["members"]}
    assert waits == {member.member_id: None, newcomer.member_id: "JoinGroup"}
    last = journal["rebalances"][-1]
    assert last["phase"] == "join"
    assert [each["member"] for each in last["awaited"]] == [member.member_id]
    assert last["until_ms"] == now_ms + 55_000
    for (awaited,) in (group["awaits"]["members"], last["awaited"]):
        assert (awaited["sign"], awaited["last_heard_ms"]) == ("heartbeats", now_ms - 1600)
        assert (
            awaited["words"] == "the member still heartbeats (last 1.6 s ago) but does not rejoin"
        )


async def test_shown_end_of_a_join_phase_is_the_last_session_expiry_of_the_awaited_members(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await Member(seen).alone()
        newcomer = Member(seen, session_ms=30_000)
        await newcomer.take_id()
        newcomer.send_join(["orders"])
        await eventually(lambda: state_of(seen) is State.PREPARING_REBALANCE)
        seen.pass_ms(4000)
        group = await got(seen, f"/api/groups/{GROUP}")
        rows = (await got(seen, "/api/groups"))["groups"]
    now_ms = seen.time.wall_ms
    assert group["awaits"]["deadline_ms"] == now_ms + 56_000
    assert group["awaits"]["ends_ms"] == now_ms + 6000
    assert [each["last_cause"] for each in rows] == ["member_joined"]


async def test_findings_of_a_group_list_the_affected_partitions(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        for partition, count in ((0, 50), (1, 5), (2, 9)):
            values = [b"v"] * count
            there = partition_of(seen.broker, "orders", partition)
            there.append(batch(*values), seen.time.wall_ms)
        member = await Member(seen).alone()
        mine = {"member_id": member.member_id, "generation_id": member.generation}
        await seen.client.commit(GROUP, 10, partitions=2, **mine)
        partition_of(seen.broker, "orders").log.delete_records(40)
        group = await got(seen, f"/api/groups/{GROUP}")
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
        [summary] = (await got(seen, "/api/groups"))["groups"]

    shown = [
        (each["offset"], each["lag"], each["lost_records"], each["verdict"])
        for each in group["offsets"]
    ]
    assert shown == [
        (10, 10, 30, "OUT_OF_RANGE"),
        (10, -5, 0, "OUT_OF_RANGE"),
        (None, None, 0, "OK"),
    ]
    assert group["lag"] == summary["lag"] == 10, "no sum subtracts"
    first, second = group["findings"]
    assert (first["topic"], first["partition"], second["partition"]) == ("orders", 0, 1)
    assert first["member"] == member.member_id
    assert first["command"] == f"muster groups reset {GROUP} --topic orders:0 --to-earliest"
    for view in (group, summary):
        assert (view["verdict"], view["sentence"]) == ("OUT_OF_RANGE", first["sentence"])
    assert journal["findings"][:2] == group["findings"]
    assert (group["more_findings"], journal["more_findings"]) == (0, 0)


async def test_lag_over_http_is_unknown_when_the_group_has_no_committed_offsets(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        partition_of(seen.broker, "orders").append(batch(b"v"), seen.time.wall_ms)
        member = await Member(seen).alone()
        before = [
            await got(seen, f"/api/groups/{GROUP}"),
            *(await got(seen, "/api/groups"))["groups"],
        ]
        gone = await Member(seen, "gone").alone()
        await gone.leave()
        empty = await got(seen, "/api/groups/gone")
        mine = {"member_id": member.member_id, "generation_id": member.generation}
        await seen.client.commit(GROUP, 1, **mine)
        after = [
            await got(seen, f"/api/groups/{GROUP}"),
            *(await got(seen, "/api/groups"))["groups"][:1],
        ]

    assert [each["lag"] for each in before] == [None, None]
    assert (empty["state"], empty["lag"]) == ("Empty", None)
    assert [each["lag"] for each in after] == [0, 0]


async def test_group_findings_above_32_are_counted_but_not_listed(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.broker.topics.create("wide", 40, {})
        await seen.client.commit(GROUP, 10, topic="wide", partitions=40)
        group = await got(seen, f"/api/groups/{GROUP}")

    assert (len(group["findings"]), group["more_findings"]) == (32, 8)
    assert {each["verdict"] for each in group["offsets"]} == {"OUT_OF_RANGE"}


async def test_large_http_responses_are_built_in_slices(tmp_path: Path) -> None:
    """In one slice, the response about a group with offsets of 5,000 partitions blocked the event
    loop for 37 ms."""
    async with seeing(tmp_path) as seen:
        await seen.broker.topics.create("wide", 40, {})
        await seen.client.commit(GROUP, 10, topic="wide", partitions=40)
        await Member(seen, "alone").alone()
        seen.broker.slicer.slice_ns = -1
        for path, lists in {
            f"/api/groups/{GROUP}": {"members": 0, "offsets": 40},
            "/api/groups/alone": {"members": 1, "offsets": 3},
            "/api/groups/alone/journal": {"rebalances": 1},
            "/api/topics/wide": {"partition_list": 40, "groups": 1},
        }.items():
            answer, pauses = await asked_in_slices(seen, path)
            assert {name: len(answer[name]) for name in lists} == lists, path
            assert pauses >= sum(lists.values()), path


async def asked_in_slices(seen: Seen, path: str) -> tuple[Any, int]:
    """Returns the response, and how often the broker yielded to the event loop while it built the
    rows."""
    slicer = seen.broker.slicer
    turn, pauses = slicer.turn, 0

    async def counted() -> None:
        nonlocal pauses
        pauses += 1
        await turn()

    slicer.turn = counted
    try:
        return await got(seen, path), pauses
    finally:
        slicer.turn = turn


async def test_percent_encoded_slash_in_a_group_id_does_not_split_the_path(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("a/journal", 1)
        await seen.client.commit("ö %2F?", 2)
        await seen.client.commit("two\nlines", 2)
        assert (await got(seen, "/api/groups/two%0Alines/journal"))["group"] == "two\nlines"
        assert (await got(seen, "/api/groups/a%2Fjournal"))["group"] == "a/journal"
        assert (await got(seen, "/api/groups/a%2Fjournal/journal"))["group"] == "a/journal"
        found = await got(seen, "/api/groups/%C3%B6%20%252F%3F")
        assert found["offsets"][0]["offset"] == 2
        assert (await seen.get("/api/groups/a/journal")).status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/groups/nobody", 404),
        ("/api/groups/nobody/journal", 404),
        ("/api/groups/", 404),
        ("/api/groups/a/b/c", 404),
        ("/api/groups/auditors/journal?last=x", 400),
        ("/api/offsets/expiring?within_ms=soon", 400),
    ],
)
async def test_http_error_response_has_a_message(tmp_path: Path, path: str, status: int) -> None:
    async with seeing(tmp_path) as seen:
        answer = await seen.get(path)
    assert answer.status_code == status
    assert len(answer.json()["error"]) > 10


async def test_journal_of_a_deleted_group_is_available(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await (await Member(seen).alone()).leave("done for today")
        await seen.client.call(DELETE_GROUPS.key, 2, groups_names=[GROUP])
        assert (await seen.get(f"/api/groups/{GROUP}")).status_code == 404
        journal = await got(seen, f"/api/groups/{GROUP}/journal")
    assert journal["state"] is None
    assert journal["rebalances"][-1]["why"].endswith(" from 127.0.0.1 left: done for today")
    assert journal["rebalances"][-1]["outcome"] == "nobody left"
    assert "group_removed" in [note["kind"] for note in journal["notes"]]


async def test_journal_lists_a_commit_to_a_lower_offset_with_its_client(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("readers", 40)
        await seen.client.commit("readers", 7)
        journal = await got(seen, "/api/groups/readers/journal")
        scrape = await seen.scrape()
    (moved,) = journal["moved_back"]["last"]
    assert moved["host"] == "127.0.0.1"
    assert moved["client"]
    assert moved["examples"] == [{"topic": "orders", "partition": 0, "from": 40, "to": 7}]
    assert scrape["muster_commits_moved_back_total"] == 1


# ----------------------------------------------------------------------------- expiring offsets

CHECKS = {
    "offsets.retention.minutes": 3 * 24 * 60,
    "offsets.retention.check.interval.ms": 600_000,
}


def check(seen: Seen, after_ms: int) -> None:
    """Advances the time, and runs the expiry check until it has covered every group."""
    seen.pass_ms(after_ms)
    for _ in range(3):
        seen.pass_ms(0)


async def test_expiring_offsets_are_in_api_metrics_and_journal_before_expiry(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, CHECKS) as seen:
        await seen.client.commit("readers", 5)
        committed_ms = seen.time.wall_ms
        assert (await got(seen, "/api/offsets/expiring"))["offsets"] == []
        check(seen, DAY_MS)
        assert (await seen.scrape())["muster_offsets_expiring", "within=1d"] == 0

        check(seen, DAY_MS + 60_000)
        listed = (await got(seen, "/api/offsets/expiring"))["offsets"]
        scrape = await seen.scrape()
        assert scrape["muster_offsets_expiring", "within=1d"] == 1
        assert scrape["muster_offsets_expiring", "within=1h"] == 0
        (row,) = listed
        assert (row["group"], row["topic"], row["partition"], row["offset"]) == (
            "readers", "orders", 0, 5,
        )  # fmt: skip
        assert row["expires_ms"] == committed_ms + 3 * DAY_MS
        assert row["expires_in_ms"] == DAY_MS - 60_000
        assert "no new commits" in row["why"]

        check(seen, DAY_MS - 1_800_000)
        assert (await seen.scrape())["muster_offsets_expiring", "within=1h"] == 1
        check(seen, 3_600_000)
        assert await seen.client.fetch("readers") == -1
        scrape = await seen.scrape()
        assert scrape["muster_offsets_expiring", "within=1d"] == 0
        journal = await got(seen, "/api/groups/readers/journal")
    told = [(note["kind"], note["text"]) for note in journal["notes"]]
    assert [kind for kind, _ in told] == [
        "offsets_expiring", "offsets_expiring", "offsets_dropped", "expired", "group_removed",
    ]  # fmt: skip
    assert told[0][1].startswith("1 offset will expire within 24 h")
    assert told[1][1].startswith("1 offset will expire within 1 h")


async def test_expiring_offsets_are_filtered_by_group_and_time(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, CHECKS) as seen:
        await seen.client.commit("one", 1)
        seen.pass_ms(1000)
        await seen.client.commit("two", 2)
        await (await Member(seen, "three").alone()).heartbeat()
        await seen.client.commit("three", 3)
        everything = 3 * DAY_MS
        path = f"/api/offsets/expiring?within_ms={everything}"
        assert {row["group"] for row in (await got(seen, path))["offsets"]} == {"one", "two"}
        only = await got(seen, f"{path}&group=two")
        assert {row["group"] for row in only["offsets"]} == {"two"}
        nearer = await got(seen, f"/api/offsets/expiring?within_ms={everything - 1000}")
        assert {row["group"] for row in nearer["offsets"]} == {"one"}


@pytest.mark.parametrize("counts", [True, False])
async def test_offset_fetch_delays_expiry_only_when_fetches_count_as_activity(
    tmp_path: Path, counts: bool
) -> None:
    settings = {**CHECKS, "group.offsets.fetch.counts.as.activity": str(counts).lower()}
    async with seeing(tmp_path, settings) as seen:
        await seen.client.commit("readers", 5)
        for _ in range(4):
            check(seen, DAY_MS)
            expected = 5 if counts or _ < 2 else -1
            assert await seen.client.fetch("readers") == expected


async def test_offset_fetch_after_a_restart_delays_expiry_when_fetches_count_as_activity(
    tmp_path: Path,
) -> None:
    settings = {**CHECKS, "group.offsets.fetch.counts.as.activity": "true"}
    async with seeing(tmp_path, settings) as seen:
        await seen.client.commit("readers", 5)
    async with seeing(tmp_path, settings) as seen:
        seen.time.wall_ms += 2 * DAY_MS
        start_ms = seen.time.wall_ms
        shard = seen.broker.groups.hosted_for("readers").core
        (row,) = shard.view.expiring("readers", start_ms + 9 * DAY_MS)
        assert row.expires_ms == start_ms - 2 * DAY_MS + 3 * DAY_MS
        check(seen, DAY_MS - 1000)
        reply = await seen.client.call(
            OFFSET_FETCH.key,
            7,
            group_id="readers",
            topics=None,
            require_stable=False,
        )
        assert reply["topics"][0]["partitions"][0]["committed_offset"] == 5
        (row,) = shard.view.expiring("readers", start_ms + 9 * DAY_MS)
        assert row.expires_ms == seen.time.wall_ms + 3 * DAY_MS
