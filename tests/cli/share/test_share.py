"""`muster share` explains in sentences how records of a share group were delivered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError
from cli.groups import judging
from cli.share.reading import Place, place_of
from cli.share.sentences import history, of_record
from tests.broker.seen import Seen, seeing
from tests.broker.share_calls import RELEASE
from tests.broker.share_stories import (
    PAYMENTS,
    SETTINGS,
    a_poisonous_record,
    pass_locks,
    two_sharers,
)
from tests.broker.stories import produce
from tests.cli.running import Ran, run
from tests.wire import batch


def in_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Returns a test function that runs ``test`` in a new event loop."""

    @wraps(test)
    def run_test(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run_test


@asynccontextmanager
async def telling(directory: Path) -> AsyncIterator[tuple[Seen, Callable[..., Any]]]:
    """Yields a broker, and a function that runs `muster share` on this broker."""
    async with seeing(directory, SETTINGS) as seen:
        host, port = seen.broker.sockets.addresses()[0]

        async def share(*words: str) -> Ran:
            at = ["-b", f"{host}:{port}", "--http", seen.address]
            return await asyncio.to_thread(run, "share", *words, *at)

        yield seen, share


@in_loop
async def test_share_why_lists_each_of_the_five_deliveries_of_a_record(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as (seen, share):
        await a_poisonous_record(seen)
        everything = await share("why", PAYMENTS)
        one = await share("why", PAYMENTS, "orders:0@1")
    assert (everything.code, everything.err) == (0, "")
    assert everything.out.splitlines() == [
        "payments  Stable  members 2",
        "orders-0: complete before offset 3",
        "orders-1: complete before offset 0",
        "orders-2: complete before offset 0",
        "orders-0 offset 0 was delivered 5 times; archived at 2023-11-14T22:15:21Z because"
        " delivery.count.limit is 5",
        "    2023-11-14T22:13:50Z  #1 payments-1-aaaa from 10.0.0.7 did not acknowledge it:"
        " the lock expired after 30.0 s",
        "    2023-11-14T22:13:51Z  #2 payments-2-bbbb from 10.0.0.8 released it after 1.0 s",
        "    2023-11-14T22:14:21Z  #3 payments-2-bbbb from 10.0.0.8 did not acknowledge it:"
        " the lock expired after 30.0 s",
        "    2023-11-14T22:14:51Z  #4 payments-1-aaaa from 10.0.0.7 did not acknowledge it:"
        " the lock expired after 30.0 s",
        "    2023-11-14T22:15:21Z  #5 payments-2-bbbb from 10.0.0.8 did not acknowledge it:"
        " the lock expired after 30.0 s",
        "orders-0 offset 1 was delivered once; archived at 2023-11-14T22:13:51Z because a member"
        " rejected it",
        "    2023-11-14T22:13:51Z  #1 payments-2-bbbb from 10.0.0.8 rejected it after 1.0 s",
    ]
    assert one.out.splitlines()[1:] == everything.out.splitlines()[-2:]


@in_loop
async def test_share_why_names_the_member_that_has_acquired_a_record(tmp_path: Path) -> None:
    async with telling(tmp_path) as (seen, share):
        one, two = await two_sharers(seen)
        assert await one.fetch(1) == [(0, 0, 1)]
        first = await share("why", PAYMENTS, "orders:0@0")
        await pass_locks(seen)
        assert await two.fetch(1) == [(0, 0, 2)]
        again = await share("why", PAYMENTS, "orders:0@0")
        later = [await share("why", PAYMENTS, f"orders:0@{each}") for each in (1, 2, 3)]
    assert first.out.splitlines()[1:] == [
        "orders-0 offset 0 is with a member",
        "    2023-11-14T22:13:20Z  #1 payments-1-aaaa from 10.0.0.7 holds it until"
        " 2023-11-14T22:13:50Z",
    ]
    assert again.out.splitlines()[1] == "orders-0 offset 0 was delivered twice"
    assert again.out.splitlines()[-1] == (
        "    2023-11-14T22:13:50Z  #2 payments-2-bbbb from 10.0.0.8 holds it until"
        " 2023-11-14T22:14:20Z"
    )
    assert [each.out.splitlines()[1] for each in later] == [
        "orders-0 offset 1 was not delivered yet: new records are delivered from 1",
        "orders-0 offset 2 was not delivered yet: new records are delivered from 1",
        "orders-0 offset 3 does not exist yet: the log ends at 3",
    ]


@in_loop
async def test_share_describe_lists_share_partitions_and_acquired_records(tmp_path: Path) -> None:
    async with telling(tmp_path) as (seen, share):
        one, two = await two_sharers(seen, 5)
        assert await one.fetch(2) == [(0, 1, 1)]
        await one.acknowledge((1, 1, [RELEASE]))
        assert await two.fetch(2) == [(1, 1, 2), (2, 2, 1)]
        ran = await share("describe", PAYMENTS)
        shown = (await share("describe", PAYMENTS, "--json")).json
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["payments", "Stable", "members", "2", "epoch", "3"]
    header = ["TOPIC", "PARTITION", "START", "NEXT", "END", "HELD", "UNREAD", "DELIVERED-AGAIN"]
    assert header in lines
    assert ["orders", "0", "0", "3", "5", "3", "2", "1"] in lines
    since, until = "2023-11-14T22:13:20Z", "2023-11-14T22:13:50Z"
    who = ["payments-2", "10.0.0.8", "payments-2-bbbb"]
    assert ["orders", "0", "1", "1", "2", *who, since, until] in lines
    assert shown["partitions"][0]["next_offset"] == 3


@in_loop
async def test_share_peek_lists_acquired_released_and_new_records_with_their_values(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as (seen, share):
        one, _ = await two_sharers(seen, 2)
        await produce(seen, 1, data=batch(b"two"))
        await produce(seen, 1, data=batch(b"three", b"v" * 100))
        assert await one.fetch(2) == [(0, 1, 1)]
        await one.acknowledge((1, 1, [RELEASE]))
        ran = await share("peek", PAYMENTS, "orders:0")
        shown = (await share("peek", PAYMENTS, "orders:0", "--max", "1", "--json")).json
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()[1:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("0", "held", "v"),
        ("1", "again", "v"),
        ("2", "new", "two"),
        ("3", "new", "three"),
        ("4", "new", "v" * 60 + "..."),
    ]
    assert [(each["offset"], each["state"], each["value"]) for each in shown] == [
        (0, "held", "v"),
        (1, "again", "v"),
        (2, "new", "two"),
    ]


@in_loop
async def test_share_commands_refuse_invalid_partitions_and_groups_of_other_types(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as (seen, share):
        await two_sharers(seen)
        await seen.client.commit("auditors", 0)
        errors = {
            words: (await share(*words)).err
            for words in (
                ("why", "auditors"),
                ("why", "nobody"),
                ("why", PAYMENTS, "orders:9"),
                ("why", PAYMENTS, "orders:x"),
                ("peek", PAYMENTS, "orders"),
            )
        }
    assert list(errors.values()) == [
        "muster: group auditors is a classic group, not a share group\n",
        "muster: group nobody does not exist; `muster groups list` shows all groups\n",
        "muster: share group payments does not read orders:9\n",
        "muster: orders:x: write it as TOPIC:PARTITION or TOPIC:PARTITION@OFFSET\n",
        "muster: orders: name one partition, as in TOPIC:PARTITION\n",
    ]


def test_topic_argument_may_have_a_partition_and_an_offset() -> None:
    assert place_of(None) == Place()
    assert place_of("a.b-c_1:7@12") == Place("a.b-c_1", 7, 12)
    for wrong in ("", ":1", "a@5", "a:1@", "a:b", "a:1@x"):
        with pytest.raises(CommandError):
            place_of(wrong)


def partition(**more: Any) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": 0,
        "known_since_ms": 0,
        "log_end_offset": 9,
        "start_offset": 4,
        "next_offset": 8,
        "deleted": None,
        "in_flight": [],
        "histories": [],
        **more,
    }


def test_record_history_shows_how_many_deliveries_are_not_in_the_journal() -> None:
    outcome = {
        "delivery": 3,
        "member": "m",
        "client": None,
        "host": None,
        "since_ms": 0,
        "at_ms": 500,
        "outcome": "session closed",
    }
    record = {
        "first_offset": 5,
        "last_offset": 6,
        "deliveries": 3,
        "state": "available",
        "archived_because": None,
        "outcomes": [outcome],
    }
    assert history(partition(), record, 5) == [
        "t-0 offsets 5 to 6 were delivered 3 times; waiting for the next fetch by a member",
        "    2 deliveries before 1970-01-01T00:00:00Z: not recorded",
        "    1970-01-01T00:00:00Z  #3 former member m closed its share session after 500 ms",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"start_offset": None}, "t-0 offset 3: no member has fetched from this partition yet"),
        (
            {},
            "t-0 offset 3 is complete: it is before the group's start offset 4; the broker has"
            " recorded no problem since",
        ),
        (
            {"deleted": {"first_offset": 2, "last_offset": 3}},
            "t-0 offset 3 was deleted from the log before it was accepted, rejected or archived",
        ),
        (
            {"in_flight": [{"state": "available", "deliveries": 2}]},
            "t-0 offset 3 had 2 deliveries and is available for the next delivery",
        ),
        (
            {"in_flight": [{"state": "acknowledged", "deliveries": 1}]},
            "t-0 offset 3 was accepted after 1 delivery",
        ),
    ],
)
def test_sentence_about_a_record_without_history_names_its_state(more: Any, said: str) -> None:
    [line] = of_record(partition(**more), 3, 5)
    assert line.startswith(said)


