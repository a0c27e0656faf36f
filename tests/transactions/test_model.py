"""Tests with random events on one transactional id. The core has the same replies, records and
state as the slow model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.transactions.driver import FIRST_ID, Driver
from tests.transactions.model import LAST, Kept, Model
from transactions.calls import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    VerifyPartitions,
)
from transactions.record_codec import decode_value
from transactions.states import State
from transactions.transaction import Transaction
from transactions.values import TransactionRun, TransactionValue

STEPS = 400
SEEDS = range(60)


def kept_of(value: TransactionValue) -> Kept:
    """Converts a value of the core to the form of the model. Missing fields are -1."""
    return Kept(
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        value.state.wire_name,
        frozenset((topic, each) for topic, ids in value.partitions for each in ids),
        value.last_update_ms,
        value.start_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_rules,
    )


def as_written(kept: Kept, level: int) -> Kept:
    """Returns ``kept`` with only the fields that a record of value version ``level`` contains."""
    written = replace(kept, last=-1)
    return written if level else replace(written, prev=-1, next=-1, rules=0)


class Walk:
    """One random sequence of calls, which a driver and a model both execute."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.level = self.chance.choice((0, 1, 2, 2))
        self.driver = Driver(transaction_version=self.level)
        self.model = Model(self.level)
        self.seen: set[str] = set()
        if self.chance.random() < 0.5:  # begins just before the epochs run out
            epoch = LAST - self.chance.randrange(4)
            value = TransactionValue(
                7, epoch, 1000, State.EMPTY, (), self.wall_ms, -1, 7 if self.level else -1
            )
            self.driver.store(TransactionRun("x", value, 1 if self.level else 0))
            self.driver.reload()
            self.model.kept = kept_of(value)

    @property
    def wall_ms(self) -> int:
        return self.driver.now.wall_ms

    @property
    def now(self) -> Transaction | None:
        return self.driver.shard.view.get("x")

    def owner(self) -> tuple[int, int]:
        """Returns the producer id and epoch of the current owner, and sometimes of a former owner
        or of an unknown producer."""
        kept = self.model.kept
        if kept is None:
            return 7, 0
        pid = self.chance.choice((kept.pid,) * 6 + (kept.prev, kept.next, 7))
        epoch = self.chance.choice((kept.epoch,) * 5 + (kept.epoch - 1,) * 3 + (kept.last, LAST, 3))
        return pid, max(epoch, 0)

    def step(self) -> None:
        events = (self.init, self.add, self.add, self.verify, self.end, self.end, self.markers)
        rare = (self.timeout, self.crash, self.reload)
        event = self.chance.choice(events * 3 + rare)
        before = len(self.driver.log)
        event()
        self.compare(before, event.__name__)

    def compare(self, before: int, event: str) -> None:
        """Asserts that the records, the state and the memory of the core equal those of the
        model."""
        written = self.driver.log[before:]
        expected, self.model.records = self.model.records, []
        if event not in ("crash", "reload"):
            values = [kept_of(decode_value(each.value or b"")[0]) for each in written]
            assert values == [as_written(each, self.level) for each in expected]
        now, kept = self.now, self.model.kept
        assert (now is None) == (kept is None)
        if now is not None and kept is not None:
            assert replace(kept_of(now.value), last=now.last_epoch) == kept
            self.seen.add(kept.state)

    # ------------------------------------------------------------------------------ the events

    def init(self) -> None:
        pid, epoch = (-1, -1) if self.chance.random() < 0.5 else self.owner()
        if pid == -1:
            epoch = -1
        timeout = self.chance.choice((1000, 60_000))
        reply = self.driver.answer(InitProducerId("t", "x", timeout, pid, epoch))
        assert tuple(reply) == self.model.init(self.wall_ms, timeout, pid, epoch)

    def add(self) -> None:
        pid, epoch = self.owner()
        rules = self.chance.choice((1, 2))
        parts = {("tu"[self.chance.randrange(2)], self.chance.randrange(4)) for _ in range(3)}
        topics = [(topic, [each for name, each in parts if name == topic]) for topic in "tu"]
        call = AddPartitions("t", "x", pid, epoch, [pair for pair in topics if pair[1]], rules)
        assert self.driver.answer(call) == self.model.add(self.wall_ms, pid, epoch, parts, rules)

    def verify(self) -> None:
        pid, epoch = self.owner()
        part = ("t", self.chance.randrange(4))
        [code] = self.driver.answer(VerifyPartitions("t", "x", pid, epoch, [("t", [part[1]])]))
        assert code == self.model.verify(pid, epoch, part)

    def end(self) -> None:
        pid, epoch = self.owner()
        rules, committed = self.chance.choice((1, 2)), self.chance.random() < 0.5
        reply = self.driver.answer(EndTransaction("t", "x", pid, epoch, committed, rules))
        assert tuple(reply) == self.model.end(self.wall_ms, pid, epoch, committed, rules)

    def markers(self) -> None:
        if not self.driver.unsent:
            return
        sent = self.driver.unsent.pop(0)
        owner = (sent.producer_id, sent.producer_epoch)
        self.driver.handle(MarkersWritten("t", "x", *owner))
        self.model.markers(self.wall_ms, *owner)
        if self.chance.random() < 0.2:  # a repeated request
            self.driver.unsent.append(sent)

    def timeout(self) -> None:
        self.driver.mono_ms += self.chance.choice((999, 10_000, 60_000))
        due_ms = self.driver.shard.next_deadline()
        if due_ms is not None and due_ms <= self.driver.mono_ms:
            self.driver.take(self.driver.shard.expire(self.driver.now, 10))
            self.model.sweep(self.wall_ms)

    def reload(self) -> None:
        self.driver.wall_offset_ms += self.chance.choice((0, 500))
        self.driver.reload()
        self.model.reload()
        kept = self.model.kept
        expected = 1 if kept is not None and kept.state.startswith("Prepare") else 0
        assert len(self.driver.unsent) == expected, "markers are sent again"

    def crash(self) -> None:
        """Simulates a kill: the records of the last step did not reach the log."""
        log = list(self.driver.log)
        kept = self.model.kept
        self.chance.choice((self.init, self.add, self.end))()
        self.driver.log = log
        self.model.kept, self.model.records = kept, []
        self.reload()


@pytest.mark.parametrize("seed", SEEDS)
def test_core_has_the_same_replies_and_records_as_the_model(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()


def test_random_walks_reach_every_state_of_a_transactional_id() -> None:
    seen: set[str] = set()
    for seed in range(8):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
        seen |= walk.seen
    assert seen == {state.wire_name for state in State} - {State.DEAD.wire_name}
    assert Model(2).next_id == FIRST_ID
