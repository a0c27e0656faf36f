"""A shard: the groups of one partition of ``__consumer_offsets``. `GroupShard` is the only
interface to the group coordinator's code.

The caller makes one call at a time, and ``now.mono_ms`` never decreases. Tickets are hashable, and
each is used once.

The caller passes every run of an outcome to ``replay`` immediately, in order and with the run's log
offset, so that the next call sees the run. The replies of the outcome are created before the
replay. The caller releases a reply when the records that precede it are stable.

Before ``loaded`` the caller may call only ``restore`` and ``replay``, then ``topics_deleted`` and
``sweep``, and then ``wake``. After ``unload`` every group is DEAD, and the shard is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice

from coordinator import epoch_groups
from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    Ticket,
    TxnOffsetCommit,
)
from coordinator.classic.group import Group
from coordinator.classic.joining import connection_closed, join, pending_due, session_due
from coordinator.classic.membership import heartbeat, leave, sync
from coordinator.classic.rebalance import phase_due, prepare
from coordinator.classic.sweeps import TopicsDeleted, begin, work
from coordinator.commits import commit, fetch
from coordinator.config import GroupConfig
from coordinator.consumer import regexes
from coordinator.deletion import delete_group, offset_delete
from coordinator.events import Cause, ShardLoaded
from coordinator.group_records import GroupRecords
from coordinator.outcome import NOTHING, Outcome
from coordinator.retention import Retention
from coordinator.share import deletion as share_deletion
from coordinator.share import initialization
from coordinator.share.events import Partitions
from coordinator.share.hosting import drop_deleted_topics
from coordinator.step import Handler, ShardState, Step, stepped
from coordinator.timers import GroupTimer
from coordinator.topics_image import TopicsImage
from coordinator.txn_commits import end_offsets, txn_commit
from coordinator.unloading import unload
from coordinator.views import ShardView, describe, list_groups
from offsets.columns import TopicColumns
from offsets.runs import GroupRun, GroupStateRun, OffsetRun, OwnBatch, Run
from protocol.errors import NONE
from protocol.now import Now

_WOKEN_AT_ONCE = 1 << 30
_UNFINISHED = "after a downgrade of the group, the coordinator restarted during the rebalance"


def _heartbeat(state: ShardState, call: Heartbeat, now: Now) -> Outcome:
    code = heartbeat(state, call, now)
    return tuple.__new__(Outcome, ((), ((call.ticket, code),), ()))


_HANDLERS: dict[type, Handler] = {
    Heartbeat: _heartbeat,
    OffsetCommit: commit,
    OffsetFetch: fetch,
    TxnOffsetCommit: txn_commit,
    EndOffsets: end_offsets,
    **epoch_groups.HANDLERS,
    JoinGroup: stepped(join),
    SyncGroup: stepped(sync),
    LeaveGroup: stepped(leave),
    DescribeGroup: describe,
    ListGroups: list_groups,
    DeleteGroup: stepped(delete_group),
    OffsetDelete: stepped(offset_delete),
}


class GroupShard:
    """The groups of one partition of ``__consumer_offsets``."""

    __slots__ = (
        "_deleted_topics", "_live", "_rebalancing", "_records", "_retention", "_state", "_waking",
        "view",
    )  # fmt: skip

    def __init__(self, config: GroupConfig, topics: TopicsImage | None = None) -> None:
        """``topics`` is the image of the cluster's topics. The caller may change the image between
        two calls."""
        self._state = ShardState(config, topics)
        self._live = False
        """False during the load, in which ``replay`` changes classic groups. True after ``loaded``:
        then the handlers change classic groups, and ``replay`` does not."""
        self._records = GroupRecords(self._state)
        self._waking: Iterator[str] | None = None
        """The ids of the groups that ``wake`` has not visited yet; None before the first call of
        ``wake``."""
        self._rebalancing: list[tuple[Group, Cause, str]] = []
        """The loaded groups that must rebalance after the load, each with the cause and its
        description."""
        self._retention = GroupTimer()
        self._deleted_topics = GroupTimer()
        """A timer that is due when a share group has a topic that no longer exists."""
        self.view = ShardView(self._state, self._records.recorded)

    # ------------------------------------------------------------------------------------- calls

    def handle(self, call: Call, now: Now) -> Outcome:
        """Handles one decoded request. The returned outcome or a later one has the reply to its
        ticket."""
        return _HANDLERS[type(call)](self._state, call, now)

    def do(self, work: Callable[[Step], object], now: Now) -> Outcome:
        """Runs ``work``, which changes groups without a request. Used in test mode."""
        return stepped(lambda step, _: work(step))(self._state, None, now)

    def configure(self, config: GroupConfig) -> None:
        self._state.config = config

    def topic_changed(self, name: str) -> None:
        """Handles a change of the topics image: a topic was created, deleted or given more
        partitions."""
        epoch_groups.topic_changed(self._state, name)
        if name not in self._state.topics.by_name:
            self.look_for_deleted_topics()

    def regexes_resolved(
        self, group_id: str, topics: Mapping[str, tuple[str, ...]], version: int, now: Now
    ) -> Outcome:
        """Applies the topics that match a group's regexes, after a `RegexesWanted` event.
        ``version`` is the version in the event. An empty mapping means that the resolution failed.
        """
        group = self._state.consumer_groups.get(group_id)
        if group is None:
            return NOTHING
        return self.do(lambda step: regexes.resolved(step, group, topics, version), now)

    def share_state_initialized(
        self, group_id: str, topics: Partitions, now: Now, error_code: int = NONE
    ) -> Outcome:
        """Handles the end of an initialization of delivery states, after a `ShareStateWanted`
        event. ``topics`` are the topics in the event. After an error the next heartbeat requests
        the initialization again."""
        group = self._state.share_groups.get(group_id)
        if group is None:
            return NOTHING
        apply = initialization.failed if error_code else initialization.initialized
        return self.do(lambda step: apply(step, group, topics), now)

    def share_state_deleted(
        self, group_id: str, topics: Collection[bytes], now: Now, error_code: int = NONE
    ) -> Outcome:
        """Handles the end of a deletion of delivery states, after a `ShareStateDeletion` event.
        ``topics`` are the topic ids in the event."""
        return self.do(
            lambda step: share_deletion.state_deleted(step, group_id, topics, error_code), now
        )

    @property
    def connections(self) -> Collection[Hashable]:
        """The connections of members. The collection is not a copy; callers must not use it after
        the next call of the shard."""
        return self._state.connections.keys()

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """Handles a closed connection. Has no effect if no member uses the connection."""
        return stepped(connection_closed)(self._state, connection, now)

    def topics_deleted(
        self, topics: Mapping[str, int], now: Now, ticket: Ticket | None = None
    ) -> Outcome:
        """Writes tombstones for the committed offsets of deleted topics. ``topics`` has a log
        offset for each topic: only offsets whose records are below this log offset are deleted.

        This call does only the first part of the work. Later calls of `expire` do the other parts;
        before the call of ``loaded``, calls of `sweep` do them. When all parts are done, ``ticket``
        gets the reply NONE.
        """
        deleted = TopicsDeleted(self._state.cache, topics, ticket)
        return stepped(begin)(self._state, deleted, now)

    def expire(self, now: Now, budget: int) -> Outcome:
        """Handles the deadlines that are due, and then unfinished work such as the retention check.
        Does about ``budget`` units of work, but at least one unit.

        A deadline is one unit. The retention check of a group is one unit, or several units if the
        group has many offsets. While more work is due, ``next_deadline`` is not later than now.
        """
        return stepped(self._expire)(self._state, budget, now)

    def _expire(self, step: Step, budget: int) -> None:
        now = step.now
        deadlines = self._state.deadlines
        while budget > 0:
            due_ms = deadlines.next_ms
            if due_ms is None or due_ms > now.mono_ms:
                break
            budget -= 1
            timer = deadlines.pop(now.mono_ms)
            if timer is not None and self._fire(step, timer):
                return
        self._go_on(step, budget)

    @property
    def is_sweeping(self) -> bool:
        return bool(self._state.sweeps)

    def sweep(self, now: Now, budget: int) -> Outcome:
        """Continues the first queued sweep for about ``budget`` units of work. Does not check
        deadlines."""
        return stepped(self._go_on)(self._state, budget, now)

    def _go_on(self, step: Step, budget: int) -> None:
        """Continues the first sweep in the queue, for at most ``budget`` units of work. The second
        sweep begins in a later step, after the records of the first sweep were replayed."""
        sweeps = self._state.sweeps
        if budget > 0 and sweeps and work(step, sweeps[0], budget) > 0:
            sweeps.popleft()

    def _fire(self, step: Step, timer: GroupTimer) -> bool:
        """Handles a timer that is due. Returns True if the next timer must wait until the records
        of the step are replayed."""
        if timer is self._retention:
            if not any(isinstance(sweep, Retention) for sweep in self._state.sweeps):
                state = self._state
                committing = (*state.groups, *state.consumer_groups, *state.streams_groups)
                state.sweeps.append(Retention(committing))
            interval_ms = self._state.config.offsets_retention_check_interval_ms
            self._state.deadlines.arm(timer, step.now.mono_ms + interval_ms)
            return False
        if timer is self._deleted_topics:
            if drop_deleted_topics(step):
                self._state.deadlines.arm(timer, step.now.mono_ms)
            return bool(step.records)
        group = self._state.groups.get(timer.group_id)
        if group is None:
            epoch_groups.fire(step, timer)
            return bool(step.records)
        if timer is group.phase:
            phase_due(step, group)
        elif group.pending.get(timer.member_id) is timer:
            pending_due(step, group, timer.member_id)
        else:
            member = group.members.get(timer.member_id)
            if member is not None and member.session is timer:
                session_due(step, group, member)
        return False

    def look_for_deleted_topics(self) -> None:
        """Arms a timer if a share group has a topic that no longer exists. `expire` then removes
        such topics."""
        state = self._state
        groups = state.share_groups.values() if state.topics.is_complete else ()
        if any(group.stale_topics(state.topics) for group in groups):
            state.deadlines.arm(self._deleted_topics, 0)

    def next_deadline(self) -> int | None:
        """Returns the monotonic time in ms at which ``expire`` has work next. Returns 0 if it has
        work now, None if nothing is scheduled."""
        if self._state.sweeps:
            return 0
        return self._state.deadlines.next_ms

    def unload(self, error_code: int) -> Outcome:
        """Unloads the shard; see `unloading.unload`."""
        return unload(self._state, error_code)

    # --------------------------------------------------------------------------------------- log

    def replay(self, run: Run | OwnBatch, base_offset: int) -> None:
        """Applies a run that is in the log from ``base_offset`` on. Called at load, and after each
        write. Only this method changes committed offsets and consumer groups.

        At load, a classic group's record builds the group. After a write, the handler has already
        changed the classic group, so this method stores only the log offset of the record.
        """
        if type(run) is OffsetRun:  # nearly all runs
            self._state.cache.replay(run, base_offset)
        elif isinstance(run, GroupRun):
            if run.value is None:
                self._records.recorded.pop(run.group_id, None)
            else:
                self._records.recorded[run.group_id] = (base_offset, run.value)
            if not self._live:
                self._records.load(run, base_offset)
            elif (group := self._state.groups.get(run.group_id)) is not None:
                group.record_offset = -1 if run.value is None else base_offset
        elif isinstance(run, GroupStateRun):
            if self._live:
                epoch_groups.replay(self._state, run)
            else:
                self._records.load_state(run)
        else:
            self._state.cache.replay(run, base_offset)

    def replay_all(self, runs: Sequence[Run | OwnBatch], base_offset: int) -> int:
        """Applies the runs of one call, whose records begin at ``base_offset``, as `replay` does.
        Returns the log offset after the last record."""
        cache, index = self._state.cache, 0
        while True:
            index, base_offset = cache.replay_plain(runs, index, base_offset)
            if index == len(runs):
                return base_offset
            self.replay(runs[index], base_offset)
            base_offset += len(runs[index])
            index += 1

    def restore(self, group_id: str, topic: str, columns: TopicColumns) -> None:
        """Loads the offsets of one topic from a snapshot. Called before the records that follow the
        snapshot are replayed."""
        assert not self._live
        self._state.cache.restore(group_id, topic, columns)

    def restore_pending(
        self,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        topic: str,
        columns: TopicColumns,
    ) -> None:
        """Loads pending offsets of a transaction from a snapshot. Must be called before `replay`,
        which may change these offsets."""
        assert not self._live
        pending = self._state.cache.pending
        pending.restore(producer_id, producer_epoch, group_id, topic, columns)

    def wake(self, now: Now, budget: int) -> int:
        """Called after the replay. Prepares at most ``budget`` further groups for calls: starts the
        session of each member with its full timeout, and creates a group for each group id that has
        only offsets. Returns the number of prepared groups; 0 if no groups are left."""
        assert not self._live
        state = self._state
        if self._waking is None:
            named = dict.fromkeys((*state.groups, *epoch_groups.names(state)))
            named.update(dict.fromkeys((*state.cache.groups(), *state.cache.pending.groups())))
            self._waking = iter(named)
        step = Step(state, now)
        awake = 0
        for group_id in islice(self._waking, budget):
            awake += 1
            if epoch_groups.wake(step, group_id):
                continue
            group = state.groups.get(group_id)
            if group is None:
                group = state.groups[group_id] = Group(group_id)
            group.state_since_ms = now.mono_ms
            if state.config.fetch_counts_as_activity and not group.protocol_type:
                group.offsets_read_ms = now.wall_ms  # the log has no fetches: assume a fetch
            for member in group.members.values():
                step.arm(member.session, member.session_timeout_ms)
            if len(group.members) > state.config.max_size:
                detail = f"loaded with {len(group.members)} members, more than group.max.size"
                self._rebalancing.append((group, Cause.OVER_MAX_SIZE, detail))
            elif group.members and group.leader_id is None:
                self._rebalancing.append((group, Cause.COORDINATOR_RESTARTED, _UNFINISHED))
        return awake

    def loaded(self, now: Now) -> Outcome:
        """Ends the load after all records were replayed: calls ``wake`` until it has prepared all
        groups, and then lets the shard accept calls.

        A group with more members than group.max.size rebalances. So does a group that was
        downgraded to a classic group and whose rebalance had not ended.
        """
        while self.wake(now, _WOKEN_AT_ONCE):
            pass
        self._live = True
        step = Step(self._state, now)
        state = self._state
        generations = self._records.take_generations()
        if state.groups:
            step.events.append(ShardLoaded(len(state.groups), generations))
        rebalancing, self._rebalancing = self._rebalancing, []
        for group, cause, detail in rebalancing:
            prepare(step, group, cause, detail)
        interval_ms = state.config.offsets_retention_check_interval_ms
        state.deadlines.arm(self._retention, now.mono_ms + interval_ms)
        self.look_for_deleted_topics()
        return Outcome(step.records, step.replies, step.events)
