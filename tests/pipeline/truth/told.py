"""The results that clients received, with their times.

All times are in ms of this machine's clock, which the broker uses too. A write of the broker
happened between the time of the request (`before_ms`) and the time of its response (`after_ms`).
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
"""Outcome of a transactional commit: a newer commit took effect before the end marker."""

QUIET_MS = 3
"""The maximum difference in ms between the clocks of a client and a broker."""

Place = tuple[str, str, int]


@dataclass
class Span:
    """The time from a request to its response."""

    before_ms: int = 0
    after_ms: int = 0

    def holds(self, at_ms: float) -> bool:
        """Returns True if ``at_ms`` is within the span. Rounding may add one millisecond at each
        end."""
        return self.before_ms - 1 <= at_ms <= self.after_ms + 1


@dataclass
class Commit(Span):
    """An acknowledged commit for one partition. If the offset is None, the committed offset was
    deleted."""

    group: str = ""
    topic: str = ""
    partition: int = 0
    offset: int | None = None
    metadata: str = ""
    transaction: int | None = None
    """The number of the transaction, or None for a commit outside a transaction."""
    by: str | None = None
    """The client id of the committing member, or None if no member committed."""

    @property
    def place(self) -> Place:
        return self.group, self.topic, self.partition


@dataclass
class Transaction(Span):
    """A transaction that wrote offsets. The `Span` is the time from its EndTxn request to the
    response."""

    number: int = 0
    producer_id: int | None = None
    """The producer id, or None if the client library does not expose it."""
    outcome: str = OPEN


@dataclass
class Person:
    """A group member. The data comes from the member itself or from the broker."""

    member_id: str
    client_id: str
    instance: str | None = None
    held: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Generation(Span):
    """A generation or epoch of a group, with the members that the broker described."""

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
    """An acknowledged record of an ordinary topic. The span is from its send to its
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
    """All results that clients received. Results of one group are in the order of time."""

    facts: list[Fact] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    committed: dict[str, dict[str, int]] = field(default_factory=dict)
    """The broker's final OffsetFetch results, by group and `topic:partition`."""
    ends: dict[str, int] = field(default_factory=dict)
    """The final log end offsets, by `topic:partition`."""
    listed: dict[str, str] = field(default_factory=dict)
    """The group states at the end according to ListGroups, by group."""
    marks: dict[str, int] = field(default_factory=dict)
    """Named points in time, in milliseconds, to which tests refer."""
    begun_ms: int = 0
    until_ms: int = 0
    """The time at which the scenario ended. ``begun_ms`` is the time of its first produce
    request."""

    def mark(self, name: str) -> None:
        """Records a time under ``name``. The call lasts 2 * `QUIET_MS`, and the time is in the
        middle of it, so that no client does anything shortly before or after this time."""
        self.marks[name] = now_ms() + QUIET_MS
        while now_ms() <= self.marks[name] + QUIET_MS:
            pass

    @contextmanager
    def span(self, *facts: Span) -> Iterator[None]:
        """Measures the duration of the `with` block, sets it as the span of ``facts``, and records
        these facts."""
        before = now_ms()
        yield
        after = now_ms()
        for fact in facts:
            fact.before_ms, fact.after_ms = before, after
            assert isinstance(fact, Fact)
            self.facts.append(fact)

    def of(self, kind: type[Any], group: str | None = None) -> list[Any]:
        """Returns the facts of the class ``kind``, of one group or of all groups."""
        return [
            fact
            for fact in self.facts
            if isinstance(fact, kind) and (group is None or getattr(fact, "group", None) == group)
        ]

    def members_at(self, commit: Commit) -> list[Person]:
        """Returns the members of the group at the time when ``commit`` took effect."""
        found: list[Person] = []
        for fact in self.of(Generation, commit.group):
            if fact.after_ms <= commit.before_ms:
                found = fact.members
        return found

    def held(self) -> dict[Place, list[Commit]]:
        """Returns the effective commits and deletions of each group, topic and partition, in the
        order of their effect. The span of a commit is the interval in which the commit took effect.
        For a transactional commit, this is the span of the EndTxn request."""
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
    """Returns the current time in ms of the clock that all clients and brokers share."""
    return time.time_ns() // 1_000_000
