"""Journal entries of a transactional id: its transactions and its rejected requests.

The size of an entry is an estimate, in bytes, of its objects and texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from journal.entry import Fields, Recurring
from journal.lines import listed_of, number_of, text_of
from journal.texts import Source, kept_id, kept_sentence, long_bytes
from protocol.now import Now
from protocol.slotted import slotted
from transactions.calls import BROKER, Client, Partitions
from transactions.events import Cause, EndedPastCoordinator, TransactionRefused

PARTITIONS_KEPT = 64
"""Maximum number of partition names that are kept per transaction. Further partitions are only
counted."""
GROUPS_KEPT = 16
WAITS_KEPT = 64
LONG_MS = 10_000
"""A transaction that was open for at least this time in ms is notable, regardless of its
outcome."""
_SEEN_WITHIN_MS = 30_000
"""If a reader was last seen at most this number of ms before the end of the transaction, it counts
as a reader that waited until the end."""
STORY_BYTES = 1000
PARTITION_BYTES = 120
WAIT_BYTES = 600
_REFUSED_BYTES = 550
_STORY = (
    "number", "producer_id", "producer_epoch", "began_ms", "touched", "prepared_ms", "ended_ms",
    "more_waits",
)  # fmt: skip
_REFUSALS = ("error_code", "count", "last_ms", "producer_id", "producer_epoch")


class Outcome(StrEnum):
    """The progress or the result of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    """The commit is decided; its markers are being written."""
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The transaction has ended, but the journal received no event about its end."""

    @property
    def is_over(self) -> bool:
        """Returns True if the transaction has ended, so that it no longer blocks readers."""
        return self not in (Outcome.OPEN, Outcome.COMMITTING, Outcome.ABORTING)


class Reader(NamedTuple):
    """A group that a transaction blocks in a partition, with the member that owns the partition."""

    group_id: str
    topic: str
    partition: int
    client_id: str
    """The client id of the member, or "" if no member owns the partition."""
    host: str
    since_ms: int


@slotted
class Wait:
    """A reader that a transaction blocked."""

    reader: Reader
    seen_ms: int
    """The wall time in ms at which the reader was last seen waiting. If ``over`` is True, this is
    the time at which the reader could continue."""
    over: bool = False

    @classmethod
    def read(cls, row: list[Any]) -> Wait:
        group_id, topic, partition, client_id, host, since_ms, seen_ms, over = row
        reader = Reader(
            text_of(group_id),
            text_of(topic),
            number_of(partition),
            text_of(client_id),
            text_of(host),
            number_of(since_ms),
        )
        return cls(reader, number_of(seen_ms), bool(over))

    def text_bytes(self) -> int:
        """Returns the estimated size in bytes of the entry's texts."""
        return long_bytes(*self.reader[:2], *self.reader[3:5])


