"""A worker: a process with members of groups, made with one client library.

It is the code that a user would test: it polls for a batch, processes its records one by one and
commits. A test drives it with one JSON object per line, so that it stops wherever the test
wants, and each command has one answer: `{"ok": ...}`, or `{"error": ...}` with the library's own
name of the error. The scripts of this folder implement poll, commit and produce for each
library.

A *careful* member does what the recipes show; a careless one does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Key = tuple[str, int]
POISON = "poison"


class Poison(Exception):
    """A record that cannot be processed."""


class Record(NamedTuple):
    """One record of a batch."""

    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """One consumer of a group and its present batch; a library's script implements the rest."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.is_careful: bool = asked["careful"]
        self.batch: list[Record] = []
        """Polled and unprocessed records."""
        self.next: dict[Key, int] = {}
        """The offset to commit for each partition: after the processed records."""
        self.events: list[list[Any]] = []
        """The library's events about partitions, in order."""

    def poll(self, within_s: float) -> Iterable[Record]:
        """A batch of the library, with at most `asked["batch"]` records."""
        raise NotImplementedError

    def commit(self, offsets: dict[Key, int]) -> None:
        """Commit, and return when the broker has acknowledged it."""
        raise NotImplementedError

    def send(self, topic: str, value: str) -> None:
        """Produce one record, and return when the broker has acknowledged it."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the group."""
        raise NotImplementedError

    def gave_up(self, what: str, partitions: Iterable[Any]) -> dict[Key, int]:
        """Partitions are revoked or lost; returns the offsets that it could still commit for
        them."""
        keys = sorted((each.topic, each.partition) for each in partitions)
        self.events.append([what, keys])
        return {key: self.next.pop(key) for key in keys if key in self.next}

    def was_given(self, partitions: Iterable[Any]) -> None:
        """Partitions are assigned to this member."""
        keys = sorted((each.topic, each.partition) for each in partitions)
        self.events.append(["assigned", keys])

    def work(self, count: int, and_commit: bool) -> dict[str, Any]:
        """Process `count` records of the batch, and commit each at once if requested."""
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
                    if self.is_careful:  # the remaining records belong to another member now
                        self.batch.clear()
        return {"done": done, "refused": refused}


def name_of(error: Exception) -> str:
    """A library's own name of an error: librdkafka's code, or the class."""
    code = error.args[0] if error.args else None
    named = getattr(code, "name", None)
    return str(named()) if callable(named) else type(error).__name__


class Worker:
    """The members of this process, and the commands."""

    def __init__(self, member: type[Member], producer: Any) -> None:
        self.member = member
        self.producer = producer
        self.members: dict[str, Member] = {}
        self.producers: dict[str, Any] = {}

    def open(self, name: str, **asked: Any) -> None:
        self.members[name] = self.member({"name": name, **asked})

    def fetch(self, name: str, within_s: float) -> list[Record]:
        """Poll once, as services do after a processed batch; returns the next batch."""
        member = self.members[name]
        assert not member.batch, "the batch before is not worked off"
        member.batch = list(member.poll(within_s))
        return member.batch

    def work(self, name: str, count: int, and_commit: bool) -> dict[str, Any]:
        return self.members[name].work(count, and_commit)

    def commit(self, name: str) -> None:
        """Commit all processed records."""
        self.members[name].commit(dict(self.members[name].next))

    def events(self, name: str) -> list[list[Any]]:
        """The partitions assigned, revoked and lost so far."""
        return self.members[name].events

    def close(self, name: str) -> None:
        self.members.pop(name).close()

    def produce(self, bootstrap: str, topic: str, values: list[str], within_s: float) -> int:
        """Send values with an idempotent producer; returns the number acknowledged within the
        time.

        The others are still in flight: the next `produce` waits for them too.
        """
        if bootstrap not in self.producers:
            self.producers[bootstrap] = self.producer(bootstrap)
        acknowledged: int = self.producers[bootstrap].produce(topic, values, within_s)
        return acknowledged

    def end(self) -> None:
        """The test is over: an open client would meet the next test's broker."""
        for name in list(self.members):
            self.close(name)
        for bootstrap in list(self.producers):
            self.producers.pop(bootstrap).close()


def commands() -> Iterator[dict[str, Any]]:
    """The test's commands, until it closes standard input."""
    for line in sys.stdin:
        yield json.loads(line)


def serve(member: type[Member], producer: Any) -> None:
    """Answer commands until standard input ends."""
    worker = Worker(member, producer)
    for command in commands():
        verb = command.pop("verb")
        try:
            answer = {"ok": getattr(worker, verb)(**command)}
        except Exception as error:  # noqa: BLE001 (every error is an answer)
            answer = {"error": name_of(error), "says": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
