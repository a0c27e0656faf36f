"""A partition: its log, how far it is stable, and the replies that wait for that.

*Stable* records are acknowledged and visible to readers (law 2). A record is stable once it is
appended; if the topic's flush settings require it, once it is flushed. Only this module decides
that: Produce and the shards of the offsets topic call `when_stable` to hold a reply back until its
records are stable.

A partition flushes its log when that is due, and waiting replies share a flush. After a failed
write it tries again, at growing intervals, until a write works (law 6). Use it from the event
loop's thread; `log` documents which of its own methods may run in others.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task, TimerHandle, get_running_loop, wait
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import structlog

from broker.loop.histogram import Writes
from broker.topics.last_stable import LastStable
from broker.topics.partition_services import PartitionServices
from broker.topics.ticket import Ticket
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
"""A disk that has room again takes writes again within so long."""

NEVER = 1 << 62

Reply = Any
"""The value for a ticket; each kind of ticket has its own."""
OnFailure = Callable[[Any, Exception], Any]
"""Makes the error of a reply whose records did not become stable: `NotYetStable` if they may still
be kept, another error if not."""
Waiting = tuple[int, int, Sequence[tuple[Ticket, Reply]], OnFailure]
"""The awaited offset, the deadline (monotonic ms), the replies, and the maker of their errors."""


def all_of_them(_: Waiting) -> bool:
    """Selects all waiting replies."""
    return True


class NotYetStable(Exception):
    """Records are not stable; they may yet be."""


class StableTooLate(NotYetStable):
    """Records were not stable when the time of their reply was over."""


class Owner(Protocol):
    """The only writer of a partition's log: a shard of a coordinator."""

    producers: AcceptedProducers
    """The producers of the log after its accepted records."""

    def log_failed(self) -> None:
        """The log has failed for good."""

    def in_sync_changed(self) -> None:
        """`Partition.enough_in_sync` may have changed."""


