"""Runs a shard of the share coordinator like the runtime: the records of a step are stored as bytes
and replayed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from protocol.now import Now
from protocol.records.section import Record
from share.persister.calls import (
    Call,
    FindRedundant,
    InitializeState,
    ReadState,
    StateReply,
    WriteState,
)
from share.persister.config import ShareStateConfig
from share.persister.record_codec import encode_key, encode_value, runs_of_records
from share.persister.shard import Outcome, ShareStateShard
from share.persister.values import ShareStateRun, SnapshotValue
from share.values import SharePartitionKey, StateBatch

WALL_MS = 1_000_000
"""The wall clock time in ms when the monotonic clock shows 0."""
KEY = SharePartitionKey("g", b"t" * 16, 0)


class Driver:
    """A shard of the share coordinator with its log."""

    def __init__(self, **settings: Any) -> None:
        self.config = ShareStateConfig(**settings)
        self.shard = ShareStateShard(self.config)
        self.log: list[Record] = []
        self.mono_ms = 0
        self.shard.loaded(self.now)

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, self.mono_ms + WALL_MS)

    def take(self, outcome: Outcome) -> Outcome:
        """Appends the records of an outcome to the log and replays them. Returns the outcome."""
        for run in outcome.records:
            self.shard.replay(run, len(self.log))
            self.store(run)
        return outcome

    def store(self, run: ShareStateRun) -> None:
        """Appends a record to the log. The shard does not see this record until `reload`."""
        self.log.append(Record(len(self.log), 0, encode_key(run), encode_value(run.value)))

    def answer(self, call: Call) -> StateReply:
        ((ticket, reply),) = self.take(self.shard.handle(call, self.now)).replies
        assert ticket == call.ticket
        assert isinstance(reply, StateReply)
        return reply

    def initialize(
        self, key: SharePartitionKey = KEY, state_epoch: int = 1, start_offset: int = 0
    ) -> int:
        """Sends InitializeShareGroupState and returns the error code."""
        return self.answer(InitializeState("t", key, state_epoch, start_offset)).error_code

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = 0) -> StateReply:
        return self.answer(ReadState("t", key, leader_epoch))

    def write(
        self,
        *batches: tuple[int, int, int, int],
        key: SharePartitionKey = KEY,
        epochs: tuple[int, int] = (1, 0),
        start_offset: int = 0,
        complete: int = 0,
    ) -> int:
        """Sends WriteShareGroupState and returns the error code."""
        changed = [StateBatch(*each) for each in batches]
        call = WriteState("t", key, *epochs, start_offset, complete, changed)
        return self.answer(call).error_code

    def redundant(self) -> int:
        """Returns the offset of the first record that a load of the shard needs. All earlier
        records are redundant."""
        ((_, reply),) = self.shard.handle(FindRedundant("t"), self.now).replies
        return reply.first_needed  # type: ignore[union-attr]

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

    def reloaded(self, first: int = 0) -> ShareStateShard:
        """Returns a new shard that has replayed the log from offset ``first``."""
        return replayed(self.log[first:], self.config)


def replayed(log: Sequence[Record], config: ShareStateConfig) -> ShareStateShard:
    """Returns a new shard that has replayed the records of ``log``."""
    shard = ShareStateShard(config)
    for offset, run in runs_of_records(log, Counter()):
        shard.replay(run, offset)
    return shard


def states(shard: ShareStateShard) -> dict[SharePartitionKey, tuple[SnapshotValue, int, int]]:
    """Returns all share partition states: the value, the offset of its snapshot, and the number of
    updates after the snapshot."""
    found = shard._states.items()
    return {key: (each.value, each.snapshot_offset, each.updates) for key, each in found}
