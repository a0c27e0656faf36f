"""The share partition: which records of a partition the members of a share group have acquired.

A change of the delivery state is pending until the share coordinator has stored it. Only then can
another member acquire the records. Acquisitions are not stored. Source: Kafka 4.3.1
``SharePartition``; KIP-932, KIP-1206, KIP-1222.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from protocol import errors
from protocol.now import Now
from share.partition.acknowledgement import (
    PIECE,
    Refusal,
    refusal_of_batches,
    refusal_of_member,
    runs,
)
from share.partition.acquisition import Acquisition
from share.partition.changes import Transitions
from share.partition.counts import DeliveryCounts
from share.partition.history import History
from share.partition.loading import loaded
from share.partition.locks import Lock
from share.partition.ranges import ACQUIRED, ARCHIVED, AVAILABLE, Range, Ranges, is_final
from share.partition.settings import ShareSettings
from share.partition.values import (
    AckBatch,
    Acknowledged,
    AcknowledgeType,
    AcquiredRange,
    AcquireMode,
    Change,
    FetchedRecords,
    InFlightRange,
    Outcome,
)
from share.values import DeliveryState, SharePartitionKey, StoredState

_ENDINGS: dict[int, tuple[DeliveryState, str]] = {
    AcknowledgeType.GAP: (DeliveryState.ARCHIVED, "gap"),
    AcknowledgeType.ACCEPT: (DeliveryState.ACKNOWLEDGED, "accepted"),
    AcknowledgeType.RELEASE: (DeliveryState.AVAILABLE, "released"),
    AcknowledgeType.REJECT: (DeliveryState.ARCHIVED, "rejected"),
}
"""The new state and the kind of outcome for each acknowledge type except RENEW."""

_NEAR = 16
"""If at most this number of offsets is between two batches of a change, both batches are found by
one search, which is faster than two searches."""


class SharePartition:
    """The delivery state of the records of one share partition. The state is in memory on the
    broker that leads the partition.

    Deadlines are in monotonic ms. Times that are only recorded, such as the start of a lock, are
    wall times, because the monotonic clock does not advance while the machine is suspended.
    """

    __slots__ = (
        "_counts", "_ended", "_ended_from", "_history", "_ranges", "_settings", "key",
        "state_epoch",
    )  # fmt: skip

    def __init__(
        self,
        key: SharePartitionKey,
        state: StoredState,
        settings: ShareSettings,
        counts: DeliveryCounts | None = None,
        ranges: Ranges | None = None,
    ) -> None:
        """``state`` is the stored state. If its start offset is -1, the caller must first replace
        -1 by an offset.

        Several share partitions may have the same ``counts``. ``ranges`` are the ranges of
        ``state``, if the caller has already made them in slices.
        """
        self._counts = counts or DeliveryCounts()
        self.key = key
        self.state_epoch = state.state_epoch
        self._settings = settings
        self._history = History()
        self._ranges = loaded(state) if ranges is None else ranges
        self._ended: set[Lock] = set()
        """Locks that have ended, but of which some records are not released yet."""
        self._ended_from = 0
        """An offset. Below it, the records of the locks in ``_ended`` are already released."""

    @property
    def start_offset(self) -> int:
        """The first offset whose record is not in a final state."""
        return self._ranges.start_offset

    @property
    def end_offset(self) -> int:
        """The highest acquired or loaded offset; without such offsets, the start offset minus 1."""
        return self._ranges.end_offset

    def configure(self, settings: ShareSettings) -> None:
        """Applies new settings to later operations. Existing acquisition locks keep their ends."""
        self._settings = settings

    # --- fetching

    def next_fetch_offset(self) -> int:
        """Returns the offset of the first available record; if no record is available, the offset
        after the end offset."""
        available = self._ranges.first_available()
        return self._ranges.end_offset + 1 if available is None else available

    def last_wanted(self, offset: int, max_records: int) -> int:
        """Returns the offset of the last of ``max_records`` records that can be acquired from
        ``offset`` on, if the log has a record at every offset."""
        ranges = self._ranges
        left = min(max_records, self._settings.max_record_locks)
        for each in ranges.overlapping(max(offset, ranges.start_offset), ranges.end_offset):
            if each.is_available():
                first = max(each.first, offset)
                if each.last - first + 1 >= left:
                    return first + left - 1
                left -= each.last - first + 1
        return max(ranges.end_offset, offset - 1) + left

    def can_acquire(self) -> bool:
        """Returns False if the number of offsets in flight has reached its maximum and none of
        these offsets is available. No record can be acquired then."""
        ranges = self._ranges
        return (
            ranges.window() < self._settings.max_record_locks
            or ranges.first_available() is not None
        )

    def acquire(
        self,
        member_id: str,
        fetched: FetchedRecords,
        max_records: int,
        batch_size: int,
        mode: AcquireMode | int,
        now: Now,
    ) -> list[AcquiredRange]:
        """Acquires fetched records for a member, as far as they are available. Returns the acquired
        ranges in ascending order. An acquisition is kept only in memory.

        In batch-optimized mode, each range ends at the end of a log batch, as soon as the range has
        at least ``batch_size`` records. The log batch that reaches the limit of records in flight
        is acquired as a whole.
        """
        if not fetched.batches:
            return []
        settings = self._settings
        lock = self._new_lock(member_id, now)
        acquisition = Acquisition(self._ranges, lock, fetched, mode, settings.delivery_count_limit)
        acquired = acquisition.run(max_records, settings.max_record_locks)
        self._ranges.move_start()
        for each in acquired:
            self._counts.acquired(each.last_offset - each.first_offset + 1, each.delivery_count)
        if mode == AcquireMode.RECORD_LIMIT:
            return acquired
        return acquisition.split(acquired, batch_size)

    # --- acknowledging

    def acknowledge(
        self, member_id: str, batches: Sequence[AckBatch], now: Now, is_renew: bool = False
    ) -> Acknowledged:
        """Acknowledges records that a member has acquired. Offsets before the start offset are
        ignored.

        The error is INVALID_REQUEST for invalid batches and for offsets after the end offset, and
        INVALID_RECORD_STATE for records that the member has not acquired. After an error nothing is
        acknowledged. ``is_renew`` permits `AcknowledgeType.RENEW`, which takes effect at once and
        is not stored.
        """
        refusal = self.refusal(member_id, batches, is_renew)
        if refusal is not None:
            return Acknowledged(*refusal)
        ranges = self._ranges
        renewed: Lock | None = None
        transitions = Transitions(ranges)
        for first, last, type_ in runs(batches, ranges.start_offset):
            if type_ == AcknowledgeType.RENEW:
                renewed = renewed or self._new_lock(member_id, now)
                ranges.lock_again(first, last, renewed)
                continue
            state, kind = _ENDINGS[type_]
            for each in ranges.carve(first, last):
                transitions.begin(each, self._limited(state, each), kind)
        return Acknowledged(errors.NONE, None, transitions.change())

    def refusal(
        self, member_id: str, batches: Sequence[AckBatch], is_renew: bool = False
    ) -> Refusal | None:
        """Returns the error that `acknowledge` would return for these batches; None if it would
        accept them."""
        return refusal_of_batches(batches, is_renew) or refusal_of_member(
            self._ranges, member_id, batches
        )

    def release_member(self, member_id: str, first_offset: int = 0) -> Change | None:
        """Releases the records from ``first_offset`` on that a member has acquired, because the
        share session of the member has ended. The delivery counts of these records are not reduced.

        A change has at most `PIECE` ranges. The caller must call again with the offset after the
        change, until the result is None.
        """
        locks = self._ranges.locks.of_member(member_id)
        return self._release(locks, first_offset, "session closed")[0]

    def expire(self, now_ms: int) -> Change | None:
        """Releases records whose acquisition lock has ended. Returns None if no record is released.

        A change has at most `PIECE` ranges. Until all records are released, `next_deadline` returns
        a time in the past.
        """
        ended = self._ranges.locks.pop_ended(now_ms)
        if ended:
            first = min(lock.first_offset for lock in ended)
            self._ended_from = min(first, self._ended_from) if self._ended else first
            self._ended |= ended
        change, is_whole = self._release(self._ended, self._ended_from, "lock expired")
        if is_whole:
            self._ended = set()
        elif change is not None:
            self._ended_from = change.batches[-1].last_offset + 1
        return change

    @property
    def is_held(self) -> bool:
        return self._ranges.locks.are_held

    def next_deadline(self) -> int | None:
        """Returns a lower bound of the times in monotonic ms at which acquisition locks end; None
        without locks."""
        return 0 if self._ended else self._ranges.locks.next_deadline()

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drops the records before the log start offset, even records that members have acquired.
        As in Kafka, the new start offset is stored only with the next change."""
        if log_start_offset > self._ranges.start_offset:
            self._ranges.drop_before(log_start_offset)

    # --- persistence

    def written(self, change: Change, now: Now) -> Sequence[Outcome]:
        """Makes a stored change take effect: released records become available, and the start
        offset moves past records in a final state. Returns the outcomes of the records that were
        archived, except gaps."""
        archived: list[Outcome] = []
        for each in self._pending(change):
            transition = each.transition
            assert transition is not None
            outcome = self._note(each, transition.kind, transition.state, now)
            if outcome is not None and outcome.archived and outcome.kind != "gap":
                archived.append(outcome)
            self._ranges.settle(each, transition.state)
        self._settled(change)
        return archived

    def refresh(self, change: Change) -> None:
        """Sets the start offset and the complete count of ``change`` to the current values. Called
        before ``change`` is stored, because both may have risen while it waited."""
        change.start_offset = self._ranges.start_offset
        change.delivery_complete_count = self._ranges.complete_count

    def failed(self, change: Change, now: Now) -> None:
        """Undoes a change that could not be stored. The changed records stay acquired by the same
        member. Records whose lock has ended are released; this release is not stored."""
        for each in self._pending(change):
            assert each.lock is not None
            if each.lock.ends_ms > now.mono_ms:
                self._ranges.settle(each, ACQUIRED)
                continue
            state = self._limited(AVAILABLE, each)
            self._note(each, "lock expired", state, now)
            self._ranges.settle(each, state)
        self._settled(change)

    # --- views

    def in_flight_count(self) -> int:
        """Returns the number of records from the start to the end offset that are not in a final
        state, or whose final state is not stored yet."""
        return sum(len(each) for each in self._ranges if not is_final(each.state))

    def in_flight(self, first_offset: int = 0) -> Iterator[InFlightRange]:
        """Yields the ranges from the start offset, or from a later ``first_offset``, to the end
        offset. They are in ascending order and without gaps."""
        ranges = self._ranges
        first = max(first_offset, ranges.start_offset)
        for each in ranges.overlapping(first, ranges.end_offset):
            lock = each.lock
            yield InFlightRange(
                each.first,
                each.last,
                each.state,
                each.count,
                "" if lock is None else lock.member_id,
                -1 if lock is None else lock.begins_ms,
                -1 if lock is None else lock.ends_ms,
                each.transition is not None,
            )

    def in_flight_pieces(self) -> Iterator[list[InFlightRange]]:
        """Yields the ranges of `in_flight` in lists of at most `PIECE`. Each offset is in at most
        one list, even if the share partition changes between two lists."""
        offset = 0
        while piece := list(islice(self.in_flight(offset), PIECE)):
            yield piece
            offset = piece[-1].last_offset + 1

    def outcomes(self, first_offset: int, last_offset: int) -> list[Outcome]:
        """Returns the remembered outcomes of deliveries, for records that were delivered again or
        archived. The outcomes of each record are in the order of its deliveries."""
        return self._history.of(first_offset, last_offset)

    def _new_lock(self, member_id: str, now: Now) -> Lock:
        return Lock(member_id, now.wall_ms, now.mono_ms + self._settings.lock_duration_ms)

    def _limited(self, state: DeliveryState, delivered: Range) -> DeliveryState:
        """Returns ARCHIVED instead of AVAILABLE if the records have reached the limit of
        deliveries."""
        if state == AVAILABLE and delivered.count >= self._settings.delivery_count_limit:
            return ARCHIVED
        return state

    def _release(
        self, locks: Collection[Lock], first_offset: int, kind: str
    ) -> tuple[Change | None, bool]:
        """Releases the records that ``locks`` hold at or above ``first_offset``, but at most
        `PIECE` ranges of records. Returns the change, and True if no record is left to release."""
        if not locks:
            return None, True
        ranges = self._ranges
        first = max(min(lock.first_offset for lock in locks), ranges.start_offset, first_offset)
        last = max(lock.last_offset for lock in locks)
        transitions = Transitions(ranges)
        left = PIECE
        for each in ranges.overlapping(first, last):
            if each.lock in locks and each.transition is None:
                transitions.begin(each, self._limited(AVAILABLE, each), kind)
                left -= 1
                if not left:
                    break
        return transitions.change(), left > 0

    def _pending(self, change: Change) -> Iterator[Range]:
        """Yields the ranges with a transition of ``change`` that is not stored yet. Ranges before
        the start offset are left out."""
        for first, last in self._spans(change):
            for each in self._ranges.overlapping(first, last):
                if each.transition is not None and each.transition.change is change:
                    yield each

    def _settled(self, change: Change) -> None:
        for first, last in self._spans(change):
            self._ranges.join(first, last)
        self._ranges.move_start()

    def _spans(self, change: Change) -> Iterator[tuple[int, int]]:
        """Yields ranges (first and last offset) that contain all batches of a change at or above
        the start offset. Batches at most `_NEAR` offsets apart share a range: this is faster."""
        start_offset = self._ranges.start_offset
        first, last = start_offset, start_offset - 1
        for batch in change.batches:
            if batch.last_offset < start_offset:
                continue
            if batch.first_offset > last + _NEAR:
                yield first, last
                first = batch.first_offset
            last = batch.last_offset
        yield first, last

    def _note(self, ended: Range, kind: str, state: DeliveryState, now: Now) -> Outcome | None:
        """Counts the end of a delivery, and adds an entry about it to the history. Returns the
        entry. A first delivery that ended with "accepted" or "gap" gets no entry, and the result is
        None."""
        self._counts.ended(len(ended), kind, state == ARCHIVED)
        if ended.count < 2 and kind in ("accepted", "gap"):
            return None
        assert ended.lock is not None
        if kind == "lock expired":
            self._counts.expiries.note(ended.lock.member_id, len(ended), now.wall_ms)
        outcome = Outcome(
            ended.first,
            ended.last,
            ended.count,
            ended.lock.member_id,
            ended.lock.begins_ms,
            now.wall_ms,
            kind,
            state == ARCHIVED,
        )
        self._history.note(outcome)
        return outcome
