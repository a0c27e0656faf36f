"""A transactional producer that sends EndTxn on one connection, while it sends commits of the same
transaction on other connections.

A client that retries sends such requests, and so does a client whose transaction times out during a
commit. The commits continue after the EndTxn response until one commit is rejected. Some commits
arrive in the same turn of the broker in which the marker is written.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Event, Thread

from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    TRANSACTION_ABORTABLE,
    UNSTABLE_OFFSET_COMMIT,
)
from tests.broker.topic_calls import create_topic
from tests.broker.transactional import TXN_OFFSET_COMMIT, TransactionalProducer, initialized
from tests.waiting import until
from tests.wire import Wire

STREAMS = 3
LATE = {1: TRANSACTION_ABORTABLE, 2: INVALID_PRODUCER_EPOCH}
"""The error of a commit that arrives after the end of its transaction, by transaction version."""
ANSWERS_MAX = 500
"""A thread repeats a commit after the EndTxn response until the commit is rejected. This is the
maximum number of repetitions."""
STABLE_WITHIN_S = 2.0
"""The time in seconds within which a pending offset must become readable. The marker of its
transaction is usually written within milliseconds."""


@dataclass
class Overlapped:
    """The results of all transactions of one producer."""

    rounds: int = 0
    late: Counter[int] = field(default_factory=Counter)
    """By error code: the number of threads whose last commit got this error. Each thread sent its
    last commit after EndTxn."""
    unstable_after: int | None = None
    """The number of a round after whose abort an offset was wrongly still pending; None if this did
    not happen."""
    committed_later: int = -1
    """The offset of an aborted transaction that the producer's next transaction wrongly committed;
    -1 if no such offset was committed."""


def overlap(port: int, name: str, rules: int, rounds: int) -> Overlapped:
    """Aborts ``rounds`` transactions of one producer, each while commits are in flight. ``rules``
    is the transaction version."""
    found = Overlapped()
    with Wire(port) as wire:
        create_topic(wire, name, 2)
        until(
            "the group's coordinator is there",
            lambda: (
                wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})["error_code"] == NONE
            ),
        )
        producer = initialized(wire, name, rules)
        for number in range(1, rounds + 1):
            found.rounds = number
            _abort(port, producer, name, number, found.late)
            if not _is_stable(wire, name):
                found.unstable_after = number
                _begin(producer, name, number)
                assert producer.end(commit=True) == NONE
                until("the next transaction is complete", lambda: _offset(wire, name, 0) > 0)
                found.committed_later = _offset(wire, name, 1)
                break
    return found


def _begin(producer: TransactionalProducer, name: str, offset: int) -> None:
    """Begins a transaction with an offset commit for partition 0."""
    if producer.rules == 1:
        until("its offsets are added", lambda: producer.add_offsets(name) == NONE)
    until(
        "it commits an offset",
        lambda: producer.commit_offsets(name, {(name, 0): offset}) == [NONE],
    )


def _abort(
    port: int, producer: TransactionalProducer, name: str, offset: int, late: Counter[int]
) -> None:
    """Aborts a transaction while other connections commit offsets of partition 1."""
    _begin(producer, name, offset)
    ended = Event()
    streams = [_Stream(port, producer, name, offset, ended) for _ in range(STREAMS)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.began.wait(STABLE_WITHIN_S)
    try:
        assert producer.end(commit=False) == NONE
    finally:
        ended.set()
        for stream in streams:
            stream.join()
    late.update(stream.code for stream in streams)


class _Stream(Thread):
    """Sends commits of the same transaction on its own connection, one after the other."""

    def __init__(
        self, port: int, of: TransactionalProducer, name: str, offset: int, ended: Event
    ) -> None:
        super().__init__(daemon=True)
        self.code = NONE
        """The error code of the last response."""
        self.began = Event()
        self._port = port
        self._name = name
        self._offset = offset
        self._ended = ended
        self._version = TXN_OFFSET_COMMIT[of.rules]
        self._who = (of.transactional_id, of.rules, of.producer_id, of.epoch)

    def run(self) -> None:
        transactional_id, rules, producer_id, epoch = self._who
        with Wire(self._port) as wire:
            sender = TransactionalProducer(
                wire, transactional_id, rules, producer_id=producer_id, epoch=epoch
            )
            answers = 0
            while answers < ANSWERS_MAX:
                was_over = self._ended.is_set()
                [self.code] = sender.commit_offsets(self._name, {(self._name, 1): self._offset})
                self.began.set()
                answers += was_over
                if was_over and self.code == LATE[rules]:
                    break


def _fetched(wire: Wire, name: str, partition: int, *, stable: bool) -> tuple[int, int]:
    topics = [{"name": name, "partition_indexes": [partition]}]
    asked = {"group_id": name, "topics": topics, "require_stable": stable}
    [entry] = wire.call("OffsetFetch", 7, asked)["topics"][0]["partitions"]
    return entry["committed_offset"], entry["error_code"]


def _offset(wire: Wire, name: str, partition: int) -> int:
    return _fetched(wire, name, partition, stable=False)[0]


def _is_stable(wire: Wire, name: str) -> bool:
    """Waits up to STABLE_WITHIN_S until partition 1 has no pending offset. Returns False if it
    still has one."""
    deadline = time.monotonic() + STABLE_WITHIN_S
    while _fetched(wire, name, 1, stable=True)[1] == UNSTABLE_OFFSET_COMMIT:
        if time.monotonic() > deadline:
            return False
    return True
