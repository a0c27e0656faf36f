"""The results that the clients of a history received, recorded when they were received.

Times are milliseconds of this machine's clock, which the broker uses too: the broker writes between
a request (`before_ms`) and its response (`after_ms`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
SUPERSEDED = "superseded"
"""The outcome of a transactional commit when a newer commit was effective before its marker."""

QUIET_MS = 3
"""The maximum difference between the clock readings of a client and a broker, in milliseconds."""

Place = tuple[str, str, int]


@dataclass
class Span:
    """The time between a request and its response."""

    before_ms: int = 0
    after_ms: int = 0

    def holds(self, at_ms: float) -> bool:
        """Returns True if a time is in the span, with a tolerance of one millisecond for
        rounding."""
        return self.before_ms - 1 <= at_ms <= self.after_ms + 1


@dataclass
class Commit(Span):
    """An acknowledged commit of one partition, or its deletion when the offset is None."""

    group: str = ""
    topic: str = ""
    partition: int = 0
    offset: int | None = None
    metadata: str = ""
    transaction: int | None = None
    """The number of the transaction of the commit; None for a plain commit."""
    by: str | None = None
    """The client id of the member that sent the commit; None for a commit from outside the
    group."""

    @property
    def place(self) -> Place:
        return self.group, self.topic, self.partition


@dataclass
class Transaction(Span):
    """A transaction that wrote offsets; the span is that of its EndTxn request."""

    number: int = 0
    producer_id: int | None = None
    """The producer id; None if the client does not expose it."""
    outcome: str = OPEN


@dataclass
class Person:
    """A member, as the client itself or a broker describes it."""

    member_id: str
    client_id: str
    instance: str | None = None
    held: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Generation(Span):
    """A group's generation or epoch, with the members that a broker described."""

    group: str = ""
    kind: str = "classic"
    """The group type: classic, consumer, share or streams."""
    number: int = 0
    members: list[Person] = field(default_factory=list)


@dataclass
class Deletion(Span):
    """The deletion of a group and of all its offsets."""

    group: str = ""


@dataclass
class Record:
    """An acknowledged record of an ordinary topic; the span starts at its send and ends at its
    acknowledgement."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    before_ms: int = 0
    after_ms: int = 0


Fact = Commit | Transaction | Generation | Deletion


@dataclass
class Told:
    """The complete record of the results that clients received: the groups one after another, and
    the results of a group in order of time."""

    facts: list[Fact] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    committed: dict[str, dict[str, int]] = field(default_factory=dict)
    """The broker's final OffsetFetch results, by group and `topic:partition`."""
    ends: dict[str, int] = field(default_factory=dict)
    """The final log end offsets, by `topic:partition`."""
    listed: dict[str, str] = field(default_factory=dict)
    """The groups at the end, with the state that ListGroups returns."""
    marks: dict[str, int] = field(default_factory=dict)
    """Named times that tests refer to, in milliseconds."""
    begun_ms: int = 0
    until_ms: int = 0
    """The end of the scenario; ``begun_ms`` is the time of the first produce."""

    def mark(self, name: str) -> None:
        """Records a named time, with `QUIET_MS` without client activity before and after it."""
        self.marks[name] = now_ms() + QUIET_MS
        while now_ms() <= self.marks[name] + QUIET_MS:
            pass

    @contextmanager
    def span(self, *facts: Span) -> Iterator[None]:
        """Measures the span of a request and records the facts with this span."""
        before = now_ms()
        yield
        after = now_ms()
        for fact in facts:
            fact.before_ms, fact.after_ms = before, after
            assert isinstance(fact, Fact)
            self.facts.append(fact)

    def of(self, kind: type[Any], group: str | None = None) -> list[Any]:
        """Returns the facts of a class, of one group or of all groups."""
        return [
            fact
            for fact in self.facts
            if isinstance(fact, kind) and (group is None or getattr(fact, "group", None) == group)
        ]

    def members_at(self, commit: Commit) -> list[Person]:
        """Returns the members of the commit's group when the commit took effect."""
        found: list[Person] = []
        for fact in self.of(Generation, commit.group):
            if fact.after_ms <= commit.before_ms:
                found = fact.members
        return found

    def held(self) -> dict[Place, list[Commit]]:
        """Returns the effective commits and deletions by group, topic and partition, in the order
        in which they took effect.

        Each has the span in which it took effect; for a transactional commit this is the span of
        the end of the transaction.
        """
        held: dict[Place, list[Commit]] = {}
        newest: dict[Place, int] = {}
        pending: dict[int, dict[Place, tuple[int, Commit]]] = {}
        for number, fact in enumerate(self.facts):
            match fact:
                case Commit(transaction=None):
                    held.setdefault(fact.place, []).append(fact)
                    newest[fact.place] = number
                case Commit():
                    pending.setdefault(fact.transaction or 0, {})[fact.place] = number, fact
                case Transaction(outcome="committed"):
                    for place, (written, commit) in pending.pop(fact.number, {}).items():
                        if written > newest.get(place, -1):
                            there = Commit(**asdict(commit))
                            there.before_ms, there.after_ms = fact.before_ms, fact.after_ms
                            held.setdefault(place, []).append(there)
                            newest[place] = written
                case Deletion():
                    for place, commits in held.items():
                        if place[0] == fact.group and commits[-1].offset is not None:
                            gone = Commit(fact.before_ms, fact.after_ms, *place)
                            commits.append(gone)
                            newest[place] = number
        return held

    def outcomes(self) -> list[tuple[Commit, str]]:
        """Returns each transactional commit with its outcome."""
        ends = {each.number: each.outcome for each in self.of(Transaction)}
        taken = {
            (commit.transaction, commit.place, commit.offset)
            for commits in self.held().values()
            for commit in commits
        }
        found = []
        for commit in self.of(Commit):
            if commit.transaction is None:
                continue
            outcome = ends.get(commit.transaction, OPEN)
            if outcome == COMMITTED and (
                (commit.transaction, commit.place, commit.offset) not in taken
            ):
                outcome = SUPERSEDED
            found.append((commit, outcome))
        return found

    def write(self, file: Path) -> None:
        value = asdict(self)
        value["facts"] = [{"fact": type(each).__name__, **asdict(each)} for each in self.facts]
        file.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")

    @classmethod
    def read(cls, file: Path) -> Told:
        """Reads the JSON file of `write`."""
        value = json.loads(file.read_text())
        value["facts"] = [_fact(each) for each in value["facts"]]
        value["records"] = [Record(**each) for each in value["records"]]
        return cls(**value)


def _fact(value: dict[str, Any]) -> Fact:
    kinds: dict[str, type[Fact]] = {
        kind.__name__: kind for kind in (Commit, Transaction, Generation, Deletion)
    }
    kind = kinds[value.pop("fact")]
    if kind is Generation:
        value["members"] = [Person(**each) for each in value["members"]]
    return kind(**value)


def now_ms() -> int:
    """Returns the time of the clock that all clients and brokers of a history share, in
    milliseconds."""
    return time.time_ns() // 1_000_000
