"""The state of following one partition: the fetcher's next step, and the effect of the leader's
responses on the follower's log."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import structlog

from broker.cluster.lines import AGAIN_MS, PartitionLines
from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.replicas.fetch_messages import Answered, Asked
from broker.time import Time
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import NotFollower
from log.errors import LogPoisoned
from log.partition_log import PartitionLog
from protocol.errors import NAMES, NONE, ProtocolError
from protocol.records.corrupt import CorruptRecords
from replication.follower import Begin, OnError, Way, begin, cut_to, is_expected, on_error, reset

logger = structlog.get_logger(__name__)

NEVER = 1 << 62


class Next(Enum):
    """The fetcher's next step for a partition. `broker/cluster/replicas/fetcher.py` describes the
    steps."""

    CUT = "cut"
    ASK = "ask"
    FETCH = "fetch"
    RESET = "reset"
    WAIT = "wait"


_FIRST = {Begin.CUT: Next.CUT, Begin.ASK: Next.ASK, Begin.FETCH: Next.FETCH}


class EndOfEpoch(NamedTuple):
    """The leader's answer about one partition in an OffsetForLeaderEpoch response."""

    error_code: int
    leader_epoch: int
    end_offset: int


class EndsOfLog(NamedTuple):
    """The start and end offsets of the leader's log, from ListOffsets responses."""

    error_code: int
    start_offset: int
    end_offset: int


def way_of(spoken: InterBroker) -> Way:
    """Returns the method by which followers find the offset to truncate to. The method depends on
    the inter-broker protocol version ``spoken``."""
    if spoken.truncates_on_fetch:
        return Way.BY_FETCH
    return Way.BY_EPOCH if spoken.has_leader_epochs else Way.BY_HIGH_WATERMARK


async def sync_cuts(due: Iterable[Followed], time: Time) -> None:
    """Fsyncs the logs that the followers have truncated, in a thread. The caller must not send the
    next Fetch before this coroutine has ended.

    A Fetch contains the log end offset of the follower, so the truncation must be on disk first. If
    another fetcher takes over a partition, it also waits for this fsync.
    """
    cut = [each.replica.log for each in due if not each.replica.log.cuts_are_synced]
    if cut:
        await time.in_thread(_sync_each, cut)


def _sync_each(logs: Iterable[PartitionLog]) -> None:
    """Fsyncs the truncations of logs. If the fsync of a log fails, the log is poisoned, and accepts
    no records until the broker restarts."""
    for log in logs:
        with suppress(LogPoisoned):
            log.sync_cuts()


