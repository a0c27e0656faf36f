"""Tests that Produce adds its partitions to the transaction through the coordinator, with retries
and with error codes for each version."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.produce.response import Refused
from broker.apis.produce.transaction import Transaction
from broker.apis.shared.add_partitions_on_write import Enlisted
from broker.cores.hosted_shard import Phase
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.slow_disk import SlowFiles
from tests.broker.topic_calls import create_topic
from tests.broker.transactional import TransactionalProducer, initialized
from tests.broker.transactions import state_now
from tests.wire import Wire, batch
from transactions.calls import TV1, TV2, Client

VERSIONS = range(3, 14)


def transactional(**fields: Any) -> bytes:
    header = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0, **fields}
    return batch(b"v", is_transactional=True, **header)


def produce_error(error: int, version: int) -> int:
    """Returns the error code of a Produce response in this version when the coordinator returns
    ``error``."""
    request: Any = SimpleNamespace(
        api_version=version,
        client_id="client",
        connection=SimpleNamespace(client_host="/127.0.0.1"),
    )
    services: Any = SimpleNamespace(enlisting=None)
    topics = [("t", [(0, transactional())])]
    transaction = Transaction(services, request, "id", topics, may_write_internal=False)
    refused = transaction._refused(error)
    assert isinstance(refused, Refused)
    return refused.error_code


@pytest.mark.proves("transactions 8")
@pytest.mark.parametrize(
    ("error", "before_11", "in_11", "from_12"),
    [
        (COORDINATOR_LOAD_IN_PROGRESS, *[NOT_ENOUGH_REPLICAS] * 3),
        (COORDINATOR_NOT_AVAILABLE, *[NOT_ENOUGH_REPLICAS] * 3),
        (NOT_COORDINATOR, *[NOT_ENOUGH_REPLICAS] * 3),
        (NETWORK_EXCEPTION, *[NOT_ENOUGH_REPLICAS] * 3),
        (
            CONCURRENT_TRANSACTIONS,
            NOT_ENOUGH_REPLICAS,
            NOT_ENOUGH_REPLICAS,
            CONCURRENT_TRANSACTIONS,
        ),
        (
            TRANSACTION_ABORTABLE,
            INVALID_TXN_STATE,
            TRANSACTION_ABORTABLE,
            TRANSACTION_ABORTABLE,
        ),
        (INVALID_TXN_STATE, *[INVALID_TXN_STATE] * 3),
        (INVALID_PRODUCER_EPOCH, *[INVALID_PRODUCER_EPOCH] * 3),
        (INVALID_PRODUCER_ID_MAPPING, *[INVALID_PRODUCER_ID_MAPPING] * 3),
        (INVALID_REQUEST, *[INVALID_REQUEST] * 3),
    ],
)
def test_produce_returns_coordinator_errors_as_codes_that_the_request_version_has(
    error: int, before_11: int, in_11: int, from_12: int
) -> None:
    for version in VERSIONS:
        expected = before_11 if version < 11 else in_11 if version == 11 else from_12
        assert produce_error(error, version) == expected, version


# -- retries


class Coordinator:
    """A fake coordinator that answers AddPartitions with the given codes in order, and then repeats
    the last code."""

    def __init__(self, time: MockTime, codes: Sequence[int]) -> None:
        self.codes = list(codes)
        self.time = time
        self.asked_ms: list[int] = []

    def submit(self, _: str, call: Any) -> None:
        self.asked_ms.append(self.time.mono_ms)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        asyncio.get_running_loop().call_soon(call.ticket.take, code)


async def add_result(*codes: int) -> tuple[int, list[int]]:
    """Adds a partition to a transaction at a coordinator that returns ``codes``, one code for each
    call. Returns the resulting error code, and the times in ms of the calls."""
    time = MockTime()

    async def wait(transactional_id: str, at_most_s: float) -> None:
        assert transactional_id == "id"
        time.move(round(at_most_s * 1000))

    coordinator = Coordinator(time, codes)
    services: Any = SimpleNamespace(
        time=time,
        transactions=coordinator,
        markers=SimpleNamespace(wait=wait),
        config={
            "add.partitions.to.txn.retry.backoff.ms": 20,
            "add.partitions.to.txn.retry.backoff.max.ms": 100,
        },
    )
    who = Enlisted("id", 7, 1, TV2, Client())
    code = await who.add(services, [("t", [0])])
    first = coordinator.asked_ms[0]
    return code, [at - first for at in coordinator.asked_ms]


async def test_add_partitions_is_retried_after_concurrent_transactions() -> None:
    codes = [CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS, NONE]

    assert await add_result(*codes) == (NONE, [0, 20, 40])


async def test_add_partitions_is_retried_for_at_most_100_ms() -> None:
    code, asked_ms = await add_result(CONCURRENT_TRANSACTIONS)

    assert (code, asked_ms) == (CONCURRENT_TRANSACTIONS, [0, 20, 40, 60, 80, 100])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_LOAD_IN_PROGRESS),
        (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
        (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH),
    ],
)
async def test_add_partitions_is_retried_only_after_the_error_concurrent_transactions(
    code: int, said: int
) -> None:
    assert await add_result(code) == (said, [0])


# -- the coordinator is not available


@pytest.mark.parametrize(
    ("phase", "error"),
    [
        (Phase.LOADING, COORDINATOR_LOAD_IN_PROGRESS),
        (Phase.UNWRITABLE, NOT_COORDINATOR),
        (Phase.FAILED, NOT_COORDINATOR),
        (Phase.UNLOADED, NOT_COORDINATOR),
        (None, NOT_COORDINATOR),
    ],
)
def test_add_partitions_returns_coordinator_error_when_shard_is_inactive(
    phase: Phase | None, error: int
) -> None:
    hosted = None if phase is None else SimpleNamespace(phase=phase)
    services: Any = SimpleNamespace(
        transactions=SimpleNamespace(hosted_for=lambda _: hosted),
        config={"transaction.partition.verification.enable": True},
    )
    partition: Any = SimpleNamespace(topic="t", index=0)

    for rules in (TV1, TV2):
        assert Enlisted("id", 7, 1, rules, Client()).error(services, partition) == error
        assert Enlisted("", 7, 1, rules, Client()).error(services, partition) == INVALID_REQUEST


# -- a setting


@pytest.mark.parametrize("verified", [True, False])
async def test_tv1_produce_to_unadded_partition_succeeds_without_verification(
    tmp_path: Path, verified: bool
) -> None:
    """The Produce of a TV1 client succeeds only if transaction.partition.verification.enable is
    false; otherwise the client gets TRANSACTION_ABORTABLE. The Produce of a TV2 client always
    succeeds, because it adds its partition to the transaction."""
    settings = {"transaction.partition.verification.enable": str(verified).lower()}

    def work(wire: Wire) -> tuple[int, int]:
        create_topic(wire, "t", 2)
        old, new = initialized(wire, "old", rules=1), initialized(wire, "new")
        codes = old.produce("t", b"v")["error_code"], new.produce("t", b"v")["error_code"]
        asked = {"transactional_ids": ["old", "new"]}
        described = wire.call("DescribeTransactions", 0, asked)["transaction_states"]
        assert [each["transaction_state"] for each in described] == ["Empty", "Ongoing"]
        return codes

    async with serving(tmp_path, settings) as broker:
        refused = TRANSACTION_ABORTABLE if verified else NONE
        assert await asked(broker, work) == (refused, NONE)


async def test_concurrent_produces_of_one_transactional_id_all_succeed(tmp_path: Path) -> None:
    """Kafka answers the first request with NETWORK_EXCEPTION, because a Kafka broker sends one
    request at a time to the coordinator."""

    def work(wire: Wire) -> list[int]:
        create_topic(wire, "t", 20)
        producer = initialized(wire, "id")
        for index in range(20):
            data = producer.records("t", index, b"v")
            wire.send("Produce", 12, producer.ask_produce({("t", index): data}))
        answers = [wire.receive()[1] for _ in range(20)]
        return [each["responses"][0]["partition_responses"][0]["error_code"] for each in answers]

    async with serving(tmp_path) as broker:
        assert await asked(broker, work) == [NONE] * 20


async def test_produce_waits_until_an_earlier_produce_has_added_its_partition(
    tmp_path: Path,
) -> None:
    """A producer may have five requests in flight. Its later requests need the partition that the
    first request adds."""

    def work(wire: Wire) -> list[tuple[int, int]]:
        create_topic(wire, "t", 1)
        producer = initialized(wire, "id")
        for sequence in range(5):
            data = producer.records("t", 0, b"v", base_sequence=sequence)
            wire.send("Produce", 12, producer.ask_produce({("t", 0): data}))
        answers = [wire.receive()[1] for _ in range(5)]
        assert producer.end(commit=True) == NONE
        entries = [each["responses"][0]["partition_responses"][0] for each in answers]
        return [(entry["error_code"], entry["base_offset"]) for entry in entries]

    async with serving(tmp_path) as broker:
        assert await asked(broker, work) == [(NONE, offset) for offset in range(5)]


async def test_only_refused_writes_count_as_partition_verification_failures(tmp_path: Path) -> None:
    """With TV2, the broker itself adds a partition to the transaction at the first write, so no
    verification fails. With TV1, a write to a partition that the client did not add is refused."""

    def work(wire: Wire) -> None:
        create_topic(wire, "t", 2)
        new = initialized(wire, "new")
        assert new.produce("t")["error_code"] == NONE
        assert new.commit_offsets("g", {("t", 0): 1}) == [NONE]
        assert new.end(commit=True) == NONE

    def late(wire: Wire) -> None:
        old = initialized(wire, "old", rules=1)
        assert old.produce("t")["error_code"] == TRANSACTION_ABORTABLE
        assert old.commit_offsets("g", {("t", 0): 1}) == [TRANSACTION_ABORTABLE]

    async with serving(tmp_path) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        failures = broker.metrics.transactions.verification_failures
        await asked(broker, work)
        assert not failures
        await asked(broker, late)
        assert failures == {TRANSACTION_ABORTABLE: 2}


async def test_batch_is_appended_after_its_add_partitions_record_is_stable(
    tmp_path: Path,
) -> None:
    """A producer that lost its connection sends its records again while its first request waits for
    a slow disk. If the batch were appended and the power failed before the AddPartitions record is
    stable, no coordinator would end the transaction of the batch."""
    fs = SlowFiles(TRANSACTION_TOPIC)
    settings = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
    never = str(2**63 - 1)
    async with serving(tmp_path, settings, fs=fs) as broker:
        await broker.topics.create("t", 1, {"flush.messages": never})
        await broker.topics.ensure(OFFSETS_TOPIC)
        made: list[TransactionalProducer] = []
        await asked(broker, lambda wire: made.append(initialized(wire, "id")))
        fs.kind.may_go.clear()
        log, offsets = log_of(broker, "t"), log_of(broker, OFFSETS_TOPIC)

        def produce(wire: Wire) -> int:
            code: int = replace(made[0], wire=wire).produce("t")["error_code"]
            return code

        def commit(wire: Wire) -> list[int]:
            return replace(made[0], wire=wire).commit_offsets("g", {("t", 0): 1})

        async with asyncio.TaskGroup() as group:
            first = group.create_task(asked(broker, produce))
            hosted = broker.transactions.hosted_for("id")
            assert hosted is not None
            await eventually("it is added", lambda: state_now(broker, "id") == "Ongoing")
            again = group.create_task(asked(broker, produce))
            commits = [group.create_task(asked(broker, commit)) for _ in range(2)]
            await eventually(
                "all wait", lambda: hosted.partition.waiting == 4 or log.log_end_offset
            )
            assert (log.log_end_offset, offsets.log_end_offset) == (0, 0)
            fs.kind.may_go.set()
        assert [first.result(), again.result()] == [NONE, NONE]
        assert [commit.result() for commit in commits] == [[NONE], [NONE]]
        assert log.log_end_offset == 1, "the second is a duplicate of the first"
