"""This broker's replica of a partition in a cluster: a leader, a follower, or neither.

| role | writer of its log | high watermark | readers |
|---|---|---|---|
| unassigned | none | unchanged | none: NOT_LEADER_OR_FOLLOWER |
| leader | producers and shards, in its leader epoch | the minimum of all in-sync replicas | all |
| follower | its fetcher, with the leader's bytes | the leader's, at most its own end | none |
| offline | none: its directory has failed | unchanged | none: KAFKA_STORAGE_ERROR |

Only LeaderAndIsr and StopReplica change a role (`broker/cluster/`). When leadership ends, replies
that wait for stable records fail with NotLeader.

The rules of the in-sync replicas are in `replication/leader.py`, the rules of a follower in
`replication/follower.py`; this module applies their results. Requests are checked against the
leader epoch of the last LeaderAndIsr, not against the epochs of records in the log.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable, Collection

from broker.loop.histogram import Writes
from broker.topics.partition import OnFailure, Partition, Reply, Waiting, all_of_them
from broker.topics.replicas.idle_followers import IdleFollowers
from broker.topics.replicas.replica_services import ReplicaServices
from broker.topics.replicas.roles import NotEnoughReplicas, NotFollower, NotLeader, Role
from broker.topics.ticket import Ticket
from log.errors import LogBusy, LogPoisoned
from log.partition_log import PartitionLog
from log.replicated import BelowEnd
from log.values import AppendInfo, Marker
from protocol.buffer import Buffer
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
)
from protocol.records.batch import BatchHeader
from replication.follower import follower_high_watermark
from replication.leader import LedReplicas
from replication.values import PartitionState, Step

NO_EPOCH = -1


class Replica(Partition):
    """This broker's replica of one partition."""

    is_replica = True
    _services: ReplicaServices

    def __init__(
        self,
        log: PartitionLog,
        services: ReplicaServices,
        writes: Writes,
        is_served: Callable[[Partition], bool],
        high_watermark: int,
        lower_recovery_point: Callable[[tuple[str, int], int], None],
    ) -> None:
        """Creates the replica. ``lower_recovery_point`` lowers the recovery point in the
        checkpoint; this function waits for the disk."""
        stable = follower_high_watermark(high_watermark, log.log_end_offset, log.log_start_offset)
        super().__init__(log, services, writes, is_served, stable)
        log.committed_offset = stable
        self._lower_recovery_point = lower_recovery_point
        self.quotas = services.quotas
        self.totals = services.totals
        self.role = Role.UNASSIGNED
        self.state: PartitionState | None = None
        """The state that the controller sent last, with later ISR changes."""
        self.led: LedReplicas | None = None
        """The progress of all replicas of the partition, if this broker is the leader; otherwise
        None."""
        self._unflushed: deque[tuple[int, tuple[Ticket, Reply], OnFailure]] = deque()
        """Replies to producers with acks=1 that wait until the leader has flushed the records.
        Ordered by offset."""
        self.quiet = IdleFollowers()

    # -- roles

    def lead(self, state: PartitionState) -> bool:
        """Makes this broker the leader in the epoch of ``state``. Returns False if it was already
        the leader.

        First fsyncs the truncations that this broker made as a follower, unless the fetcher has
        fsynced them. If LogPoisoned is raised, the epoch could not be written, and this broker is
        not the leader.
        """
        now_ms = self._services.time.now().mono_ms
        end_offset = self.log.log_end_offset
        if self.state is None or state.leader_epoch > self.state.leader_epoch:
            try:
                self.log.sync_cuts()
                self.log.start_epoch(state.leader_epoch)
            except LogPoisoned as error:
                self.poisoned(error)
                raise
        self.state, self.role = state, Role.LEADER
        self.quiet.stir(wake=True)
        if (led := self.led) is not None:
            led.rules = self._services.rules(self.topic)
            self._services.report_isr_change(self, led, now_ms, state)
            self._take(led.new_state(state, end_offset, now_ms))
            self._in_sync_changed()
            return False
        self.led = led = LedReplicas(
            self._services.node_id, state, end_offset, self.high_watermark, end_offset, now_ms,
            self._services.rules(self.topic),
        )  # fmt: skip
        self._take(led.begun(now_ms))
        return True

    def follow(self, state: PartitionState) -> None:
        """Makes this broker a follower, even if the partition has no leader. After that, only the
        fetcher writes to the log."""
        self._leave(Role.FOLLOWER, f"Another broker is now the leader of {self.name}.")
        self.state = state

    def stand_by(self) -> None:
        """Makes the replica unassigned until the controller assigns another role."""
        self._leave(Role.UNASSIGNED, f"This broker is no longer the leader of {self.name}.")

    def offline(self) -> None:
        self._leave(Role.OFFLINE, f"The directory of {self.name} has failed.")

    def _leave(self, role: Role, why: str) -> None:
        self.role, self.led = role, None
        self._fail_waiting(NotLeader(why))
        self.quiet.stir(wake=True)
        self._services.long_polls.wake_all(self.topic, self.index)

    # -- checks of requests

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last LeaderAndIsr request; NO_EPOCH before the first request."""
        return NO_EPOCH if self.state is None else self.state.leader_epoch

    def serving_error(self, current_leader_epoch: int) -> int:
        """Returns the error with which this broker refuses a request that has
        ``current_leader_epoch``; NONE if this broker is the leader in that epoch. -1 means that the
        request has no epoch."""
        if self.role is Role.OFFLINE:
            return KAFKA_STORAGE_ERROR
        if self.state is None:
            return NOT_LEADER_OR_FOLLOWER
        ours = self.state.leader_epoch
        if current_leader_epoch not in (-1, ours):
            return FENCED_LEADER_EPOCH if current_leader_epoch < ours else UNKNOWN_LEADER_EPOCH
        return NOT_LEADER_OR_FOLLOWER if self.led is None else NONE

    # -- a leader

    def append(
        self,
        batches: Buffer,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
        from_zero: bool = False,
    ) -> AppendInfo:
        """Implements `Partition.append`. Also raises NotLeader."""
        self._check_led()
        return super().append(batches, now_ms, headers, from_zero)

    def append_for_all(
        self,
        batches: Buffer,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
        from_zero: bool = False,
    ) -> AppendInfo:
        """Appends with acks=all. Raises the exceptions of `append`, and NotEnoughReplicas."""
        self._check_in_sync()
        return super().append(batches, now_ms, headers, from_zero)

    def acks_all_error(self) -> int:
        if self.led is None:
            return NOT_LEADER_OR_FOLLOWER
        self.led.rules = self._services.rules(self.topic)
        return self.led.acks_all_error()

    def append_marker(self, marker: Marker, now_ms: int) -> AppendInfo:
        """Implements `Partition.append_marker`. Also raises NotLeader and NotEnoughReplicas."""
        self._check_in_sync()
        return super().append_marker(marker, now_ms)

    def _check_in_sync(self) -> None:
        self._check_led()
        if self.acks_all_error() == NOT_ENOUGH_REPLICAS:
            raise NotEnoughReplicas(f"{self.name} has fewer in-sync replicas than required.")

    def _check_led(self) -> None:
        if self.led is None:
            raise NotLeader(f"This broker is not the leader of {self.name}.")

    def appended(self, size_bytes: int) -> None:
        """Handles an append: wakes the fetch requests of followers. The records become stable when
        all in-sync followers have them."""
        log = self.log
        if self.led is not None:
            self.quiet.appended(self.led)
        waited_for = self.bytes_for_waiters(size_bytes)
        self._services.long_polls.appended_behind(self.topic, self.index, waited_for)
        if log.flush_due:
            self._promise_flush()
        if self.led is not None:
            self._take(self.led.appended(log.log_end_offset, self._services.time.now().mono_ms))
            if self._waiting:
                self._arm(self._waiting[-1][1])

    def delete_records(self, offset: int) -> int:
        """Implements `Partition.delete_records`. Responses to later fetches contain the new log
        start offset."""
        low_watermark = super().delete_records(offset)
        self.quiet.stir(wake=False)
        return low_watermark

    def keeps(self, offset: int) -> bool:
        """Implements `Partition.keeps`. Returns False if the flush settings require an fsync and
        the record at ``offset`` is not fsynced yet."""
        return not self.log.flush_due or offset < self.log.recovery_point

    def when_acknowledged(
        self,
        offset: int,
        reply: tuple[Ticket, Reply],
        on_failure: OnFailure,
        timeout_ms: int,
        *,
        by_all: bool,
    ) -> None:
        if by_all:
            deadline_ms = self._services.time.now().mono_ms + max(0, timeout_ms)
            self.when_stable(offset, (reply,), on_failure, deadline_ms)
        else:
            self._unflushed.append((offset, reply, on_failure))
            self._promise_flush()

    def _reply_flushed(self, error: Exception | None = None) -> None:
        """Delivers the acks=1 replies whose records are flushed. If ``error`` is set, replaces all
        waiting acks=1 replies by error replies."""
        waiting = self._unflushed
        while waiting and (error is not None or waiting[0][0] <= self.log.recovery_point):
            _, (ticket, reply), on_failure = waiting.popleft()
            self._deliver([(ticket, reply if error is None else on_failure(reply, error))])

    def _fail_waiting(
        self, error: Exception, is_lost: Callable[[Waiting], bool] = all_of_them
    ) -> None:
        super()._fail_waiting(error, is_lost)
        if is_lost is all_of_them:
            self._reply_flushed(error)

    def _await_stable(self, deadline_ms: int) -> None:
        if self.led is None:
            get_running_loop().call_soon(self._refuse_waiting)
            return
        if self.log.flush_due:
            self._promise_flush()
        self._arm(deadline_ms)

    def _refuse_waiting(self) -> None:
        if self.led is None:
            self._fail_waiting(NotLeader(f"This broker is not the leader of {self.name}."))

    @property
    def epoch_end(self) -> int:
        """The log end offset. The high watermark could be too low: a new leader may not know yet
        that its last records are committed. A reader would treat these records as lost."""
        return self.log.log_end_offset

    @property
    def end_is_unknown(self) -> bool:
        """Returns True if the high watermark of this new leader is below the start offset of its
        epoch. More records may then be committed than the leader knows."""
        return self.led is not None and self.high_watermark < self.led.epoch_start_offset

    def follower_error(self, replica_id: int) -> int:
        """Returns the error code for a fetch of broker ``replica_id``: NONE if it is a follower. If
        it is not, UNKNOWN_LEADER_EPOCH: it may be a follower in a newer leader epoch that this
        broker does not know yet. NOT_LEADER_OR_FOLLOWER if this broker is not the leader."""
        if self.led is None:
            return NOT_LEADER_OR_FOLLOWER
        return NONE if replica_id in self.led.followers else UNKNOWN_LEADER_EPOCH

    def advance(self) -> None:
        """Implements `Partition.advance`. Flushed records become stable when all in-sync replicas
        have them."""
        self._reply_flushed()
        if self.led is not None:
            self._raise_to(self.led.high_watermark)

    def follower_fetched(self, replica_id: int, offset: int) -> None:
        assert self.led is not None
        now_ms = self._services.time.now().mono_ms
        self._take(self.led.follower_fetched(replica_id, offset, self.log.log_end_offset, now_ms))

    def tick(self) -> None:
        """Checks for in-sync replicas that lag. Called at intervals of half of
        replica.lag.time.max.ms, and when a broker is no longer live."""
        if self.led is not None:
            self.led.rules = self._services.rules(self.topic)
            self._take(self.led.tick(self._services.time.now().mono_ms))
            self._in_sync_changed()

    def remove_from_isr(self, followers: Collection[int]) -> None:
        """Requests the removal of followers from the ISR, as `tick` does for lagging followers.
        Only tests call this method."""
        if self.led is not None:
            self._take(self.led.lagged(followers, self._services.time.now().mono_ms))

    def removes_in_ms(self) -> int | None:
        """Returns the time in ms after which `tick` will remove a replica from the ISR unless it
        stops lagging; None if no replica lags."""
        led = self.led
        return None if led is None else led.removes_in_ms(self._services.time.now().mono_ms)

    def isr_written(self, partition_epoch: int) -> None:
        """Called when the ISR that this leader requested is in ZooKeeper: uses this ISR.
        ``partition_epoch`` is the new version of the state znode."""
        if self.led is not None:
            now_ms = self._services.time.now().mono_ms
            self._services.report_isr_change(self, self.led, now_ms)
            self._take(self.led.isr_written(partition_epoch, now_ms))
            self.state = self.led.state
            self._in_sync_changed()

    def isr_refused(self, error_code: int) -> None:
        """Handles the rejection of an ISR change by ZooKeeper or the controller."""
        if self.led is not None:
            self.totals.failed_changes += 1
            now_ms = self._services.time.now().mono_ms
            self._take(self.led.isr_refused(error_code, now_ms))

    def _take(self, step: Step) -> None:
        if (wanted := step.wanted_isr) is not None:
            self._services.isr_writer.wanted(self, wanted.isr, wanted.expected_partition_epoch)
        self._raise_to(step.high_watermark)

    def _raise_to(self, replicated: int) -> None:
        """Advances the high watermark to ``replicated``. While a flush of the log is due, the high
        watermark stays at or below the end of the flushed records."""
        log = self.log
        stable = min(replicated, log.recovery_point if log.flush_due else log.log_end_offset)
        if stable > self.high_watermark:
            before, self.high_watermark = self.high_watermark, stable
            log.committed_offset = stable
            self.quiet.stir(wake=False)
            moved = self._stable.moved(before, stable)
            self._services.long_polls.wake_partition(self.topic, self.index, moved)
            if self._waiting and not self._promised:
                self._release()

    # -- a follower

    def append_replicated(
        self, batches: Buffer, leader_high_watermark: int, leader_log_start_offset: int
    ) -> int:
        """Appends ``batches`` from a leader's response. They must begin at the log end offset.
        Returns the number of appended bytes. If this is less than the size of ``batches``, the
        caller must call the method again with the remaining bytes. Raises NotFollower and
        LogPoisoned; also CorruptRecords, and the log is then unchanged."""
        self._followed()
        log = self.log
        now_ms = self._services.time.now().wall_ms
        try:
            try:
                size_bytes = log.append_replicated(batches, now_ms)
            except BelowEnd as below:
                if log.log_end_offset > log.log_start_offset:
                    raise
                start_offset = log.log_start_offset
                log.start_at(below.first_offset, now_ms)
                size_bytes = log.append_replicated(batches, now_ms)
                log.delete_records(start_offset)
            if log.log_start_offset < leader_log_start_offset <= log.log_end_offset:
                log.delete_records(leader_log_start_offset)
        except LogPoisoned as error:
            self.poisoned(error)
            raise
        if log.flush_due:
            self._promise_flush()
        self._follow_to(leader_high_watermark)
        self.totals.taken(self.state, self._services.node_id, size_bytes)
        return size_bytes

    def _follow_to(self, leader_high_watermark: int) -> None:
        log = self.log
        self.high_watermark = log.committed_offset = follower_high_watermark(
            leader_high_watermark, log.log_end_offset, log.log_start_offset
        )

    def truncate_for_leader(self, offset: int) -> int:
        """Truncates the log to ``offset``, since the leader does not have the later records.
        Returns the new log end offset. Raises NotFollower. Raises LogPoisoned, also if the log is
        temporarily busy."""
        end_offset = self._cut(offset, self.log.truncate_to)
        self._follow_to(self.high_watermark)
        return end_offset

    def start_at(self, offset: int) -> None:
        """Removes all records and continues at ``offset``, since the leader's log starts there.
        Raises the exceptions of `truncate_for_leader`."""
        self._cut(offset, self.log.start_at)
        self._follow_to(offset)

    def _cut(self, offset: int, cut: Callable[[int, int], int]) -> int:
        """Lowers the recovery point in the checkpoint, and then truncates the log by calling
        ``cut``."""
        self._followed()
        log = self.log
        try:
            if offset < log.recovery_point:
                log.recovery_point = offset  # first, since a thread may write checkpoints now
                self._lower_recovery_point((self.topic, self.index), offset)
            end_offset = cut(offset, self._services.time.now().wall_ms)
            log.drop_empty_epochs()
        except (LogBusy, OSError) as error:
            raise LogPoisoned(str(error)) from error
        except LogPoisoned as error:
            self.poisoned(error)
            raise
        self._stable.moved(end_offset, min(self.high_watermark, end_offset))
        return end_offset

    def _followed(self) -> PartitionState | None:
        if self.role is not Role.FOLLOWER:
            raise NotFollower(f"This broker is not a follower of {self.name}.")
        return self.state

    def close(self, clean: bool = True) -> None:
        """Extends `Partition.close`. Does not advance the high watermark, since records that are
        not replicated are not committed."""
        self.log.close(clean)
