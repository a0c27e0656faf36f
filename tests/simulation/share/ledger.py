"""The ledger of all deliveries of share groups, and of the causes that may end a delivery, as
clients know them.

The ledger receives each acquisition by the broker (`world.py` observes `SharePartition.acquire`),
each request when it is sent, and each response when the broker sends it. It knows no other state of
the broker.

A record has one delivery at a time. Another delivery requires a cause that ended the previous one,
such as a release by the member, the expiry of the acquisition lock, or the end of the share
session.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protocol.errors import (
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
    SHARE_SESSION_NOT_FOUND,
)
from share.values import SharePartitionKey
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import WireRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FINAL_TYPES = (GAP, ACCEPT, REJECT)
FINAL_EPOCH = -1
UNANSWERED_NS = 60 * S
"""The time in ns after which an abandoned request can no longer have an effect."""
_REFUSED = (
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
)
"""Error codes of rejected requests. The broker has applied no acknowledgement of a rejected
request."""
_NEVER = 1 << 62

MemberKey = tuple[str, str]
"""Group id and member id."""


class Limits(NamedTuple):
    """The settings of share groups, which are the same for all groups."""

    lock_ms: int
    delivery_count: int
    record_locks: int
    session_ms: int


@dataclass(eq=False)
class Asked:
    """A request of a member, or the end of its connection. Either may end deliveries to this
    member."""

    member: MemberKey
    sent: int
    """The number of the event in which the request was sent. Events are numbered in their order."""
    sent_ns: int
    acks: dict[SharePartitionKey, dict[int, int]] = field(default_factory=dict)
    """Acknowledge types, by share partition and offset."""
    closes: bool = False
    """True if the request closes the share session, or if the member leaves its group by this
    request."""
    answered: int = _NEVER
    """The number of the event in which the response arrived."""
    refused: set[SharePartitionKey] = field(default_factory=set)
    """Share partitions for which the broker has refused all acknowledgements of the request."""

    def may_act_after(self, event: int, now_ns: int) -> bool:
        """Returns True if the broker may have executed the request after the event with the number
        ``event``. This is possible if the response came after this event, or if the request has no
        response yet and was sent recently."""
        if self.answered != _NEVER:
            return self.answered > event
        return now_ns - self.sent_ns < UNANSWERED_NS


@dataclass(eq=False)
class Delivery:
    """The latest delivery of a record."""

    member: MemberKey
    count: int
    event: int
    life: int
    lock_begins_ms: int
    """The time in ms at which the member acquired or last renewed the record."""


@dataclass(eq=False)
class Book:
    """The records of one share partition, as far as the ledger knows them."""

    key: SharePartitionKey
    share: object = None
    """The broker's `SharePartition` object at the last report. If the broker now has another
    object, it has loaded the stored state again."""
    life: int = 0
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    highest: Counter[int] = field(default_factory=Counter)
    """The highest seen delivery count of each record, by offset."""
    stored: Counter[int] = field(default_factory=Counter)
    """By offset: the highest delivery count that the broker has certainly stored, because it has
    acknowledged the end of the delivery with this count."""
    final: dict[int, int] = field(default_factory=dict)
    """By offset: the type of the acknowledgement that put the record into a final state. Contains
    only acknowledgements that the broker has answered."""
    acks: dict[int, list[tuple[Asked, int]]] = field(default_factory=lambda: defaultdict(list))
    """By offset of a record: the acknowledgements by members that had acquired the record. Each one
    is a pair of request and acknowledge type."""

    def ended(self, offset: int, limits: Limits) -> bool:
        """Returns True if the record at ``offset`` may be in a final state: its delivery count
        reached the limit, or a member sent a final acknowledgement for it."""
        if self.highest[offset] >= limits.delivery_count:
            return True
        return any(
            type_ in FINAL_TYPES and self.key not in asked.refused
            for asked, type_ in self.acks[offset]
        )


class ShareLedger:
    """The deliveries of all share groups of a simulation."""

    def __init__(
        self,
        limits: Limits,
        happened: Counter[str],
        log_start: Callable[[SharePartitionKey], int] = lambda _: 0,
    ) -> None:
        """``log_start`` returns, for a share partition, the log start offset of the partition's
        log."""
        self.limits = limits
        self._log_start = log_start
        self.now_ns = 0
        """The virtual time in ns. The simulation sets it before each report to the ledger."""
        self.books: dict[SharePartitionKey, Book] = {}
        self.happened = happened
        self._event = 0
        self._asked: dict[MemberKey, list[Asked]] = defaultdict(list)
        """By member: sent requests that may end all deliveries to the member. For example, a
        request may close the member's share session."""
        self._unheard: dict[MemberKey, list[tuple[SharePartitionKey, int, int, int]]] = defaultdict(
            list
        )
        """Acquired ranges that the broker has not yet sent in a response, by member."""
        self._beats_ns: dict[MemberKey, int] = {}
        """The send time in ns of the last answered heartbeat of each member."""

    def next_event(self) -> int:
        self._event += 1
        return self._event

    # -- requests and responses

    def sends(self, request: WireRequest) -> Asked:
        """Notes that a request of a member, or a copy of such a request, is sent."""
        value = request.value
        member = value["group_id"], value["member_id"]
        asked = Asked(member, self.next_event(), self.now_ns)
        if request.name == "ShareGroupHeartbeat":
            asked.closes = value["member_epoch"] == FINAL_EPOCH
        else:
            asked.closes = value["share_session_epoch"] == FINAL_EPOCH
            for key, offset, type_ in _acknowledged(value):
                asked.acks.setdefault(key, {})[offset] = type_
                book = self.books.get(key)
                if book is None or (delivery := book.deliveries.get(offset)) is None:
                    continue
                if delivery.member == member and delivery.life == book.life:
                    book.acks[offset].append((asked, type_))
        if asked.closes:
            self._asked[member].append(asked)
        return asked

    def disconnects(self, member: MemberKey) -> Asked:
        """Adds the close of a member's connection to the ledger, and returns the new entry. The
        caller must set the entry's ``answered`` when the broker has noticed the close."""
        asked = Asked(member, self.next_event(), self.now_ns, closes=True)
        self._asked[member].append(asked)
        return asked

    def answers(self, request: WireRequest, asked: Asked, answer: dict[str, Any]) -> None:
        """Checks and notes a response when the broker sends it."""
        asked.answered = self.next_event()
        code = answer["error_code"]
        if request.name == "ShareGroupHeartbeat":
            if code == NONE:
                silent_ns = asked.sent_ns - self._beats_ns.get(asked.member, 0)
                if silent_ns >= self.limits.session_ms * MS:
                    # The group may have removed the member before this heartbeat.
                    asked.closes = True
                    self._asked[asked.member].append(asked)
                self._beats_ns[asked.member] = asked.sent_ns
            return
        if code in _REFUSED:
            asked.refused |= asked.acks.keys()
            asked.closes = False
            return
        is_fetch = request.name == "ShareFetch"
        which = "acknowledge_error_code" if is_fetch else "error_code"
        group_id = asked.member[0]
        for topic in answer["responses"]:
            for entry in topic["partitions"]:
                key = SharePartitionKey(group_id, topic["topic_id"], entry["partition_index"])
                self._acknowledged(asked, key, entry[which])
                if is_fetch:
                    self._heard(asked, key, entry)

    def _acknowledged(self, asked: Asked, key: SharePartitionKey, code: int) -> None:
        acks = asked.acks.get(key)
        if not acks:
            return
        self.happened[f"acknowledged {code}"] += 1
        if code in _REFUSED:
            asked.refused.add(key)
        book = self.books.get(key)
        if code != NONE or book is None:
            return
        for offset, type_ in acks.items():
            delivery = book.deliveries.get(offset)
            if delivery is None or delivery.life != book.life or delivery.event > asked.sent:
                continue
            if delivery.member == asked.member:
                if type_ == RENEW:
                    continue
                book.stored[offset] = max(book.stored[offset], delivery.count)
                if type_ in FINAL_TYPES:
                    book.final.setdefault(offset, type_)
            else:
                # Below the start offset, an acknowledgement is ignored without an error.
                is_below = offset < self._log_start(key)
                assert is_below or book.ended(offset, self.limits), (
                    f"{asked.member} acknowledges {offset} of {key}, which {delivery.member} holds"
                )

    def _heard(self, asked: Asked, key: SharePartitionKey, entry: dict[str, Any]) -> None:
        unheard = self._unheard[asked.member]
        for each in entry["acquired_records"]:
            acquired = key, each["first_offset"], each["last_offset"], each["delivery_count"]
            assert acquired in unheard, f"{asked.member} gets {acquired}, which it has not acquired"
            unheard.remove(acquired)
            self.happened["acquired ranges sent"] += 1

    # -- the broker

    def acquired(
        self,
        share: object,
        key: SharePartitionKey,
        member_id: str,
        ranges: Sequence[tuple[int, int, int]],
        now_ms: int,
    ) -> None:
        """Checks and notes that a member acquires records."""
        book = self.books.setdefault(key, Book(key))
        if book.share is not share:
            book.share = share
            book.life += 1
        member = key.group_id, member_id
        for first, last, count in ranges:
            self._unheard[member].append((key, first, last, count))
            for offset in range(first, last + 1):
                self._deliver(book, offset, member, count, now_ms)

    def _deliver(self, book: Book, offset: int, member: MemberKey, count: int, now_ms: int) -> None:
        name = f"{offset} of {book.key}"
        before = book.deliveries.get(offset)
        assert offset not in book.final, (
            f"{name} is delivered to {member} after {book.final[offset]} was acknowledged"
        )
        assert 1 <= count <= self.limits.delivery_count, f"{name} has delivery count {count}"
        if before is None:
            assert count == 1, f"{name} is delivered first with count {count}"
        elif before.life == book.life:
            assert count == before.count + 1, f"{name} has count {count} after {before.count}"
            cause = self._end_of(book, offset, before, now_ms)
            assert cause, f"{name} is held by {before.member}, and {member} gets it"
            self.happened[f"delivered again: {cause}"] += 1
        else:
            low, high = book.stored[offset], book.highest[offset]
            assert low < count <= high + 1, f"{name} has count {count} after {low} to {high}"
            self.happened["delivered again after a load"] += 1
        book.deliveries[offset] = Delivery(member, count, self.next_event(), book.life, now_ms)
        book.highest[offset] = max(book.highest[offset], count)

    def _end_of(self, book: Book, offset: int, before: Delivery, now_ms: int) -> str:
        """Returns a cause that may have ended the delivery ``before``, or an empty string if no
        cause is known."""
        if now_ms >= before.lock_begins_ms + self.limits.lock_ms:
            return "lock"
        for asked, type_ in book.acks[offset]:
            if (
                type_ == RELEASE
                and asked.member == before.member
                and book.key not in asked.refused
                and asked.may_act_after(before.event, self.now_ns)
            ):
                return "released"
        for asked in self._asked[before.member]:
            if asked.closes and asked.may_act_after(before.event, self.now_ns):
                return "session"
        beat_ns = self._beats_ns.get(before.member, 0)
        if self.now_ns - beat_ns >= self.limits.session_ms * MS:
            return "member removed"
        return ""

    def renewed(
        self, share: object, key: SharePartitionKey, member_id: str, offsets: Sequence[int], ms: int
    ) -> None:
        book = self.books.get(key)
        if book is None or book.share is not share:
            return
        for offset in offsets:
            delivery = book.deliveries.get(offset)
            if delivery is not None and delivery.member == (key.group_id, member_id):
                delivery.lock_begins_ms = ms
                self.happened["lock renewed"] += 1


def _acknowledged(value: dict[str, Any]) -> Iterator[tuple[SharePartitionKey, int, int]]:
    """Yields share partition, offset and type of each acknowledgement in a request."""
    for topic in value["topics"]:
        for partition in topic["partitions"]:
            key = SharePartitionKey(
                value["group_id"], topic["topic_id"], partition["partition_index"]
            )
            for batch in partition["acknowledgement_batches"]:
                first, last = batch["first_offset"], batch["last_offset"]
                types = batch["acknowledge_types"]
                for offset in range(first, last + 1):
                    if types:
                        yield key, offset, types[min(offset - first, len(types) - 1)]
