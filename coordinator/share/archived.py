"""Archived records of share groups: the event, and the entry of the event in the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from journal.entry import Fields
from journal.texts import Source, kept_id, long_bytes
from protocol.now import Now
from protocol.slotted import slotted

if TYPE_CHECKING:
    from coordinator.group_journal import GroupJournal

TOGETHER_MS = 60_000
"""Adjacent records that are archived within this number of milliseconds, for the same reason, are
merged into one entry."""
_ARCHIVED_BYTES = 900
_AS_THEY_ARE = (
    "number", "at_ms", "topic_id", "partition", "state_epoch", "first_offset", "last_offset",
    "deliveries", "member_id", "client_id", "client_host", "began_ms", "outcome",
)  # fmt: skip
"""Fields of an `Archived` that its journal line contains under the same name."""
_REASON = (
    "topic_id", "partition", "state_epoch", "deliveries", "member_id", "client_id", "client_host",
    "outcome",
)  # fmt: skip
"""The fields that must be equal in two entries that are merged."""


@slotted
class RecordsArchived:
    """Consecutive records were archived although no member had accepted them: a member rejected
    them, or they were delivered too often."""

    group_id: str
    topic_id: bytes
    partition: int
    state_epoch: int
    """The state epoch of the share partition when the records were archived. When the state epoch
    rises, the records may be delivered again."""
    first_offset: int
    last_offset: int
    deliveries: int
    member_id: str
    client_id: str
    """The client.id of the member; "" if the member is no longer known. ``client_host`` is its
    host."""
    client_host: str
    began_ms: int
    outcome: str
    """How the last delivery ended, such as ``rejected`` or ``lock expired``."""


@slotted(frozen=True)
class Archived:
    """The journal entry of consecutive records that were archived. The fields are those of
    `RecordsArchived`."""

    number: int
    at_ms: int
    topic_id: str
    """The topic id in hexadecimal."""
    partition: int
    state_epoch: int
    first_offset: int
    last_offset: int
    deliveries: int
    member_id: str
    client_id: str
    client_host: str
    began_ms: int
    outcome: str
    source: Source = Source.SEEN

    @classmethod
    def of(cls, event: RecordsArchived, number: int, now: Now) -> Archived:
        return cls(
            number,
            now.wall_ms,
            event.topic_id.hex(),
            event.partition,
            event.state_epoch,
            event.first_offset,
            event.last_offset,
            event.deliveries,
            kept_id(event.member_id),
            kept_id(event.client_id),
            event.client_host,
            event.began_ms,
            event.outcome,
        )

    @classmethod
    def read(cls, fields: Fields) -> Archived:
        return cls(**{name: fields[name] for name in _AS_THEY_ARE})

    def fields(self) -> Fields:
        return {"kind": "archived", **{name: getattr(self, name) for name in _AS_THEY_ARE}}

    def copied(self) -> Archived:
        return self

    def kept(self) -> Archived:
        """Returns a copy of the entry with the source KEPT, which entries from the journal's file
        have."""
        return replace(self, source=Source.KEPT)

    def size(self) -> int:
        return _ARCHIVED_BYTES + long_bytes(self.member_id, self.client_id)

    def followed_by(self, later: Archived) -> Archived | None:
        """Returns the entry extended by ``later``, an entry about the records directly after this
        entry's records. Returns None if the records are not adjacent, if the entries have different
        reasons, or if more than TOGETHER_MS is between their times."""
        if later.first_offset != self.last_offset + 1 or later.at_ms - self.at_ms > TOGETHER_MS:
            return None
        if any(getattr(self, name) != getattr(later, name) for name in _REASON):
            return None
        return replace(self, last_offset=later.last_offset, at_ms=later.at_ms, source=later.source)


def fold_archived(journal: GroupJournal, event: RecordsArchived, now: Now) -> None:
    """Adds an entry about the archived records to the journal. If the records directly follow those
    of the last entry, extends the last entry instead."""
    entry = Archived.of(event, journal.archived.number + 1, now)
    last = journal.archived.last
    entry = (None if last is None else last.followed_by(entry)) or entry
    journal.archived.put(entry.number, entry)
    journal.save(entry.number, entry)
