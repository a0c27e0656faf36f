"""A worker process whose group members use one client library.

The worker behaves like an application: it polls a batch, processes the records in order, and
commits. A test sends each command as one line of JSON. The worker responds with `{"ok": ...}`, or
with `{"error": ...}` and the library's name of the error. Each script in this folder implements
poll, commit and produce with one library. A *careful* member behaves as the recipes recommend, and
a careless member does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Key = tuple[str, int]
POISON = "poison"


class Poison(Exception):
    """Raised for a record that cannot be processed."""


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """A consumer in a group, with its current batch. Each client library has a subclass."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.is_careful: bool = asked["careful"]
        self.batch: list[Record] = []
        """The polled records that the member has not yet processed."""
        self.next: dict[Key, int] = {}
        """The offset to commit for each partition: the offset after the last processed record."""
        self.events: list[list[Any]] = []
        """The rebalance events that the library has reported, oldest first."""

    def poll(self, within_s: float) -> Iterable[Record]:
        """Polls for at most ``within_s`` seconds, and returns at most `asked["batch"]` records."""
        raise NotImplementedError

    def commit(self, offsets: dict[Key, int]) -> None:
        raise NotImplementedError

    def send(self, topic: str, value: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def gave_up(self, what: str, partitions: Iterable[Any]) -> dict[Key, int]:
        """Notes that partitions were revoked or lost. Returns the offsets that must still be
        committed for these partitions."""
        keys = sorted((each.topic, each.partition) for each in partitions)
        self.events.append([what, keys])
        return {key: self.next.pop(key) for key in keys if key in self.next}

    def was_given(self, partitions: Iterable[Any]) -> None:
        keys = sorted((each.topic, each.partition) for each in partitions)
        self.events.append(["assigned", keys])

    def work(self, count: int, and_commit: bool) -> dict[str, Any]:
        """Processes at most ``count`` of the records in `batch`. Commits after each record if
        ``and_commit`` is True."""
        done: list[str] = []
        refused = None
        while self.batch and len(done) < count:
            record = self.batch[0]
            try:
                if record.value.startswith(POISON):
                    raise Poison(record.value)
            except Poison:
                if not self.is_careful:
                    raise
                self.send(f"{record.topic}.dead", record.value)
            else:
                done.append(record.value)
            self.batch.pop(0)
            self.next[record.topic, record.partition] = record.offset + 1
            if and_commit:
                try:
                    self.commit({(record.topic, record.partition): record.offset + 1})
                except Exception as error:  # noqa: BLE001 (each library has its own)
                    refused = name_of(error)
                    if self.is_careful:  # another member owns the partition now
                        self.batch.clear()
        return {"done": done, "refused": refused}


class Producer:
    """A producer that also stores the results of its sends. A subclass for each library implements
    the client.

    The keys of ``asked`` are `bootstrap`, and optionally `acks` ("all" or 1), `idempotent`,
    `transactional_id`, and `gives_up`, with which the producer reports a retriable error instead of
    sending the record again.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = {
            "acks": "all", "idempotent": True, "transactional_id": None, "gives_up": False, **asked
        }  # fmt: skip
        self.acknowledged: list[str] = []
        """The values of the acknowledged records, in the order of their acknowledgements."""
        self.failed: list[tuple[str, str]] = []
        """The value of each failed record, and the library's name of the error."""

    def produce(self, topic: str, values: list[str], within_s: float) -> None:
        """Produces values, and waits at most ``within_s`` seconds until each record of this call
        and of earlier calls is acknowledged or has failed."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction."""
        raise NotImplementedError

    def commit(self) -> None:
        """Commit the transaction; repeat the commit as long as its error is retriable."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the transaction."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def name_of(error: Exception) -> str:
    """Returns the name of an error in the client library: for librdkafka the error code, otherwise
    the name of the exception's class."""
    code = error.args[0] if error.args else None
    named = getattr(code, "name", None)
    return str(named()) if callable(named) else type(error).__name__


class Worker:
    """The members of this process. Each public method implements a command."""

    def __init__(self, member: type[Member], producer: type[Producer]) -> None:
        self.member = member
        self.producer = producer
        self.members: dict[str, Member] = {}
        self.producers: dict[str, Producer] = {}

    def open(self, name: str, **asked: Any) -> None:
        self.members[name] = self.member({"name": name, **asked})

    def fetch(self, name: str, within_s: float) -> list[Record]:
        """Polls once and returns the next batch. The previous batch must already be processed."""
        member = self.members[name]
        assert not member.batch, "the previous batch is not processed"
        member.batch = list(member.poll(within_s))
        return member.batch

    def work(self, name: str, count: int, and_commit: bool) -> dict[str, Any]:
        return self.members[name].work(count, and_commit)

    def commit(self, name: str) -> None:
        self.members[name].commit(dict(self.members[name].next))

    def events(self, name: str) -> list[list[Any]]:
        """Returns all rebalance events since the start of the member, oldest first."""
        return self.members[name].events

    def close(self, name: str) -> None:
        self.members.pop(name).close()

    def produce(self, bootstrap: str, topic: str, values: list[str], within_s: float) -> int:
        """Produces values with an idempotent producer, and returns the number of records that were
        acknowledged during this call.

        A record that is not acknowledged within ``within_s`` seconds stays in flight. The next call
        also waits for its acknowledgement.
        """
        if bootstrap not in self.producers:
            self.open_producer(bootstrap, bootstrap=bootstrap)
        before = len(self.producers[bootstrap].acknowledged)
        return len(self.send(bootstrap, topic, values, within_s)["acknowledged"]) - before

    def open_producer(self, name: str, **asked: Any) -> None:
        """Opens a producer with the settings of `Producer`."""
        self.producers[name] = self.producer(asked)

    def send(self, name: str, topic: str, values: list[str], within_s: float) -> dict[str, Any]:
        """Produces values; returns all records of the producer that are acknowledged or have
        failed."""
        producer = self.producers[name]
        producer.produce(topic, values, within_s)
        return {"acknowledged": producer.acknowledged, "failed": producer.failed}

    def begin(self, name: str) -> None:
        self.producers[name].begin()

    def commit_transaction(self, name: str) -> None:
        self.producers[name].commit()

    def abort_transaction(self, name: str) -> None:
        self.producers[name].abort()

    def end(self) -> None:
        """Closes all members and producers, because the next test may use the same addresses."""
        for name in list(self.members):
            self.close(name)
        for name in list(self.producers):
            self.producers.pop(name).close()


def commands() -> Iterator[dict[str, Any]]:
    """Yields the commands of the test until the test closes standard input."""
    for line in sys.stdin:
        yield json.loads(line)


def serve(member: type[Member], producer: type[Producer]) -> None:
    """Executes commands and prints their results until standard input ends."""
    worker = Worker(member, producer)
    for command in commands():
        verb = command.pop("verb")
        try:
            answer = {"ok": getattr(worker, verb)(**command)}
        except Exception as error:  # noqa: BLE001 (any error is reported)
            answer = {"error": name_of(error), "says": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
