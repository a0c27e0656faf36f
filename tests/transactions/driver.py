"""Runs a shard of transactional ids as the broker's runtime does. The records of each step are
stored as bytes, and are replayed before the next step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from protocol.now import Now
from protocol.records.section import Record
from tests.transactions.invariants import check_shard
from transactions.calls import Call, MarkersWritten
from transactions.config import TransactionConfig
from transactions.outcome import Outcome, SendMarkers
from transactions.producer_ids import ProducerIds
from transactions.record_codec import encode_key, encode_value, runs_of_records
from transactions.shard import TransactionShard
from transactions.transaction import Transaction
from transactions.values import TransactionRun

WALL_MS = 1_000_000
"""The wall clock time in ms when the monotonic clock shows 0."""
FIRST_ID = 1000
"""The first producer id that the shard assigns."""


class Driver:
    """A shard with its log. Markers count as written only when the test calls ``write_markers``."""

    def __init__(self, **settings: Any) -> None:
        self.producer_ids = ProducerIds()
        self.producer_ids.add(range(FIRST_ID, 2 * FIRST_ID))
        self.config = TransactionConfig("markers", self.producer_ids, **settings)
        self.shard = TransactionShard(self.config)
        self.log: list[Record] = []
        self.mono_ms = 0
        self.wall_offset_ms = WALL_MS
        self.unsent: list[SendMarkers] = []
        """Markers that the test has not yet reported as written."""
        self.shard.loaded(self.now)

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, self.mono_ms + self.wall_offset_ms)

    def handle(self, call: Call) -> Outcome:
        return self.take(self.shard.handle(call, self.now))

    def answer(self, call: Call) -> Any:
        return dict(self.handle(call).replies)[call.ticket]

    def error(self, call: Call) -> int:
        reply = self.answer(call)
        return reply if isinstance(reply, int) else reply.error_code

    def take(self, outcome: Outcome) -> Outcome:
        """Appends the records of an outcome to the log and replays them, stores its markers, and
        checks the shard. Returns the outcome."""
        for run in outcome.records:
            self.shard.replay(run, len(self.log))
            self.store(run)
        for ticket, reply in outcome.replies:
            if isinstance(reply, SendMarkers):
                assert ticket == "markers"
                self.unsent.append(reply)
        check_shard(self.shard)
        return outcome

    def write_markers(self) -> None:
        """Reports all unsent markers to the shard as written."""
        while self.unsent:
            sent = self.unsent.pop(0)
            owner = (sent.transactional_id, sent.producer_id, sent.producer_epoch)
            self.handle(MarkersWritten("written", *owner))

    def store(self, run: TransactionRun) -> None:
        """Appends a record to the log. The shard does not see this record until `reload`."""
        value = None if run.value is None else encode_value(run.value, run.version)
        self.log.append(Record(len(self.log), 0, encode_key(run.transactional_id), value))

    def advance(self, milliseconds: int, budget: int = 100) -> list[Outcome]:
        """Advances the clock, and handles each deadline of the shard in time. Returns the
        outcomes."""
        until_ms = self.mono_ms + milliseconds
        outcomes = []
        while (due_ms := self.shard.next_deadline()) is not None and due_ms <= until_ms:
            self.mono_ms = max(self.mono_ms, due_ms)
            outcomes.append(self.take(self.shard.expire(self.now, budget)))
        self.mono_ms = until_ms
        return outcomes

    def reload(self, **settings: Any) -> Outcome:
        """Replaces the shard by a new shard that is loaded from the bytes of the log."""
        self.config = replace(self.config, **settings)
        self.shard = self.reloaded()
        self.unsent.clear()
        return self.take(self.shard.loaded(self.now))

    def reloaded(self) -> TransactionShard:
        """Returns a new shard that has replayed the log."""
        shard = TransactionShard(self.config)
        for offset, run in runs_of_records(self.log, Counter()):
            shard.replay(run, offset)
        return shard

    def get(self, transactional_id: str) -> Transaction:
        """Returns the state of a transactional id, which must exist."""
        found = self.shard.view.get(transactional_id)
        assert found is not None
        return found