@in_loop
async def test_groups_describe_shows_the_members_of_a_share_group(tmp_path: Path) -> None:
    async with telling(tmp_path) as (seen, _):
        sharers = await two_sharers(seen)
        seen.pass_ms(2_000)
        for each in sharers:
            await each.heartbeat()
        host, port = seen.broker.sockets.addresses()[0]
        at = ["-b", f"{host}:{port}"]
        ran = await asyncio.to_thread(
            run, "groups", "describe", PAYMENTS, "--wide", *at, "--http", seen.address
        )
        rows = await asyncio.to_thread(run, "groups", "members", PAYMENTS, "--json", *at)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("payments  Stable  protocol simple  members 2  coordinator ")
    assert [line.split()[0] for line in lines if "orders" in line] == [
        "payments-1-aaaa",
        "payments-2-bbbb",
    ]
    assert lines[-1] == (
        "A share group has no committed offsets; `muster share describe payments` shows its records"
    )
    assert [(each["member"], each["host"], each["partitions"]) for each in rows.json] == [
        ("payments-1-aaaa", "10.0.0.7", [{"topic": "orders", "partitions": [1, 2]}]),
        ("payments-2-bbbb", "10.0.0.8", [{"topic": "orders", "partitions": [0]}]),
    ]


@in_loop
async def test_groups_why_shows_epochs_of_a_share_group(tmp_path: Path) -> None:
    async with telling(tmp_path) as (seen, _):
        await two_sharers(seen)
        host, port = seen.broker.sockets.addresses()[0]
        at = ["-b", f"{host}:{port}", "--http", seen.address]
        ran = await asyncio.to_thread(run, "groups", "why", PAYMENTS, *at)
        journal = (await asyncio.to_thread(run, "groups", "why", PAYMENTS, "--json", *at)).json
    assert [each["type"] for each in journal["rebalances"]] == ["share", "share"]
    assert "payments-2-bbbb from 10.0.0.8 joined" in ran.out
    assert "join phase" not in ran.out


