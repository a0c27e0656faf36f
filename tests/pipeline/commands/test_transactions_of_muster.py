"""Tests of `muster pipeline` on transactional commits in Muster: each commit has an outcome, such
as committed, aborted or open.

The source is the files of a stopped broker, or a running broker with an open transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from protocol.errors import NONE
from tests.broker.transactional import TransactionalProducer, initialized
from tests.brokers import Broker, make_broker
from tests.cli.running import run
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.pipeline

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
GROUP = TOPIC = "exactly-once"


def commit(wire: Wire, offset: int) -> None:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    answer = wire.call("OffsetCommit", 7, {"group_id": GROUP, "member_id": "", "topics": topics})
    assert answer["topics"][0]["partitions"][0]["error_code"] == NONE


def transact(producer: TransactionalProducer, offset: int, ends: bool | None = None) -> None:
    """Commits an offset in a transaction. Commits the transaction if ``ends`` is True, aborts it if
    False, and leaves it open if None."""
    assert producer.commit_offsets(GROUP, {(TOPIC, 0): offset}) == [NONE]
    if ends is not None:
        until("it ends", lambda: producer.end(ends) == NONE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker with five commits: offset 10 without a transaction, 20 committed, 30 aborted,
    40 superseded by 41, and 50 open."""
    broker = make_broker(tmp_path_factory.mktemp("served") / "data", SETTINGS).start()
    with Wire(broker.port) as wire:
        made = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        wire.call("CreateTopics", 4, {"topics": made, "timeout_ms": 20_000})
        asked = {"key": GROUP, "key_type": 0}
        until("it is found", lambda: not wire.call("FindCoordinator", 2, asked)["error_code"])
        commit(wire, 10)
        producer = initialized(wire, "one")
        transact(producer, 20, ends=True)
        transact(producer, 30, ends=False)
        transact(producer, 40)
        commit(wire, 41)
        until("it ends", lambda: producer.end(True) == NONE)
        transact(initialized(wire, "two"), 50)
    yield broker
    broker.kill()


@pytest.mark.proves("transactions 42")
@pytest.mark.parametrize(
    "source", [lambda broker: broker.bootstrap, lambda broker: str(broker.data)],
    ids=["broker", "files"],
)  # fmt: skip
def test_transactional_commits_have_the_outcome_of_their_transaction(
    served: Broker, tmp_path: Path, source: Callable[[Broker], str]
) -> None:
    words = ["--source", source(served), "--no-topics", "--out", str(tmp_path / "out")]
    ran = run("pipeline", "commits", *words)
    assert ran.code == 0, ran.err

    def rows(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pyarrow.parquet.read_table(
            tmp_path / "out" / name
        ).to_pylist()
        return sorted(found, key=lambda row: row["log_offset"])

    assert [row["committed_offset"] for row in rows("commits")] == [10, 20, 41]
    found = [(row["committed_offset"], row["outcome"]) for row in rows("transactional_commits")]
    assert found == [(20, "committed"), (30, "aborted"), (40, "superseded"), (50, "open")]
    ids = {row["producer_id"] for row in rows("transactional_commits")}
    assert len(ids) == 2