class Followed:
    """The state of one partition that this broker follows, in one leader epoch."""

    def __init__(
        self,
        replica: Replica,
        spoken: InterBroker,
        lines: PartitionLines,
        before: Followed | None = None,
    ) -> None:
        """``lines`` collects log lines that many partitions may cause. ``before`` is the state of
        the partition in an earlier leader epoch with the same leader.

        In some versions of the inter-broker protocol, a follower truncates its log to the high
        watermark when it begins to follow a leader. If ``before`` shows that this broker already
        fetched from this leader, the log is not truncated: the leader may have committed records
        above the follower's high watermark (KIP-101; Kafka 0.10.2 did the same).
        """
        self.replica = replica
        self.place = (replica.topic, replica.index)
        self.leader_epoch = replica.leader_epoch
        way = way_of(spoken)
        self.step = _FIRST[begin(way, replica.log.epochs.latest)]
        if way is Way.BY_HIGH_WATERMARK and before is not None and before.step is Next.FETCH:
            self.step = Next.FETCH
        self.due_ms = 0
        """The monotonic time in ms at which the next step is due. After an error it is in the
        future."""
        self.leader_high_watermark = -1
        """The high watermark in the leader's last response; -1 before the first response."""
        self._lines = lines
        self.trouble: str | None = None
        """The reason why the last attempt failed; None after a success."""
        self._silent_until_ms = 0
        """The monotonic time in ms until which further errors are not logged."""
        self.behind_since_ms = NEVER
        """The monotonic time in ms since which this follower's log has lacked committed records;
        NEVER if it lacks no committed records."""

    @property
    def lag(self) -> int:
        """The number of records that the log lacks up to the leader's last known high watermark."""
        return max(0, self.leader_high_watermark - self.replica.log.log_end_offset)

    @property
    def is_stopped(self) -> bool:
        """True if the partition is no longer fetched in this leader epoch."""
        return self.step is Next.WAIT

    def note_lag(self, now_ms: int) -> None:
        """Updates `behind_since_ms`; called after each Fetch response."""
        self.behind_since_ms = min(self.behind_since_ms, now_ms) if self.lag else NEVER

    def is_due(self, now_ms: int) -> bool:
        """Returns True if the next request for this partition may be sent at ``now_ms``."""
        return self.due_ms <= now_ms

    # -- requests

    def asked(self, max_bytes: int, *, by_epoch: bool) -> Asked:
        """Returns the partition's entry in a Fetch request, which requests records from the log end
        offset on."""
        log = self.replica.log
        last_epoch = log.epochs.latest if by_epoch else -1
        return Asked(
            self.place[1],
            self.leader_epoch,
            log.log_end_offset,
            last_epoch,
            log.log_start_offset,
            max_bytes,
        )

    @property
    def is_held_back(self) -> bool:
        """True if fetching pauses because the replica is not caught up and replication exceeds its
        quota."""
        if 0 <= self.leader_high_watermark <= self.replica.log.log_end_offset:
            return False
        return self.replica.quotas.follower.holds_back(*self.place)

    # -- responses

    def cut_to_high_watermark(self, again_ms: int) -> None:
        """Truncates the log to the replica's high watermark, because the records after the high
        watermark may not be committed."""
        try:
            self._cut(self.replica.high_watermark)
        except (NotFollower, LogPoisoned) as error:
            self._failed(error, again_ms)
        else:
            self._go_on(Next.FETCH)

    def epoch_ended(self, answer: EndOfEpoch, again_ms: int) -> None:
        """Handles the leader's response to OffsetForLeaderEpoch. The response contains the offset
        at which the last epoch of the follower's log ends in the leader's log."""
        if answer.error_code != NONE:
            self._refused(answer.error_code, again_ms)
            return
        done = self._diverged(answer.leader_epoch, answer.end_offset, again_ms)
        if done is not None:
            self.step = Next.FETCH if done else Next.ASK

    def reset(self, ends: EndsOfLog, again_ms: int) -> None:
        """Handles the leader's log start and log end offsets after OFFSET_OUT_OF_RANGE."""
        if ends.error_code != NONE:
            self._rest(again_ms)
            return
        replica = self.replica
        to = reset(ends.start_offset, ends.end_offset, replica.log.log_end_offset)
        logger.warning(
            "replica log does not overlap the leader's log, fetch offset reset",
            partition=replica.name,
            end_offset=replica.log.log_end_offset,
            leader_start_offset=ends.start_offset,
            leader_end_offset=ends.end_offset,
            offset=to.offset,
        )
        try:
            if to.drop_all:
                replica.start_at(to.offset)
            else:
                self._cut(to.offset)
        except (NotFollower, LogPoisoned) as error:
            self._failed(error, again_ms)
        else:
            self._go_on(Next.FETCH)

    def answered(self, found: Answered, again_ms: int) -> Answered | None:
        """Handles this partition's entry in a Fetch response. Appends the first batches of the
        entry. If batches are left, returns the entry with only the batches that are left, which the
        caller passes to the next call; otherwise returns None."""
        if found.error_code != NONE:
            self._refused(found.error_code, again_ms)
            return None
        if found.diverging is not None:
            self._diverged(*found.diverging, again_ms)
            return None
        try:
            taken = self.replica.append_replicated(
                found.records, found.high_watermark, found.log_start_offset
            )
        except (CorruptRecords, ProtocolError, NotFollower, LogPoisoned) as error:
            self._failed(error, again_ms)
            return None
        self.trouble = None
        self.leader_high_watermark = found.high_watermark
        self.replica.quotas.follower.count(*self.place, taken)
        left = found.records[taken:]
        return found._replace(records=left) if taken and left else None

    def wait(self) -> None:
        """Stops fetching until the controller announces another leader epoch."""
        self.step, self.due_ms = Next.WAIT, NEVER

    # -- inside

    def _diverged(self, leader_epoch: int, leader_end: int, again_ms: int) -> bool | None:
        """Truncates the log at the offset where it diverges from the leader's log.

        Returns True if the truncation is complete, False if the leader must be asked again, and
        None after an error.
        """
        replica = self.replica
        log = replica.log
        end_offset = log.log_end_offset
        cut = cut_to(
            leader_epoch,
            leader_end,
            lambda epoch: log.epochs.end_offset_for(epoch, log.log_end_offset),
            end_offset,
            replica.high_watermark,
        )
        try:
            end = self._cut(cut.offset)
        except (NotFollower, LogPoisoned) as error:
            self._failed(error, again_ms)
            return None
        if end < end_offset:
            self._lines.add(
                "replica log truncated: the log diverged from the leader's log",
                replica.name,
                from_offset=end_offset,
                to_offset=end,
                leader_epoch=self.leader_epoch,
            )
        return cut.done

    def _cut(self, offset: int) -> int:
        return self.replica.truncate_for_leader(offset)

    def _refused(self, error_code: int, again_ms: int) -> None:
        what = on_error(error_code, self.leader_epoch, self.replica.leader_epoch)
        error = NAMES.get(error_code, str(error_code))
        self.trouble = f"the leader returned {error}"
        if what is OnError.RESET:
            self.step = Next.RESET
        elif what is OnError.RETRY:
            if not is_expected(error_code) and self._is_news(again_ms):
                self._lines.add(
                    "replica fetch rejected by the leader, retrying",
                    self.replica.name,
                    leader_epoch=self.leader_epoch,
                    error=error,
                )
            self._rest(again_ms)
        elif what is OnError.WAIT:
            self._lines.add(
                "replica fenced: not fetched until its leader epoch changes",
                self.replica.name,
                leader_epoch=self.leader_epoch,
                error_code=error_code,
            )
            self.wait()

    def _failed(self, error: Exception, again_ms: int) -> None:
        """Handles a failed append or truncation. Schedules another attempt, unless the log accepts
        no appends until a restart."""
        replica = self.replica
        self.trouble = str(error)
        if isinstance(error, NotFollower) or replica.log.failed_for_good:
            self.wait()
            return
        if self._is_news(again_ms):
            logger.error("replica can't append, retrying", partition=replica.name, why=str(error))
        self._rest(again_ms)

    def _is_news(self, again_ms: int) -> bool:
        """Returns True if an error of this partition must be logged, because no other error of the
        partition was logged shortly before. ``again_ms`` is the time of the next attempt."""
        if again_ms < self._silent_until_ms:
            return False
        self._silent_until_ms = again_ms + AGAIN_MS
        return True

    def _go_on(self, step: Next) -> None:
        self.step, self.due_ms = step, 0

    def _rest(self, again_ms: int) -> None:
        self.due_ms = again_ms
