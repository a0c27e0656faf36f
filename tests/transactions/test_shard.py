"""Tests of a transactional id from its first InitProducerId to the end of a transaction, with a
load of the shard in between."""

from __future__ import annotations

from protocol.errors import CONCURRENT_TRANSACTIONS, NONE
from protocol.now import Now
from transactions.calls import (
    TV2,
    AddPartitions,
    Call,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
)
from transactions.config import TransactionConfig
from transactions.outcome import EndReply, InitReply, Outcome, SendMarkers
from transactions.producer_ids import ProducerIds
from transactions.shard import TransactionShard
from transactions.states import State
from transactions.values import TransactionRun


def config() -> TransactionConfig:
    ids = ProducerIds()
    ids.add(range(1000, 2000))
    return TransactionConfig("markers", ids)


class Driver:
    """Runs the shard like the runtime: the records of a step are replayed at once."""

    def __init__(self) -> None:
        self.config = config()
        self.shard = TransactionShard(self.config)
        self.log: list[TransactionRun] = []
        self.now = Now(0, 1_000_000)
        self.shard.loaded(self.now)

    def handle(self, call: Call) -> Outcome:
        outcome = self.shard.handle(call, self.now)
        for run in outcome.records:
            self.shard.replay(run, len(self.log))
            self.log.append(run)
        return outcome

    def reload(self) -> Outcome:
        self.shard = TransactionShard(self.config)
        for offset, run in enumerate(self.log):
            self.shard.replay(run, offset)
        return self.shard.loaded(self.now)


def test_markers_of_a_tv2_transaction_are_sent_again_after_a_load() -> None:
    driver = Driver()
    outcome = driver.handle(InitProducerId("i", "x", 60_000, -1, -1))
    assert outcome.replies == [("i", InitReply(NONE, 1000, 0))]
    outcome = driver.handle(AddPartitions("a", "x", 1000, 0, [("t", [0, 1])], TV2))
    assert outcome.replies == [("a", NONE)]
    assert list(driver.shard.view.open()) == ["x"]
    outcome = driver.handle(EndTransaction("e", "x", 1000, 0, True, TV2))
    markers = SendMarkers("x", 1000, 1, True, TV2, (("t", (1, 0)),))
    assert outcome.replies == [("e", EndReply(NONE, 1000, 1)), ("markers", markers)]
    again = driver.handle(InitProducerId("i", "x", 60_000, -1, -1))
    assert again.replies == [("i", InitReply(CONCURRENT_TRANSACTIONS))]
    assert driver.reload().replies == [("markers", markers)], "a load sends them again"
    driver.handle(MarkersWritten("m", "x", 1000, 1))
    assert not list(driver.shard.view.open())
    transaction = driver.shard.view.get("x")
    assert transaction is not None
    assert transaction.state is State.COMPLETE_COMMIT
    assert driver.reload().replies == []