@in_loop
async def test_share_why_prints_expired_locks_of_a_member_before_the_share_partitions(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as (seen, share):
        one, two = await two_sharers(seen)
        for _ in range(3):
            for each in (one, two):
                await each.heartbeat()
            await one.fetch(1)
            await pass_locks(seen)
        ran = await share("why", PAYMENTS)
    lines = ran.out.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("LOCKS_EXPIRE: ")]
    assert lines[at].startswith("LOCKS_EXPIRE: the locks of payments-1-aaaa on 10.0.0.7 have")
    assert "$ muster share why" not in ran.out
    assert at < lines.index("orders-1: complete before offset 0")


@in_loop
async def test_groups_list_shows_the_verdict_of_a_stalled_share_group(tmp_path: Path) -> None:
    async with telling(tmp_path) as (seen, _):
        one, _ = await two_sharers(seen, 5)
        assert await one.fetch(2) == [(0, 1, 1)]
        await seen.broker.verdicts.judge_all()
        seen.pass_ms(30_000)
        await seen.broker.verdicts.judge_all()
        host, port = seen.broker.sockets.addresses()[0]
        at = ["-b", f"{host}:{port}", "--http", seen.address]
        ran = await asyncio.to_thread(run, "groups", "list", "--json", *at)
    assert (ran.code, ran.err) == (0, "")
    [row] = ran.json
    assert (row["type"], row["members"], row["lag"]) == ("share", 2, None)
    assert row["verdict"] == "STALLED"
    assert "no record was accepted or rejected" in row["sentence"]


@in_loop
async def test_groups_list_shows_no_verdict_of_a_share_group_without_muster_http_api(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as (seen, _):
        await two_sharers(seen, 5)
        host, port = seen.broker.sockets.addresses()[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judging, "_muster", lambda *_: (None, "not a Muster broker"))
            at = ["-b", f"{host}:{port}"]
            ran = await asyncio.to_thread(run, "groups", "list", "--json", *at)
    assert "not checked: " in ran.err
    [row] = ran.json
    assert (row["members"], row["verdict"], row["sentence"]) == (2, None, None)
