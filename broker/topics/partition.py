"""A partition: its log, the end of its stable records, and replies that wait for stable records.

*Stable* records are acknowledged and visible to readers. A record is stable when it is appended or,
if the topic's flush settings require a flush, when it is flushed. Only this module decides whether
a record is stable. Produce and the shards of ``__consumer_offsets`` call `when_stable`, which
delivers a reply when its records are stable.

A partition flushes its log when the flush settings require a flush; one flush serves all waiting
replies. After a failed write, the partition retries at growing intervals until a write succeeds.
Only the event loop's thread may use a partition. `log` documents which methods of a log may run in
other threads.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task, TimerHandle, get_running_loop, wait
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import structlog

from broker.loop.histogram import Writes
from broker.topics.last_stable import LastStable
from broker.topics.partition_services import PartitionServices
from broker.topics.ticket import REPLIES_AT_ONCE, Ticket, deliver_all
from log.errors import LogPoisoned
from log.partition_log import PartitionLog
from log.producers.accepted_producers import AcceptedProducers
from log.producers.producer_state import ProducerStates
from log.values import AppendInfo, Marker
from protocol.buffer import Buffer
from protocol.errors import FENCED_LEADER_EPOCH, NONE, UNKNOWN_LEADER_EPOCH
from protocol.records.batch import BatchHeader
from protocol.records.markers import MARKER_BYTES

logger = structlog.get_logger(__name__)

PROBE_MS_FIRST = 200
PROBE_MS_MAX = 2_000
"""The longest interval in ms between two attempts to write after a failure."""

NEVER = 1 << 62

Reply = Any
"""The reply for a ticket. Its type depends on the ticket."""
OnFailure = Callable[[Any, Exception], Any]
"""A function that returns the error reply for records that did not become stable. Its arguments are
the original reply and an exception. The exception is a `NotYetStable` if the records may still
become stable."""
Waiting = tuple[int, int, Sequence[tuple[Ticket, Reply]], OnFailure]
"""Replies that wait: the offset up to which records must be stable, the deadline (monotonic ms),
the replies with their tickets, and the function that returns error replies."""


def all_of_them(_: Waiting) -> bool:
    """Returns True: the default filter of `Partition._fail_waiting`, which selects all waiting
    replies."""
    return True


class NotYetStable(Exception):
    """Raised if records are not stable yet but may become stable later."""


class StableTooLate(NotYetStable):
    """Raised if the records on which a reply depends are not stable before the timeout of the
    reply."""


class Owner(Protocol):
    """The shard of a coordinator, which is the only writer of a log."""

    producers: AcceptedProducers
    """The producer states, including records that the shard has accepted but not appended yet."""

    def log_failed(self) -> None: ...

    def in_sync_changed(self) -> None:
        """The partition calls this method when the value of `Partition.enough_in_sync` may have
        changed."""


class Partition:
    """One partition that this broker serves."""

    is_replica: ClassVar[bool] = False
    """True for a `Replica`, the partition of a broker in a cluster. `replica_of` casts it."""

    def __init__(
        self,
        log: PartitionLog,
        services: PartitionServices,
        writes: Writes,
        is_served: Callable[[Partition], bool],
        high_watermark: int | None = None,
    ) -> None:
        self.log = log
        self.topic = log.topic
        self.index = log.partition
        self.name = f"{log.topic}-{log.partition}"
        self.high_watermark = log.log_end_offset if high_watermark is None else high_watermark
        """The end of the stable records, up to which consumers read. Only a truncation lowers it.
        Only the event loop's thread changes it."""
        self._stable = LastStable(log, self.high_watermark)
        self.writes = writes
        self._services = services
        self._is_served = is_served
        self._active_from = log.active.base_offset
        """The base offset of the active segment at the last append."""
        self._waiting: deque[Waiting] = deque()
        """The waiting replies, ordered by offset."""
        self._flush_task: Task[None] | None = None
        self._flushing = False
        """True if a flush runs in a thread or will start in the next iteration of the loop."""
        self._promised = False
        """True if replies wait for a flush. This flush must run even if a later change of the flush
        settings no longer requires it."""
        self._probe: Task[None] | None = None
        self._hurry: Event | None = None
        """While the partition pauses before it retries a failed write: an event that ends this
        pause."""
        self._timer: TimerHandle | None = None
        """The timer that fires at the earliest deadline of the waiting replies."""
        self._timer_ms = NEVER
        self.owner: Owner | None = None
        """The shard that is the only writer of the log; None if producers may write."""

    # -- the view of readers

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of newly appended batches; 0 in a log without leader epochs."""
        return max(self.log.epochs.latest, 0)

    @property
    def enough_in_sync(self) -> bool:
        """Returns True if the partition has at least ``min.insync.replicas`` in-sync replicas."""
        return self.acks_all_error() == NONE

    def acks_all_error(self) -> int:
        """Returns the error code with which a Produce with acks=all would be rejected now; NONE if
        it is allowed."""
        return NONE

    def _in_sync_changed(self) -> None:
        if self.owner is not None:
            self.owner.in_sync_changed()

    @property
    def epoch_end(self) -> int:
        """The end offset of the newest leader epoch in the log; for OffsetsForLeaderEpoch."""
        return self.high_watermark

    def serving_error(self, current_leader_epoch: int) -> int:
        """Returns the error code for a request with the leader epoch ``current_leader_epoch``
        (KIP-320), or NONE. The epoch is -1 if the client sent none."""
        ours = self.leader_epoch
        if current_leader_epoch in (-1, ours):
            return NONE
        return FENCED_LEADER_EPOCH if current_leader_epoch < ours else UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, below which read_committed consumers read."""
        return self._stable.offset(self.high_watermark)

    def producers_of(self, producer_id: int) -> ProducerStates:
        """Returns the states for the check of a producer's batches. If a coordinator owns the log,
        these are the coordinator's states, since it may have accepted batches that are not appended
        yet."""
        owner = self.owner
        return self.log.producers if owner is None else owner.producers.of(producer_id)

    # -- appending

    def append(
        self,
        batches: Buffer,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
        from_zero: bool = False,
    ) -> AppendInfo:
        """Appends a producer's batches. Raises the exceptions of `PartitionLog.append`. The batches
        are stable when the high watermark reaches their end, which may be during this call."""
        writes, ticks_ns = self.writes, self._services.time.ticks_ns
        began_ns = ticks_ns()
        try:
            info = self.log.append(batches, self.leader_epoch, now_ms, headers, from_zero)
        except LogPoisoned as error:
            self.poisoned(error)
            raise
        writes.append.add(ticks_ns() - began_ns)
        if not info.duplicate:
            writes.records.add(info.last_offset - info.first_offset + 1)
            self.appended(len(batches))
        return info

    append_for_all = append
    """Appends with acks=all. On a standalone broker this equals `append`."""

    def append_marker(self, marker: Marker, now_ms: int) -> AppendInfo:
        """Appends a transaction marker. Raises the exceptions of `PartitionLog.append_marker`. The
        marker may not be stable yet: it is stable when the high watermark is above its offset."""
        try:
            info = self.log.append_marker(marker, self.leader_epoch, now_ms)
        except LogPoisoned as error:
            self.poisoned(error)
            raise
        self.appended(MARKER_BYTES)
        return info

    def appended(self, size_bytes: int) -> None:
        """Handles an append of ``size_bytes``: the records become stable immediately, or after a
        flush that this method starts."""
        log = self.log
        end_offset = log.log_end_offset
        if end_offset - log.recovery_point < log.config.flush_messages:
            before, self.high_watermark = self.high_watermark, end_offset
            if self._waiting and not self._promised:
                self._release()
            polls = self._services.long_polls
            is_committed = not (self._stable.held or log.producers.open_transactions)
            if not is_committed and self._stable.moved(before, end_offset):
                polls.wake_committed(self.topic, self.index)
            if self.topic in polls.by_topic:
                size_bytes = self.bytes_for_waiters(size_bytes)
                polls.appended(self.topic, self.index, size_bytes, is_committed)
        else:
            self._promise_flush()
            if self._waiting:
                self._arm(self._waiting[-1][1])

    def bytes_for_waiters(self, size_bytes: int) -> int:
        """Returns the number of bytes that an append of ``size_bytes`` counts for waiting fetches.

        Usually this is ``size_bytes``. It is NEVER, which ends every wait, if the append is the
        first in a new segment: a fetch whose position is in an older segment does not wait.
        """
        active_from = self.log.segments.active.base_offset
        if active_from == self._active_from:
            return size_bytes
        self._active_from = active_from
        return NEVER

    def delete_records(self, offset: int) -> int:
        """Deletes the records below ``offset``, which must not exceed the high watermark; see
        `PartitionLog.delete_records`."""
        return self.log.delete_records(offset, self.high_watermark)

    def append_failed(self, error: Exception) -> None:
        """Called when the coordinator that owns the log has failed to append records. These records
        are lost. Replies that wait for earlier, written records continue to wait. The partition
        retries writes until one succeeds; see `writable`."""
        if self.log.log_end_offset > self.high_watermark:
            self.appended(0)  # the batches before the failed one
        self.fail_unwritten(error)
        self.poisoned(LogPoisoned(str(error), final=self.log.failed_for_good))

    def close(self, clean: bool = True) -> None:
        """Closes the log. If ``clean`` is True, first flushes the log. Raises LogPoisoned and
        OSError."""
        self.log.close(clean)
        if clean:
            self.high_watermark = self.log.log_end_offset

    # -- waiting replies

    def when_stable(
        self,
        offset: int,
        replies: Sequence[tuple[Ticket, Reply]],
        on_failure: OnFailure,
        deadline_ms: int = NEVER,
    ) -> None:
        """Delivers each ticket's reply when all records below ``offset`` are stable.

        If the records can't become stable, or are not stable at ``deadline_ms`` (monotonic), the
        ticket gets the result of ``on_failure``. The caller may call this method before it appends
        the records, but must append them in the same turn.
        """
        self._waiting.append((offset, deadline_ms, replies, on_failure))
        if offset <= self.log.log_end_offset:
            if offset <= self.high_watermark:
                get_running_loop().call_soon(self._release)  # only after the caller has continued
            else:
                self._await_stable(deadline_ms)

    def keeps(self, offset: int) -> bool:  # noqa: ARG002
        """Returns True if the record at ``offset`` is as safe as a Produce with acks=1 requires, so
        that the broker may acknowledge it."""
        return False

    def when_acknowledged(
        self,
        offset: int,
        reply: tuple[Ticket, Reply],
        on_failure: OnFailure,
        timeout_ms: int,  # noqa: ARG002
        *,
        by_all: bool,  # noqa: ARG002
    ) -> None:
        """Delivers the reply to a Produce when its records are stable, as `when_stable` does.

        In a cluster, a subclass waits for all in-sync replicas if ``by_all`` is True, otherwise for
        the leader's flush. It waits for at most ``timeout_ms``.
        """
        self.when_stable(offset, (reply,), on_failure)

    def _await_stable(self, deadline_ms: int) -> None:
        """Starts a flush and a timer for ``deadline_ms``, because replies wait until their records
        are stable."""
        self._promise_flush()
        self._arm(deadline_ms)

    @property
    def waiting(self) -> int:
        return sum([len(replies) for _, _, replies, _ in self._waiting])

    def _release(self) -> None:
        waiting = self._waiting
        high_watermark = self.high_watermark
        while waiting and waiting[0][0] <= high_watermark:
            self._deliver(waiting.popleft()[2])

    def fail_unwritten(self, error: Exception) -> None:
        """Fails the replies whose records were never appended. The log's owner has dropped these
        records."""
        if self._waiting:
            self._release()
            end_offset = self.log.log_end_offset
            self._fail_waiting(error, lambda entry: entry[0] > end_offset)

    def expire(self) -> None:
        """Sends an error in place of each reply whose deadline has passed. The records of these
        replies may still become stable."""
        self._timer, self._timer_ms = None, NEVER
        now_ms = self._services.time.now().mono_ms
        late = StableTooLate("the records were not stable before the deadline")
        self._fail_waiting(late, lambda entry: entry[1] <= now_ms)
        if self._waiting:
            self._arm(min([deadline_ms for _, deadline_ms, _, _ in self._waiting]))

    def _arm(self, deadline_ms: int) -> None:
        if deadline_ms < self._timer_ms:
            if self._timer is not None:
                self._timer.cancel()
            time = self._services.time
            delay_ms = max(0, deadline_ms - time.now().mono_ms)
            self._timer = time.call_later(delay_ms / 1000, self.expire)
            self._timer_ms = deadline_ms

    def _fail_waiting(
        self, error: Exception, is_lost: Callable[[Waiting], bool] = all_of_them
    ) -> None:
        lost = [entry for entry in self._waiting if is_lost(entry)]
        if lost:
            self._waiting = deque([entry for entry in self._waiting if not is_lost(entry)])
        for _, _, replies, on_failure in lost:
            self._deliver([(ticket, on_failure(reply, error)) for ticket, reply in replies])

    def _deliver(self, replies: Sequence[tuple[Ticket, Reply]]) -> None:
        """Delivers replies. Catches the exceptions of a ticket, so that the other replies are still
        delivered."""
        if len(replies) > REPLIES_AT_ONCE:
            deliver_all(replies, self._services.errors)
            return
        for ticket, reply in replies:
            try:
                ticket.take(reply)
            except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
                self._services.errors.caught("reply", error)

    # -- flushing

    @property
    def is_flushing(self) -> bool:
        return self._flushing

    def flush_soon(self) -> None:
        """Starts a flush of all appended records, unless a flush is in progress."""
        if not self._flushing:
            self._begin_flush()

    async def flush(self) -> None:
        """Flushes the log in a thread and advances the high watermark. Raises LogPoisoned."""
        await self._services.time.in_thread(self.log.flush)
        self.advance()

    def advance(self) -> None:
        """Called after a flush. Advances the high watermark to the end of the stable records."""
        log = self.log
        stable = log.recovery_point if log.flush_due else log.log_end_offset
        if stable > self.high_watermark:
            before, self.high_watermark = self.high_watermark, stable
            moved = self._stable.moved(before, stable)
            self._services.long_polls.wake_partition(self.topic, self.index, moved)

    def _promise_flush(self) -> None:
        self._promised = True
        if not self._flushing:
            self._begin_flush()

    def _begin_flush(self) -> None:
        self._flushing = True
        self._flush_task = self._services.spawn(self._flush_while_due(), "flush")

    async def _flush_while_due(self) -> None:
        """Flushes until no flush is required. The next flush includes records that are appended
        during a flush."""
        ticks_ns = self._services.time.ticks_ns
        try:
            due = True
            while due:
                began_ns = ticks_ns()
                await self.flush()
                self.writes.fsync.add(ticks_ns() - began_ns)
                self._promised = due = self.log.flush_due
                self._release()
        except LogPoisoned as error:
            self.poisoned(error)
        except CancelledError:
            self._fail_waiting(LogPoisoned("the broker is stopping"))
            raise
        except Exception as error:
            # No thread or no memory was available, which is not an error of the disk: the log stays
            # usable, waiting replies fail, and the next append starts another flush.
            logger.exception("flush failed: internal error", partition=self.name)
            self._fail_waiting(NotYetStable(f"the log could not be flushed: {error!r}"))
        finally:
            self._flushing = self._promised = False
            self._flush_task = None

    async def settled(self) -> None:
        if self._flush_task is not None:
            await wait((self._flush_task,))

    # -- failures

    def poisoned(self, error: LogPoisoned) -> None:
        """Handles a failed write or flush: stops the broker, or retries writes until one
        succeeds."""
        if self.log.failed_for_good:
            is_served = self._is_served(self)
            if is_served:
                self._services.fail(f"{self.name} can no longer be written safely: {error}")
            self._fail_waiting(error)
            if self.owner is not None:
                self.owner.log_failed()
            if is_served:
                logger.critical("the broker stops", partition=self.name, reason=str(error))
        elif self._probe is None:
            self._probe = self._services.spawn(self._probe_until_writable(), "probe")
            logger.error("log can't be written, retrying", partition=self.name, reason=str(error))

    @property
    def is_probing(self) -> bool:
        return self._probe is not None

    def probe_now(self) -> None:
        """Retries a failed write immediately. Called when the disk may have space again."""
        if self._hurry is not None:
            self._hurry.set()

    async def writable(self) -> bool:
        """Waits until a write succeeds. Returns False if the log has failed permanently or the
        retries were stopped."""
        if self._probe is not None:
            await wait((self._probe,))
        return self.log.poisoned is None

    async def _probe_until_writable(self) -> None:
        wait_ms = PROBE_MS_FIRST
        hurry = self._hurry = Event()
        try:
            while True:
                with suppress(TimeoutError):
                    async with self._services.time.real.within(wait_ms / 1000):
                        await hurry.wait()
                hurry.clear()
                wait_ms = min(2 * wait_ms, PROBE_MS_MAX)
                if not self._is_served(self):
                    return  # the topic was deleted; another log may have the file names
                try:
                    self.log.probe()
                except OSError:
                    continue
                if self.log.poisoned is None:
                    logger.info("log can be written again", partition=self.name)
                    return
        except LogPoisoned as error:
            self.poisoned(error)
        finally:
            self._probe = self._hurry = None

    def stop(self) -> None:
        """Stops the retries of writes. Afterwards only the code that closes the log may write."""
        if self._probe is not None:
            self._probe.cancel()
        if self._timer is not None:
            self._timer.cancel()
