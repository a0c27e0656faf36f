"""Transactions in the HTTP API: their clients, the partitions that they block, the groups that wait
for them, and their outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.cores.hosted_shard import Phase
from protocol.consumer_protocol import encode_assignment
from protocol.messages.write_txn_markers import API as WRITE_TXN_MARKERS
from tests.broker.edge import eventually
from tests.broker.openapi import fields
from tests.broker.seen import Seen, seeing
from tests.broker.stories import produce
from tests.broker.transaction_stories import NEWER, Producer, opened
from tests.broker.web.live.test_live import watching

HELD = "/api/held?topic=orders&partition=0"


async def got(seen: Seen, path: str) -> Any:
    answer = await seen.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def a_reader(seen: Seen, group: str = "invoices", offset: int = 5) -> None:
    """Forms a group whose member owns orders-0 and has committed offset ``offset``."""
    assignment = encode_assignment({"orders": [0]})
    who = await seen.client.join_alone(group, assignment=assignment, session_timeout_ms=300_000)
    mine = dict(zip(("member_id", "generation_id"), who, strict=True))
    assert await seen.client.commit(group, offset, **mine) == 0


async def held_for_41_s(seen: Seen) -> Producer:
    """Appends five records, and then three records of a transaction that stays open. A group then
    waits for 41 s for the end of the transaction."""
    await produce(seen, 5)
    producer = await opened(seen)
    seen.pass_ms(1_000)
    await a_reader(seen)
    await seen.broker.verdicts.judge_all()
    seen.pass_ms(41_000)
    await seen.broker.verdicts.judge_all()
    return producer


async def test_blocked_partition_lists_its_transaction_and_the_waiting_group(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await held_for_41_s(seen)
        view = await got(seen, HELD)
    assert view["sentence"] == (
        "orders-0 is blocked at offset 5 by transaction 'billing-1' (producer 0, epoch 0) of"
        " client 'billing' on 10.0.0.7, open for 42.0 s; the transaction times out in 18.0 s;"
        " readers of group"
        " 'invoices' have waited 41.0 s"
    )
    held = view["held"]
    assert (held["id"], held["held_back"], held["client"]) == ("billing-1", 3, "billing")
    [wait] = held["waits"]
    assert (wait["group"], wait["client"], wait["waited_ms"]) == ("invoices", "tester", 41_000)


async def test_finding_of_a_waiting_group_names_the_open_transaction(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await held_for_41_s(seen)
        view = await got(seen, "/api/groups/invoices/journal")
    [finding] = view["findings"]
    assert finding["verdict"] == "HELD_BACK"
    assert finding["sentence"].startswith(
        "orders:0 is blocked at offset 5 by transaction 'billing-1' (producer 0, epoch 0) of"
        " client 'billing' on 10.0.0.7, open since "
    )
    assert finding["command"] == "muster transactions why billing-1"


async def test_transactions_api_lists_open_and_ended_transactions_of_an_id(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        producer = await held_for_41_s(seen)
        view = await got(seen, "/api/transactions/billing-1")
        assert (view["state"], view["open"], view["partitions"]) == ("Ongoing", True, 1)
        [row] = view["partition_list"]
        assert row == {
            "topic": "orders",
            "partition": 0,
            "there": True,
            "start_offset": 5,
            "last_stable_offset": 5,
            "end_offset": 8,
            "held_back": 3,
            "holds": True,
            "open_transactions": 1,
        }
        assert await producer.end() == 0
        view = await got(seen, "/api/transactions/billing-1")
    assert (view["state"], view["open"], view["partition_list"]) == ("CompleteCommit", False, [])
    [story] = view["stories"]
    assert (story["outcome"], story["cause"]) == ("committed", "client")
    assert story["sentence"] == (
        "opened by client 'billing' on 10.0.0.7 (producer 0, epoch 0); wrote to orders:0;"
        " committed after 42.0 s by its client; readers of group 'invoices' waited 41.0 s"
    )


async def test_transaction_api_names_the_client_that_fenced_a_producer_and_the_refused_request(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        old = await opened(seen)
        newer = Producer(seen, "billing-1", NEWER)
        assert await newer.init() != 0
        view = seen.broker.transactions.view_of("billing-1")
        await eventually(lambda: "billing-1" not in view.open())
        assert await old.add("orders", 0) != 0
        told = await got(seen, "/api/transactions/billing-1")
    [story] = told["stories"]
    assert (story["outcome"], story["cause"]) == ("aborted", "fenced")
    assert (story["client"], story["host"]) == ("billing", "10.0.0.7")
    assert (story["ended_by_client"], story["ended_by_host"]) == ("billing", "10.0.0.8")
    assert (
        "because client 'billing' on 10.0.0.8 took over the id and fenced the producer"
        in (story["sentence"])
    )
    [refused] = told["refused"]
    assert (refused["error"], refused["count"]) == ("PRODUCER_FENCED", 1)


async def test_client_and_waiting_group_of_a_transaction_survive_a_restart(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await held_for_41_s(seen)
        now_ms = seen.time.wall_ms
    async with seeing(tmp_path) as seen:
        await eventually(lambda: not seen.broker.transactions.life.loading)
        seen.pass_ms(now_ms - seen.time.wall_ms + 8_000)
        view = await got(seen, HELD)
        told = await got(seen, "/api/transactions/billing-1")
    assert view["held"]["id"] == "billing-1"
    [story] = told["stories"]
    assert (story["source"], story["outcome"], story["client"]) == ("kept", "open", "billing")
    assert [each["group"] for each in story["waits"]] == ["invoices"]


async def hung(seen: Seen) -> None:
    """Appends records of a hanging transaction, which belongs to no transactional id. The records
    are 90 s old."""
    await produce(seen, 5)
    stray = await opened(seen, "stray")
    assert await stray.end() == 0
    stray.epoch += 1
    await stray.hang("orders")
    seen.pass_ms(90_000)


async def test_hanging_transaction_is_reported_when_no_transactional_id_owns_it(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await hung(seen)
        view = await got(seen, HELD)
        rows = (await got(seen, "/api/held"))["partitions"]
    assert "no transactional id owns the transaction" in view["sentence"]
    assert [(each["topic"], each["partition"], each["id"], each["hangs"]) for each in rows] == [
        ("orders", 0, None, True)
    ]


async def test_transaction_is_not_reported_as_hanging_while_transactional_ids_are_loading(
    tmp_path: Path,
) -> None:
    """An operator could otherwise abort a transaction that its coordinator would complete after
    loading."""
    async with seeing(tmp_path) as seen:
        await hung(seen)
        await a_reader(seen, offset=9)
        await seen.broker.verdicts.judge_all()
        seen.pass_ms(41_000)
        hosted = seen.broker.transactions.hosted_for("another")
        assert hosted is not None
        verdicts = []
        for phase in (Phase.ACTIVE, Phase.LOADING):
            hosted.phase = phase
            view = await got(seen, HELD)
            judged = await got(seen, "/api/groups/invoices/journal")
            verdicts.append([each["verdict"] for each in judged["findings"]])
        hosted.phase = Phase.ACTIVE
    assert view["sentence"] == (
        "orders-0 is blocked at offset 9 by a transaction of producer 0, epoch 1: the"
        " transactional id is unknown, because not all ids are loaded yet"
    )
    assert (view["held"]["id"], view["held"]["hangs"]) == (None, False)
    assert ("HELD_BACK" in verdicts[0], "HELD_BACK" in verdicts[1]) == (True, False)


async def test_http_api_page_has_every_field_of_transaction_responses(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        old = await held_for_41_s(seen)
        old.epoch += 1
        assert await old.add("orders", 0) != 0
        rows = (await got(seen, "/api/transactions"))["transactions"]
        told = await got(seen, "/api/transactions/billing-1")
        place = await got(seen, HELD)
    [story], [refused] = told["stories"], told["refused"]
    lists_of_one = {"partition_list", "stories", "refused"}
    assert {*rows[0], *lists_of_one} == set(told)
    seen_fields = {
        "TransactionDetails": told,
        "TransactionPartition": told["partition_list"][0],
        "TransactionStory": story,
        "ReaderWait": story["waits"][0],
        "RefusedRequests": refused,
        "HeldPartition": place["held"],
        "PartitionHold": place,
    }
    assert {name: set(view) for name, view in seen_fields.items()} == {
        name: fields(name) for name in seen_fields
    }


async def abort_by_operator(seen: Seen, producer: Producer) -> None:
    """Sends WriteTxnMarkers with an ABORT marker for the producer to a partition, as an operator's
    tool does."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": [{"name": "orders", "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    answer = await seen.client.call(WRITE_TXN_MARKERS.key, 2, markers=[marker])
    assert answer["markers"][0]["topics"][0]["partitions"][0]["error_code"] == 0


async def test_transaction_aborted_by_an_operator_is_in_history_of_its_transactional_id(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        stray = await opened(seen, "stray")
        assert await stray.end() == 0
        stray.epoch += 1
        await stray.hang("orders")
        seen.pass_ms(90_000)
        await abort_by_operator(seen, stray)
        told = await got(seen, "/api/transactions/stray")
    *_, story = told["stories"]
    assert (story["outcome"], story["cause"], story["ended_by_client"]) == (
        "aborted",
        "admin",
        "tester",
    )
    assert story["sentence"] == (
        "hanging, unknown to the coordinator (producer 0, epoch 1);"
        " wrote to orders:0; aborted after 90.0 s by an operator, client 'tester' on 127.0.0.1"
    )


async def test_http_api_names_the_partition_in_which_an_operator_aborted_an_open_transaction(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        producer = await opened(seen, "t")
        await producer.hang("orders")
        seen.pass_ms(2_000)
        await abort_by_operator(seen, producer)
        while_open = (await got(seen, "/api/transactions/t"))["stories"][-1]
        assert await producer.end() == 0
        *_, story = (await got(seen, "/api/transactions/t"))["stories"]
    past = "an operator, client 'tester' on 127.0.0.1, aborted it in orders-0"
    assert while_open["outcome"] == "open"
    assert f"; {past} without the coordinator; open for 2.0 s" in while_open["sentence"]
    assert (story["outcome"], story["cause"], story["ended_past"]) == ("committed", "client", past)
    assert f"; {past} without the coordinator; committed after 2.0 s" in story["sentence"]


async def test_transactions_api_lists_every_transactional_id(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 5)
        await opened(seen)
        done = await opened(seen, "done")
        await done.end(committed=False)
        rows = (await got(seen, "/api/transactions"))["transactions"]
    assert {each["id"]: (each["state"], each["open"], each["partitions"]) for each in rows} == {
        "billing-1": ("Ongoing", True, 1),
        "done": ("CompleteAbort", False, 0),
    }


async def test_unknown_path_below_the_transactions_api_is_refused(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 1)
        for path, status in (
            ("/api/transactions/nobody", 404),
            ("/api/transactions/a/b", 404),
            ("/api/held?topic=gone&partition=0", 404),
            ("/api/held?topic=orders&partition=99", 404),
            ("/api/held?topic=orders&partition=x", 404),
            (f"/api/held?topic=orders&partition={'9' * 5000}", 404),
            ("/api/held?topic=orders", 400),
        ):
            assert (await seen.get(path)).status_code == status, path
        view = await got(seen, HELD)
    assert view["sentence"] == "orders-0 is not blocked by a transaction"


async def test_transaction_responses_have_exactly_the_documented_fields(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        old = await held_for_41_s(seen)
        view = await got(seen, "/api/transactions/billing-1")
        assert set(view) == fields("TransactionDetails")
        assert set(view["partition_list"][0]) == fields("TransactionPartition")
        assert set(view["stories"][0]) == fields("TransactionStory")
        assert set(view["stories"][0]["waits"][0]) == fields("ReaderWait")
        place = await got(seen, HELD)
        assert set(place) == fields("PartitionHold")
        assert set(place["held"]) == fields("HeldPartition")
        async with watching(seen, "transactions") as stream:
            lists = {"partition_list", "stories", "refused"}
            assert (
                set(stream.tables["transaction"]["billing-1"])
                == fields("TransactionDetails") - lists
            )
            assert set(stream.tables["held"]["orders-0"]) == fields("HeldPartition") - {"sentence"}
        async with watching(seen, "transactions/billing-1") as stream:
            assert stream.head["exists"]
            assert set(stream.tables["story"]["1"]) == fields("TransactionStory") - {"sentence"}
        await Producer(seen, "billing-1", NEWER).init()
        assert await old.add("orders", 0) != 0
        view = await got(seen, "/api/transactions/billing-1")
        assert set(view["refused"][0]) == fields("RefusedRequests")
