"""Tests the order of the checks of transactional requests in every version.

The tests keep a transaction or a whole shard in a state that otherwise lasts only for a short time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cores.hosted_shard import Phase
from broker.topics.registry import TRANSACTION_TOPIC
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    PRODUCER_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages import BY_NAME
from tests.broker.config.served import Served, serving
from tests.broker.topic_calls import produce_request
from tests.simulated_files import SimulatedFiles
from tests.wire import batch
from transactions.outcome import SendMarkers

ID, GONE = "payer", "nobody"
NOBODY = 1_000_000
PHASES = {
    Phase.LOADING: COORDINATOR_LOAD_IN_PROGRESS,
    Phase.UNLOADED: NOT_COORDINATOR,
    Phase.FAILED: NOT_COORDINATOR,
}


class HeldBroker:
    """Sends requests to a broker that writes no markers, so that a test can keep the broker's
    shards in any phase."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.markers: list[SendMarkers] = []

    async def call(self, name: str, version: int, **value: Any) -> dict[str, Any]:
        return await self.served.client.call(BY_NAME[name].key, version, **value)

    async def init(self, id_: str | None = ID, version: int = 4, timeout_ms: int = 60_000) -> Any:
        return await self.call(
            "InitProducerId", version, transactional_id=id_, transaction_timeout_ms=timeout_ms
        )

    async def add(
        self, id_: str, producer: tuple[int, int], version: int, topic: str = "orders"
    ) -> int:
        topics = [{"name": topic, "partitions": [0]}]
        answer = await self.call(
            "AddPartitionsToTxn",
            version,
            v3_and_below_transactional_id=id_,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
            transactions=[
                {
                    "transactional_id": id_,
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "verify_only": False,
                    "topics": topics,
                }
            ],
        )
        if version >= 4:
            (answer,) = answer["results_by_transaction"]
            results = answer["topic_results"]
        else:
            results = answer["results_by_topic_v3_and_below"]
        code: int = results[0]["results_by_partition"][0]["partition_error_code"]
        return code

    async def offsets(self, id_: str, producer: tuple[int, int], version: int) -> int:
        answer = await self.call(
            "AddOffsetsToTxn",
            version,
            transactional_id=id_,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id="g",
        )
        code: int = answer["error_code"]
        return code

    async def end(
        self, id_: str, producer: tuple[int, int], version: int, committed: bool = True
    ) -> int:
        answer = await self.call(
            "EndTxn",
            version,
            transactional_id=id_,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        code: int = answer["error_code"]
        return code

    async def produce(self, id_: str, producer: tuple[int, int], version: int) -> int:
        """Sends the first records of the next transaction, to a partition that is not in the
        transaction yet."""
        records = batch(
            b"v",
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            is_transactional=True,
        )
        request = produce_request("orders", records, 1, transactional_id=id_)
        asked = asyncio.ensure_future(self.call("Produce", version, **request))
        while not asked.done():  # the broker retries for 100 ms
            self.served.pass_ms(5)
            await asyncio.sleep(0)
        answer = asked.result()
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return code

    async def describe(self, id_: str) -> int:
        answer = await self.call("DescribeTransactions", 0, transactional_ids=[id_])
        code: int = answer["transaction_states"][0]["error_code"]
        return code

    def put_all(self, phase: Phase) -> None:
        """Puts every shard into ``phase``."""
        for hosted in self.served.broker.transactions.hosted_shards:
            hosted.phase = phase


@asynccontextmanager
async def held_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HeldBroker]:
    """Yields a broker that writes no markers, so that transactions stay in PrepareCommit or
    PrepareAbort."""
    async with serving(tmp_path, {"transaction.state.log.num.partitions": 2}) as served:
        broker = served.broker
        await broker.topics.ensure(TRANSACTION_TOPIC)
        assert await broker.producer_ids.ready()
        test = HeldBroker(served)
        monkeypatch.setattr(type(broker.markers), "take", lambda _, each: test.markers.append(each))
        yield test
        test.put_all(Phase.ACTIVE)


CASES: dict[str, tuple[range, Any]] = {
    "AddPartitionsToTxn": (range(6), lambda on, id_, who, v: on.add(id_, who, v)),
    "AddOffsetsToTxn": (range(5), lambda on, id_, who, v: on.offsets(id_, who, v)),
    "EndTxn": (range(6), lambda on, id_, who, v: on.end(id_, who, v)),
}
EACH = [(name, version) for name, (versions, _) in CASES.items() for version in versions]


@pytest.mark.parametrize("phase", PHASES)
async def test_error_of_an_empty_transactional_id_precedes_errors_of_shard_and_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    async with held_broker(tmp_path, monkeypatch) as on:
        on.put_all(phase)
        for name, version in EACH:
            ask = CASES[name][1]
            assert await ask(on, "", (NOBODY, 9), version) == INVALID_REQUEST
            for id_ in (ID, GONE):
                assert await ask(on, id_, (NOBODY, 9), version) == PHASES[phase]
            if name == "AddPartitionsToTxn":
                unknown = await on.add(ID, (NOBODY, 9), version, "nowhere")
                assert unknown == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("phase", PHASES)
