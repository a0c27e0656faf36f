"""Responses of the HTTP API about a share group (KIP-932). openapi.json describes the responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.web.views import share as views
from protocol.messages.alter_share_group_offsets import API as ALTER
from protocol.messages.delete_groups import API as DELETE_GROUPS
from tests.broker.edge import eventually
from tests.broker.seen import Seen, seeing
from tests.broker.share_calls import ACCEPT, REJECT, RELEASE
from tests.broker.share_stories import (
    PAYMENTS,
    SETTINGS,
    a_poisonous_record,
    drop_from_memory,
    pass_locks,
    two_sharers,
)
from tests.broker.stories import produce
from tests.broker.web.rights import DESCRIBE, GROUP, TOPIC, securely

PATH = f"/api/share/{PAYMENTS}"
ONE = f"{PATH}?topic=orders&partition=0"


async def got(seen: Seen, path: str) -> Any:
    answer = await seen.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def first(seen: Seen, path: str = ONE) -> Any:
    [row] = (await got(seen, path))["partitions"]
    return row


async def test_share_api_has_the_acquiring_members_and_the_counts_of_records_in_flight(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, two = await two_sharers(seen, 5)
        assert await one.fetch(2) == [(0, 1, 1)]
        seen.pass_ms(4_000)
        assert await two.fetch(1) == [(2, 2, 1)]
        await one.acknowledge((1, 1, [ACCEPT]))
        view = await got(seen, PATH)
        now_ms = seen.time.wall_ms
    assert (view["state"], view["delivery_count_limit"], view["lock_duration_ms"]) == (
        "Stable",
        5,
        30_000,
    )
    assert [each["client"] for each in view["members"]] == ["payments-1", "payments-2"]
    row, other, _ = view["partitions"]
    assert (row["start_offset"], row["next_offset"], row["log_end_offset"]) == (0, 3, 5)
    assert row["records"] == {"available": 0, "acquired": 2, "acknowledged": 1, "archived": 0}
    assert row["unread"] == 2
    holder = {"member": "payments-1-aaaa", "client": "payments-1", "host": "10.0.0.7"}
    assert row["in_flight"][0] == {
        "first_offset": 0,
        "last_offset": 0,
        "state": "acquired",
        "deliveries": 1,
        **holder,
        "since_ms": now_ms - 4_000,
        "until_ms": now_ms + 26_000,
        "pending": False,
    }
    assert [each["state"] for each in row["in_flight"][1:]] == ["acknowledged", "acquired"]
    assert (other["loaded"], other["start_offset"], other["histories"]) == (False, 0, [])


async def test_share_api_lists_each_of_the_five_deliveries_of_a_record(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        await a_poisonous_record(seen)
        row = await first(seen)
    poisonous, rejected = row["histories"]
    assert (poisonous["first_offset"], poisonous["deliveries"]) == (0, 5)
    assert (poisonous["state"], poisonous["archived_because"]) == ("archived", views.TOO_MANY)
    assert [(each["client"], each["outcome"]) for each in poisonous["outcomes"]] == [
        ("payments-1", "lock expired"),
        ("payments-2", "released"),
        ("payments-2", "lock expired"),
        ("payments-1", "lock expired"),
        ("payments-2", "lock expired"),
    ]
    held = [each["at_ms"] - each["since_ms"] for each in poisonous["outcomes"]]
    assert held == [30_000, 1_000, 30_000, 30_000, 30_000]
    assert (rejected["first_offset"], rejected["archived_because"]) == (1, "rejected")
    assert row["start_offset"] == row["next_offset"] == 3


async def test_share_api_names_former_members_from_the_journal(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen)
        assert await one.fetch(1) == [(0, 0, 1)]
        await pass_locks(seen)
        await one.heartbeat(-1)
        view = await got(seen, PATH)
    assert [each["client"] for each in view["members"]] == ["payments-2"]
    [history] = view["partitions"][0]["histories"]
    assert history["outcomes"][0]["client"] == "payments-1"


async def test_share_api_with_an_offset_returns_only_range_and_history_of_that_offset(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, two = await two_sharers(seen, 5)
        assert await one.fetch(4) == [(0, 3, 1)]
        await one.acknowledge((0, 3, [RELEASE]))
        assert await two.fetch(1) == [(0, 0, 2)]
        row = await first(seen, f"{ONE}&offset=0")
        assert [each["state"] for each in row["in_flight"]] == ["acquired"]
        [history] = row["histories"]
        assert (history["last_offset"], history["deliveries"], history["state"]) == (
            0,
            2,
            "acquired",
        )
        row = await first(seen, f"{ONE}&offset=2")
        [history] = row["histories"]
        assert (history["first_offset"], history["last_offset"], history["state"]) == (
            2,
            2,
            "available",
        )
        assert (await first(seen, f"{ONE}&offset=4"))["in_flight"] == []


async def test_share_api_shows_stored_state_of_a_share_partition_that_is_not_loaded(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen)
        assert await one.fetch(3) == [(0, 2, 1)]
        await one.acknowledge((1, 1, [ACCEPT]))
        drop_from_memory(seen)
        row = await first(seen)
    assert (row["loaded"], row["known_since_ms"], row["start_offset"]) == (False, None, 0)
    assert row["records"]["acknowledged"] == 1


async def test_share_api_lists_archived_records_after_a_restart(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        await a_poisonous_record(seen)
        before = (await first(seen))["histories"]
        now_ms = seen.time.wall_ms
    async with seeing(tmp_path, SETTINGS) as seen:
        seen.pass_ms(now_ms - seen.time.wall_ms + 60_000)
        await eventually(
            lambda: not (seen.broker.groups.life.loading or seen.broker.share_states.life.loading)
        )
        row = await first(seen)
        one = await first(seen, f"{ONE}&offset=1")
    assert row["loaded"] is False
    kept = [{**each, "outcomes": each["outcomes"][-1:]} for each in before]
    assert row["histories"] == kept
    assert row["histories"][0]["archived_because"] == "too many deliveries"
    [last] = row["histories"][0]["outcomes"]
    assert (last["client"], last["host"], last["delivery"], last["outcome"]) == (
        "payments-2",
        "10.0.0.8",
        5,
        "lock expired",
    )
    assert [each["archived_because"] for each in one["histories"]] == ["rejected"]


async def test_share_api_omits_records_archived_before_a_reset_of_the_start_offset(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        sharers = await a_poisonous_record(seen)
        for each in sharers:
            await each.heartbeat(-1)
        partitions = [{"partition_index": 0, "start_offset": 0}]
        topics = [{"topic_name": "orders", "partitions": partitions}]
        await seen.client.call(ALTER.key, 0, group_id=PAYMENTS, topics=topics)
        row = await first(seen)
    assert (row["start_offset"], row["histories"]) == (0, [])


async def test_deleted_share_group_leaves_no_share_partition_in_memory(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        sharers = await two_sharers(seen)
        assert await sharers[0].fetch(1) == [(0, 0, 1)]
        assert len(seen.broker.share_partitions) == 1
        for each in sharers:
            await each.heartbeat(-1)
        reply = await seen.client.call(DELETE_GROUPS.key, 2, groups_names=[PAYMENTS])
        assert [each["error_code"] for each in reply["results"]] == [0]
        assert len(seen.broker.share_partitions) == 0


async def test_share_api_shows_the_offset_range_deleted_by_delete_records(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen)
        assert await one.fetch(1) == [(0, 0, 1)]
        await produce(seen, 2)
        partition = seen.broker.logs.get("orders", 0)
        assert partition is not None
        partition.delete_records(2)
        await one.acknowledge()
        assert await one.fetch(1) == [(2, 2, 1)]
        row = await first(seen)
    assert row["deleted"] == {"first_offset": 0, "last_offset": 1}


async def test_lists_of_the_share_api_are_bounded_and_count_the_omitted_entries(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, two = await two_sharers(seen, 300)
        assert await one.fetch(300) == [(0, 299, 1)]
        await one.acknowledge((0, 299, [RELEASE, ACCEPT] * 150))
        assert len(await two.fetch(100)) == 100
        row = await first(seen)
    assert len(row["in_flight"]) == views.RANGES_SHOWN
    assert row["more_in_flight"] == 300 - views.RANGES_SHOWN
    assert len(row["histories"]) == views.HISTORIES_SHOWN
    assert row["more_histories"] == 128 - views.HISTORIES_SHOWN


async def test_share_api_refuses_groups_of_other_types_and_invalid_parameters(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        await seen.client.commit("auditors", 0)
        answer = await seen.get("/api/share/auditors")
        assert answer.status_code == 404
        assert "is a classic group, not a share group" in answer.json()["error"]
        assert (await seen.get("/api/share/none")).status_code == 404
        for query in ("partition=0", "topic=orders&partition=x", "topic=orders&offset=1"):
            assert (await seen.get(f"{PATH}?{query}")).status_code == 400


async def test_leader_lists_share_partitions_without_client_ids_when_it_is_not_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen, 5)
        assert await one.fetch(2) == [(0, 1, 1)]
        monkeypatch.setattr(seen.broker.groups, "hosted_for", lambda _: None)
        view = await got(seen, f"{PATH}/partitions?topic=orders")
        assert view["group"] == PAYMENTS
        assert [(row["partition"], row["loaded"]) for row in view["partitions"]] == [
            (0, True),
            (1, False),
            (2, False),
        ]
        [held] = view["partitions"][0]["in_flight"]
        assert (held["member"], held["client"], held["last_offset"]) == ("payments-1-aaaa", None, 1)
        row = await first(seen, f"{PATH}/partitions?topic=orders&partition=0&offset=4")
        assert (row["in_flight"], row["log_end_offset"]) == ([], 5)
        assert (await got(seen, f"{PATH}/partitions?topic=none"))["partitions"] == []
        assert (await seen.get(f"{PATH}/partitions")).status_code == 400
        assert (await seen.get(f"{PATH}/others?topic=orders")).status_code == 404


async def test_share_partitions_of_a_topic_are_hidden_without_describe(tmp_path: Path) -> None:
    async with securely(tmp_path, SETTINGS) as seen:
        await two_sharers(seen)
        path = f"{PATH}/partitions?topic=orders"
        for right in ((DESCRIBE, GROUP, PAYMENTS), (DESCRIBE, TOPIC, "orders")):
            assert (await seen.as_("alice", path)).status_code == 403
            seen.rights.give("alice", [right])
        assert len((await seen.json("alice", path))["partitions"]) == 3


async def test_share_api_hides_groups_and_topics_without_describe(tmp_path: Path) -> None:
    async with securely(tmp_path, SETTINGS) as seen:
        await two_sharers(seen)
        assert (await seen.as_("alice", PATH)).status_code == 403
        seen.rights.give("alice", [(DESCRIBE, GROUP, PAYMENTS)])
        assert (await seen.json("alice", PATH))["partitions"] == []
        assert (await seen.as_("alice", ONE)).status_code == 403
        seen.rights.give("alice", [(DESCRIBE, TOPIC, "orders")])
        assert len((await seen.json("alice", PATH))["partitions"]) == 3


async def test_broker_pause_does_not_change_times_of_past_deliveries_in_the_share_api(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        began_ms = seen.time.wall_ms
        one, two = await two_sharers(seen, 4)
        assert await one.fetch(3) == [(0, 2, 1)]
        seen.pass_ms(1_000)
        await one.acknowledge((1, 1, [REJECT]))
        assert await two.fetch(1) == [(3, 3, 1)]
        before = await first(seen)
        seen.time.wall_ms += 7_600  # the monotonic clock leaves out the pause
        row = await first(seen)
    assert row["histories"] == before["histories"]
    [rejected] = row["histories"]
    [outcome] = rejected["outcomes"]
    assert (outcome["since_ms"], outcome["at_ms"]) == (began_ms, began_ms + 1_000)
    assert row["known_since_ms"] == began_ms
    held = [each for each in row["in_flight"] if each["state"] == "acquired"]
    assert [(each["since_ms"], each["until_ms"]) for each in held] == [
        (began_ms, began_ms + 37_600),
        (began_ms, began_ms + 37_600),
        (began_ms + 1_000, began_ms + 38_600),
    ]


async def test_field_since_ms_of_a_stuck_record_finding_is_not_changed_by_a_broker_pause(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        began_ms = seen.time.wall_ms
        one, _ = await two_sharers(seen, 1)
        for delivery in (1, 2, 3):
            assert await one.fetch() == [(0, 0, delivery)]
            await one.acknowledge((0, 0, [RELEASE]))
        seen.time.wall_ms += 7_600
        await seen.broker.verdicts.judge_all()
        found = (await got(seen, PATH))["findings"]
    [stuck] = [each for each in found if each["verdict"] == "STUCK_RECORD"]
    assert stuck["since_ms"] == began_ms


async def test_share_api_lists_a_delivery_once_when_memory_and_journal_contain_it(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen, 4)
        assert await one.fetch(4) == [(0, 3, 1)]
        await one.acknowledge((1, 1, [REJECT]))
        drop_from_memory(seen)
        one.session_epoch = 0
        assert await one.fetch(4) == [(0, 0, 1), (2, 3, 1)]
        await one.acknowledge((2, 2, [REJECT]))
        # The journal has offsets 1 and 2 as one entry; the memory has only offset 2.
        for pause_ms in (0, 7_600, -60_000):
            seen.time.wall_ms += pause_ms
            histories = (await first(seen))["histories"]
            assert [
                (each["first_offset"], each["last_offset"], len(each["outcomes"]))
                for each in histories
            ] == [(1, 1, 1), (2, 2, 1)]