class Partition:
    """One partition that this broker serves."""

    is_replica: ClassVar[bool] = False
    """True for a `Replica`, one of several in a cluster; `replica_of` returns it as one."""

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
        """End of what is stable, and of what readers see. It never goes back but by a truncation,
        and only the event loop's thread moves it."""
        self._stable = LastStable(log, self.high_watermark)
        self.writes = writes
        self._services = services
        self._is_served = is_served
        self._active_from = log.active.base_offset
        """Where the active segment began at the last append."""
        self._waiting: deque[Waiting] = deque()
        """In the order of their offsets."""
        self._flush_task: Task[None] | None = None
        self._flushing = False
        """A flush runs in a thread, or begins with the next iteration of the loop."""
        self._promised = False
        """A flush was due: waiting replies follow it, even if new settings require none now."""
        self._probe: Task[None] | None = None
        self._hurry: Event | None = None
        """Ends the pause before the next probe."""
        self._timer: TimerHandle | None = None
        """Fires at the first deadline of the waiting replies."""
        self._timer_ms = NEVER
        """When that is."""
        self.owner: Owner | None = None
        """None where anybody may write."""

    # -- what readers see

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches get when they are appended; 0 in a log that has none yet."""
        return max(self.log.epochs.latest, 0)

    @property
    def enough_in_sync(self) -> bool:
        """Whether as many replicas are in sync as its owner's records need."""
        return self.acks_all_error() == NONE

    def acks_all_error(self) -> int:
        """Why nothing is appended for who waits for all in-sync replicas; NONE where it is."""
        return NONE

    def _in_sync_changed(self) -> None:
        if self.owner is not None:
            self.owner.in_sync_changed()

    @property
    def epoch_end(self) -> int:
        """Where the newest leader epoch ends, for who compares it with what he has read."""
        return self.high_watermark

    def serving_error(self, current_leader_epoch: int) -> int:
        """Why a client is not served that believes in ``current_leader_epoch``; -1: in none.

        NONE where it is; fencing by leader epoch is KIP-320's.
        """
        ours = self.leader_epoch
        if current_leader_epoch in (-1, ours):
            return NONE
        return FENCED_LEADER_EPOCH if current_leader_epoch < ours else UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records end."""
        return self._stable.offset(self.high_watermark)

    def producers_of(self, producer_id: int) -> ProducerStates:
        """The states that decide what a producer may do now: its owner may have accepted more than
        is appended (law 13)."""
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
        """Appends a producer's batches, as `PartitionLog.append` does, and raises what it raises.

        They are stable at once where the high watermark is above the last of them.
        """
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
    """The same for a producer that waits for all in-sync replicas; alone, those are this one."""

    def append_marker(self, marker: Marker, now_ms: int) -> AppendInfo:
        """Appends the end of a transaction; as `PartitionLog.append_marker`, and raises the same.

        It is stable at once where the high watermark is above it.
        """
        try:
            info = self.log.append_marker(marker, self.leader_epoch, now_ms)
        except LogPoisoned as error:
            self.poisoned(error)
            raise
        self.appended(MARKER_BYTES)
        return info

    def appended(self, size_bytes: int) -> None:
        """The log has grown by so much: it is stable now, or a flush begins."""
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
        """How many bytes waiting fetches count for an append of ``size_bytes``.

        As many as they wait for where it began a segment: their position is on an older one now,
        and no fetch waits there.
        """
        active_from = self.log.segments.active.base_offset
        if active_from == self._active_from:
            return size_bytes
        self._active_from = active_from
        return NEVER

    def delete_records(self, offset: int) -> int:
        """As `PartitionLog.delete_records`, of what is stable; raises the same."""
        return self.log.delete_records(offset, self.high_watermark)

    def append_failed(self, error: Exception) -> None:
        """Handles a failed append of the log's owner: unwritten records are given up.

        Replies to written records wait on. Writes are tried until one works; see `writable`.
        """
        if self.log.log_end_offset > self.high_watermark:
            self.appended(0)  # some batches of many
        self.fail_unwritten(error)
        self.poisoned(LogPoisoned(str(error), final=self.log.failed_for_good))

    def close(self, clean: bool = True) -> None:
        """Closes the log; in order if ``clean``: all is flushed then. LogPoisoned, OSError."""
        self.log.close(clean)
        if clean:
            self.high_watermark = self.log.log_end_offset

    # -- who waits

    def when_stable(
        self,
        offset: int,
        replies: Sequence[tuple[Ticket, Reply]],
        on_failure: OnFailure,
        deadline_ms: int = NEVER,
    ) -> None:
        """Delivers each ticket's reply once all records below ``offset`` are stable.

        If that becomes impossible, or does not happen until ``deadline_ms`` (monotonic), the ticket
        gets ``on_failure`` of the reply. Records that are not in the log yet are appended in this
        turn.
        """
        self._waiting.append((offset, deadline_ms, replies, on_failure))
        if offset <= self.log.log_end_offset:
            if offset <= self.high_watermark:
                get_running_loop().call_soon(self._release)  # never before the caller goes on
            else:
                self._await_stable(deadline_ms)

    def keeps(self, offset: int) -> bool:  # noqa: ARG002
        """Whether ``offset`` is acknowledged at once to a producer that waits for the leader
        alone."""
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
        """`when_stable` for a producer: in a cluster it may want the leader alone to have its
        records, and waits for the others no longer than it says."""
        self.when_stable(offset, (reply,), on_failure)

    def _await_stable(self, deadline_ms: int) -> None:
        """Arms the flush and the deadline for replies to records that are not stable yet."""
        self._promise_flush()
        self._arm(deadline_ms)

    @property
    def waiting(self) -> int:
        """How many replies wait."""
        return sum([len(replies) for _, _, replies, _ in self._waiting])

    def _release(self) -> None:
        """Delivers the replies whose records are stable."""
        waiting = self._waiting
        high_watermark = self.high_watermark
        while waiting and waiting[0][0] <= high_watermark:
            self._deliver(waiting.popleft()[2])

    def fail_unwritten(self, error: Exception) -> None:
        """Fails the replies to records that were never appended: their owner has dropped them."""
        if self._waiting:
            self._release()
            end_offset = self.log.log_end_offset
            self._fail_waiting(error, lambda entry: entry[0] > end_offset)

    def expire(self) -> None:
        """Fails the replies whose time is over; their records may yet be kept."""
        self._timer, self._timer_ms = None, NEVER
        now_ms = self._services.time.now().mono_ms
        self._fail_waiting(StableTooLate("not stable in time"), lambda entry: entry[1] <= now_ms)
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
        """Fails the waiting replies that ``is_lost`` selects, all of them by default."""
        lost = [entry for entry in self._waiting if is_lost(entry)]
        if lost:
            self._waiting = deque([entry for entry in self._waiting if not is_lost(entry)])
        for _, _, replies, on_failure in lost:
            self._deliver([(ticket, on_failure(reply, error)) for ticket, reply in replies])

    def _deliver(self, replies: Iterable[tuple[Ticket, Reply]]) -> None:
        """Gives each ticket its reply; one that fails harms no other."""
        for ticket, reply in replies:
            try:
                ticket.take(reply)
            except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
                self._services.errors.caught("reply", error)

    # -- flushing

    @property
    def is_flushing(self) -> bool:
        """Whether a flush of the log is under way."""
        return self._flushing

    def flush_soon(self) -> None:
        """Has all that is appended on the disk soon."""
        if not self._flushing:
            self._begin_flush()

    async def flush(self) -> None:
        """Flushes the log in a thread; then readers have what is stable. Raises LogPoisoned."""
        await self._services.time.in_thread(self.log.flush)
        self.advance()

    def advance(self) -> None:
        """Moves the high watermark to what is stable now, behind a flush."""
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
        """Flushes; records appended during a flush share the next one. No reply is left waiting."""
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
            self._fail_waiting(LogPoisoned("the broker stops"))
            raise
        except Exception as error:
            # No thread or no memory to be had: nothing was said about the disk, so the log goes on,
            # waiting replies are not acknowledged, and the next append starts another flush.
            logger.exception("flush failed: internal error", partition=self.name)
            self._fail_waiting(NotYetStable(f"it could not be flushed: {error!r}"))
        finally:
            self._flushing = self._promised = False
            self._flush_task = None

    async def settled(self) -> None:
        """Waits until no flush runs."""
        if self._flush_task is not None:
            await wait((self._flush_task,))

    # -- failures

    def poisoned(self, error: LogPoisoned) -> None:
        """A write or a flush has failed: the broker stops, or tries until writes succeed again."""
        if self.log.failed_for_good:
            is_served = self._is_served(self)
            if is_served:
                self._services.fail(f"{self.name} can't be written safely any more: {error}")
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
        """Whether writes are tried, until one works."""
        return self._probe is not None

    def probe_now(self) -> None:
        """Where writes are tried: tries one without waiting, since the disk may have room again."""
        if self._hurry is not None:
            self._hurry.set()

    async def writable(self) -> bool:
        """Waits until writes work; False if they never will, or the probing was stopped."""
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
                    return  # its topic was deleted; its files may be another log's
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
        """Stops probing: from now on only the caller that closes the log writes it."""
        if self._probe is not None:
            self._probe.cancel()
        if self._timer is not None:
            self._timer.cancel()