async def test_init_refuses_an_invalid_timeout_before_checking_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    async with held_broker(tmp_path, monkeypatch) as on:
        on.put_all(phase)
        for version in range(7):
            assert (await on.init("", version, 0))["error_code"] == INVALID_REQUEST
            assert (await on.init(ID, version, 0))["error_code"] == INVALID_TRANSACTION_TIMEOUT
            assert (await on.init(ID, version))["error_code"] == PHASES[phase]


async def test_describe_and_list_transactions_return_the_error_of_a_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held_broker(tmp_path, monkeypatch) as on:
        await on.init()
        for phase, code in PHASES.items():
            on.put_all(phase)
            assert await on.describe("") == INVALID_REQUEST
            assert await on.describe(ID) == await on.describe(GONE) == code
        one, other = on.served.broker.transactions.hosted_shards
        for version in range(3):
            one.phase, other.phase = Phase.ACTIVE, Phase.LOADING
            answer = await on.call("ListTransactions", version, state_filters=["Nowhere"])
            assert answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
            assert answer["transaction_states"] == answer["unknown_state_filters"] == []
            one.phase = other.phase = Phase.ACTIVE
            other.phase = Phase.FAILED  # the other shard is listed nevertheless
            answer = await on.call("ListTransactions", version)
            assert answer["error_code"] == NONE


@pytest.mark.proves("transactions 8", "transactions 32")
@pytest.mark.parametrize("committed", [True, False])
async def test_concurrent_transactions_error_precedes_producer_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """While markers are being written, Kafka 4.x returns CONCURRENT_TRANSACTIONS before all other
    errors (KAFKA-18660), except for EndTxn of TV1."""
    async with held_broker(tmp_path, monkeypatch) as on:
        for number, (name, version) in enumerate(EACH):
            id_ = f"{ID}-{number}"
            answer = await on.init(id_)
            pid, epoch = answer["producer_id"], answer["producer_epoch"]
            assert await on.add(id_, (pid, epoch), 3) == NONE
            assert await on.end(id_, (pid, epoch), 5, committed) == NONE
            markers = on.markers.pop()
            assert (markers.producer_epoch, markers.committed) == (epoch + 1, committed)

            for who in ((NOBODY, 9), (pid, epoch), (pid, epoch + 1), (pid, epoch + 7)):
                code = await CASES[name][1](on, id_, who, version)
                assert code == expected_while_ending(name, version, who, (pid, epoch + 1)), who
            assert (await on.init(id_))["error_code"] == CONCURRENT_TRANSACTIONS
            for produced, code in ((11, NOT_ENOUGH_REPLICAS), (12, CONCURRENT_TRANSACTIONS)):
                assert await on.produce(id_, (pid, epoch + 1), produced) == code
            unknown = await CASES[name][1](on, GONE, (NOBODY, 9), version)
            assert unknown == INVALID_PRODUCER_ID_MAPPING
            assert await on.describe(id_) == NONE


def expected_while_ending(
    name: str, version: int, who: tuple[int, int], owner: tuple[int, int]
) -> int:
    """Returns the error code that is expected while the markers of the transaction are being
    written."""
    if name != "EndTxn" or version >= 5:
        return CONCURRENT_TRANSACTIONS
    if who[0] != owner[0]:
        return INVALID_PRODUCER_ID_MAPPING
    if who[1] != owner[1]:
        return PRODUCER_FENCED if version >= 2 else INVALID_PRODUCER_EPOCH
    return CONCURRENT_TRANSACTIONS


# -- failures


@pytest.mark.proves("transactions 6")
@pytest.mark.parametrize("version", range(6))
async def test_end_txn_and_add_partitions_get_retriable_errors_while_the_disk_fails(
    tmp_path: Path, version: int
) -> None:
    fs = SimulatedFiles()
    settings = {"transaction.state.log.num.partitions": 1}
    async with serving(tmp_path, settings, fs=fs) as served:
        await served.broker.topics.ensure(TRANSACTION_TOPIC)
        assert await served.broker.producer_ids.ready()
        on = HeldBroker(served)
        answer = await on.init()
        who = answer["producer_id"], answer["producer_epoch"]
        assert await on.add(ID, who, 3) == NONE

        fs.fail("write", ".log", count=1 << 30)
        passing = {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
        for _ in range(5):
            assert await on.end(ID, who, version) in passing
            assert await on.add(ID, who, version, "payments") in {
                *passing, UNKNOWN_TOPIC_OR_PARTITION,
            }  # fmt: skip
            assert await on.offsets(ID, who, min(version, 4)) in passing
            assert (await on.init("new", version))["error_code"] in passing


@pytest.mark.proves("transactions 6")
async def test_init_producer_id_gets_load_in_progress_when_no_producer_id_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held_broker(tmp_path, monkeypatch) as on:
        broker = on.served.broker
        while broker.producer_ids.ids.take() is not None:
            pass

        def refuse(_: int) -> range:
            raise OSError(28, "the disk is full")

        monkeypatch.setattr(broker.registry, "reserve_producer_ids", refuse)
        for version in range(7):
            for id_ in (ID, None):
                answer = await on.init(id_, version)
                assert answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS, (version, id_)
                assert answer["producer_id"] == -1