@slotted
class Story:
    """One transaction: its client, its partitions, its outcome, and the readers that waited for
    it."""

    number: int
    """The number of the transaction within its transactional id, from 1."""
    producer_id: int
    producer_epoch: int
    client: Client
    began_ms: int
    began_mono_ms: int = 0
    """The monotonic time in ms at which the transaction began, or 0 if it began before the broker's
    start."""
    partitions: list[tuple[str, int]] = field(default_factory=list)
    touched: int = 0
    """The number of partitions in the transaction."""
    groups: list[str] = field(default_factory=list)
    """Groups for which the transaction commits offsets."""
    outcome: Outcome = Outcome.OPEN
    cause: Cause | None = None
    """The cause of the transaction's end, or None while the transaction is open."""
    detail: str = ""
    """The cause of the transaction's end, as text."""
    ended_by: Client = BROKER
    """The client that ended the transaction. `BROKER`, whose fields are "", means that the broker
    itself ended it."""
    prepared_ms: int = 0
    """The wall time in ms of the decision to commit or abort, or 0 before it."""
    ended_ms: int = 0
    """The wall time in ms at which the last marker was written; 0 while markers are missing."""
    past: str = ""
    """A sentence about an operator's markers that ended the transaction in some partitions while
    the coordinator had it open. The sentence names the markers and the partitions. It is "" without
    such markers."""
    waits: dict[tuple[str, str, int], Wait] = field(default_factory=dict)
    more_waits: int = 0
    source: Source = Source.SEEN

    @classmethod
    def read(cls, fields: Fields) -> Story:
        numbers: Fields = {name: number_of(fields[name]) for name in _STORY}
        partitions, cause = listed_of(fields["partitions"]), fields["cause"]
        return cls(
            **numbers,
            client=_client(fields["client"]),
            partitions=[(text_of(topic), number_of(each)) for topic, each in partitions],
            groups=[text_of(each) for each in listed_of(fields["groups"])],
            outcome=Outcome(fields["outcome"]),
            cause=None if cause is None else Cause(cause),
            detail=text_of(fields["detail"]),
            ended_by=_client(fields["ended_by"]),
            past=text_of(fields.get("past", "")),
            waits={each.reader[:3]: each for each in map(Wait.read, listed_of(fields["waits"]))},
        )

    def fields(self) -> Fields:
        return {
            "kind": "transaction",
            **{name: getattr(self, name) for name in _STORY},
            "client": self.client,
            "partitions": self.partitions,
            "groups": self.groups,
            "outcome": self.outcome.value,
            "cause": None if self.cause is None else self.cause.value,
            "detail": self.detail,
            "ended_by": self.ended_by,
            **({"past": self.past} if self.past else {}),
            "waits": [[*each.reader, each.seen_ms, each.over] for each in self.waits.values()],
        }

    def copied(self) -> Story:
        waits = {key: replace(each) for key, each in self.waits.items()}
        partitions, groups = list(self.partitions), list(self.groups)
        return replace(self, partitions=partitions, groups=groups, waits=waits)

    def touch(self, partitions: Partitions, group_id: str) -> None:
        """Adds partitions to the transaction, and the group for which the transaction commits
        offsets."""
        for topic, ids in partitions:
            self.touched += len(ids)
            for partition in ids[: PARTITIONS_KEPT - len(self.partitions)]:
                self.partitions.append((kept_id(topic), partition))
        if group_id and group_id not in self.groups and len(self.groups) < GROUPS_KEPT:
            self.groups.append(kept_id(group_id))

    def wait(self, reader: Reader, now: Now) -> None:
        key = reader.group_id, reader.topic, reader.partition
        known = self.waits.get(key)
        if known is not None:
            known.seen_ms = now.wall_ms
        elif len(self.waits) < WAITS_KEPT:
            kept = reader._replace(
                group_id=kept_id(reader.group_id),
                topic=kept_id(reader.topic),
                client_id=kept_id(reader.client_id),
                since_ms=max(reader.since_ms, self.began_ms),
            )
            self.waits[key] = Wait(kept, now.wall_ms)
        else:
            self.more_waits += 1

    def end_past(self, event: EndedPastCoordinator) -> None:
        """Notes that an operator's marker has ended the transaction in some partitions."""
        (topic, ids), more = event.partitions[0], -1
        for _, each in event.partitions:
            more += len(each)
        did = f"{'committed' if event.committed else 'aborted'} it in {topic}-{ids[0]}"
        did += f" and {more} more partition{'s' * (more > 1)}" if more else ""
        who = f", client '{event.client.client_id}' on {event.client.host.lstrip('/')},"
        self.past = kept_sentence(f"an operator{who if event.client.host else ''} {did}")

    def prepare(self, committed: bool, cause: Cause, detail: str, client: Client, now: Now) -> None:
        self.outcome = Outcome.COMMITTING if committed else Outcome.ABORTING
        self.cause = cause
        self.detail = kept_sentence(detail)
        self.ended_by = client
        self.prepared_ms = now.wall_ms

    def end(self, outcome: Outcome, now: Now) -> None:
        """Records the end of the transaction: its last marker was written. Consumers that waited
        for the end can read on."""
        self.outcome = outcome
        self.ended_ms = now.wall_ms
        for each in self.waits.values():
            if now.wall_ms - each.seen_ms <= _SEEN_WITHIN_MS:
                each.seen_ms = now.wall_ms
            each.over = True

    @property
    def is_notable(self) -> bool:
        """Returns True if the journal must keep the transaction longer than other transactions.

        A transaction is notable in four cases: its client did not end it, it was open for at least
        LONG_MS, it blocked a reader, or an operator ended it in some partitions.
        """
        if self.cause is not None and self.cause is not Cause.CLIENT:
            return True
        return bool(self.waits or self.past) or self.ended_ms - self.began_ms >= LONG_MS

    def size(self) -> int:
        named = len(self.partitions) + len(self.groups)
        size = STORY_BYTES + PARTITION_BYTES * named + WAIT_BYTES * len(self.waits)
        size += long_bytes(self.detail, self.past, *self.client, *self.ended_by, *self.groups)
        return size + sum([each.text_bytes() for each in self.waits.values()])


@dataclass(slots=True)
class Refusals(Recurring):
    """Calls for one transactional id that were rejected with the same error code."""

    error_code: int
    last_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    client: Client = BROKER
    detail: str = ""
    source: Source = Source.SEEN
    """SEEN if at least one of the calls was rejected since the broker's start."""

    @property
    def key(self) -> int:
        return self.error_code

    @classmethod
    def read(cls, fields: Fields) -> Refusals:
        numbers: Fields = {name: number_of(fields[name]) for name in _REFUSALS}
        refused = cls(**numbers)
        refused.client, refused.detail = _client(fields["client"]), text_of(fields["detail"])
        refused.saved_count = refused.count
        return refused

    def fields(self) -> Fields:
        own = {name: getattr(self, name) for name in _REFUSALS}
        return {"kind": "refused", **own, "client": self.client, "detail": self.detail}

    def copied(self) -> Refusals:
        return replace(self)

    def take(self, event: TransactionRefused, now: Now) -> None:
        self.count += 1
        self.last_ms = now.wall_ms
        self.producer_id, self.producer_epoch = event.producer_id, event.producer_epoch
        self.client = event.client
        self.detail = kept_sentence(event.detail)
        self.source = Source.SEEN

    def size(self) -> int:
        return _REFUSED_BYTES + long_bytes(*self.client, self.detail)


class Gone(NamedTuple):
    """An entry that the transactional id was removed."""

    at_ms: int

    @classmethod
    def read(cls, fields: Fields) -> Gone:
        return cls(number_of(fields["at_ms"]))

    def fields(self) -> Fields:
        return {"kind": "gone", "at_ms": self.at_ms}

    def copied(self) -> Gone:
        return self

    def size(self) -> int:
        """Returns 0, because the entry is only written to disk and not kept in memory."""
        return 0


Kept = Story | Refusals | Gone
"""An entry that is written to the journal's file, from which the next start reads it."""


def _client(pair: list[Any]) -> Client:
    client_id, host = listed_of(pair)
    return Client(text_of(client_id), text_of(host))
