"""A shard: the groups of one ``__consumer_offsets`` partition, and the only interface of the core.

The caller makes one call at a time, and ``now.mono_ms`` never decreases. Tickets are hashable, and
each is used once. The caller passes every run of an outcome to ``replay`` at once, in order and
with the run's log offset, so that the next call sees the run. The replies of the outcome are made
before the replay; the caller releases a reply when the records before it are stable. Before
``loaded`` it may call only ``restore`` and ``replay``, then ``topics_deleted`` and ``sweep``, and
then ``wake``. After ``unload`` every group is DEAD, and the shard is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import islice
from typing import Any

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
from coordinator.classic.states import State
from coordinator.classic.sweeps import Retention, TopicsDeleted, begin, work
from coordinator.commits import commit, fetch
from coordinator.config import GroupConfig
from coordinator.deletion import delete_group, offset_delete
from coordinator.events import LOADED_ID_CHARACTERS, Cause, LoadedGeneration, ShardLoaded
from coordinator.outcome import JoinReply, Outcome, SyncReply
from coordinator.refusal import MUST_NAME_GROUP, failed, refusal
from coordinator.step import ShardState, Step
from coordinator.timers import GroupTimer
from coordinator.txn_commits import end_offsets, txn_commit
from coordinator.views import ShardView, describe, list_groups
from journal.texts import cut
from offsets.columns import TopicColumns
from offsets.runs import GroupRun, GroupValue, OwnBatch, Run
from protocol.errors import INVALID_GROUP_ID
from protocol.now import Now

GENERATIONS_KEPT = 8
"""Number of generations of each group that a load keeps; the journal begins with them."""

_WOKEN_AT_ONCE = 1 << 30

_Handler = Callable[[ShardState, Any, Now], Outcome]


def _heartbeat(state: ShardState, call: Heartbeat, now: Now) -> Outcome:
    code = heartbeat(state, call, now)
    return tuple.__new__(Outcome, ((), ((call.ticket, code),), ()))


def _stepped(handler: Callable[[Step, Any], object]) -> _Handler:
    """Return a handler that collects its outcome in a Step.

    A call that needs a group id and has an empty one is refused before ``handler`` runs.
    """

    def handle(state: ShardState, call: Any, now: Now) -> Outcome:
        step = Step(state, now)
        try:
            if isinstance(call, MUST_NAME_GROUP) and not call.group_id:
                step.reply(call.ticket, refusal(call, INVALID_GROUP_ID))
            else:
                handler(step, call)
        except Exception:
            state.interrupted += step.replies
            raise
        return Outcome(step.records, step.replies, step.events)

    return handle


_HANDLERS: dict[type, _Handler] = {
    Heartbeat: _heartbeat,
    OffsetCommit: commit,
    OffsetFetch: fetch,
    TxnOffsetCommit: txn_commit,
    EndOffsets: end_offsets,
    JoinGroup: _stepped(join),
    SyncGroup: _stepped(sync),
    LeaveGroup: _stepped(leave),
    DescribeGroup: describe,
    ListGroups: list_groups,
    DeleteGroup: _stepped(delete_group),
    OffsetDelete: _stepped(offset_delete),
}


class GroupShard:
    """The groups of one partition of ``__consumer_offsets``."""

    __slots__ = (
        "_generations",
        "_live",
        "_oversized",
        "_recorded",
        "_retention",
        "_state",
        "_waking",
        "view",
    )

    def __init__(self, config: GroupConfig) -> None:
        self._state = ShardState(config)
        self._live = False
        """Whether ``loaded`` was called. After that call, handlers change groups and ``replay``
        does not."""
        self._generations: dict[str, list[LoadedGeneration]] = {}
        """The last `GENERATIONS_KEPT` replayed generations of each group; ``loaded`` emits and
        clears them."""
        self._recorded: dict[str, tuple[int, GroupValue]] = {}
        """Log offset and value of each group's last record, for snapshots."""
        self._waking: Iterator[str] | None = None
        """The groups that ``wake`` has not visited yet; None before the first call of ``wake``."""
        self._oversized: list[Group] = []
        """Loaded groups with more members than group.max.size."""
        self._retention = GroupTimer()
        self.view = ShardView(self._state, self._recorded)
        """The read-only view of this shard."""

    # ------------------------------------------------------------------------------------- calls

    def handle(self, call: Call, now: Now) -> Outcome:
        """Handle one decoded request; its ticket is answered in this outcome or a later one."""
        return _HANDLERS[type(call)](self._state, call, now)

    def do(self, work: Callable[[Step], object], now: Now) -> Outcome:
        """Run ``work`` on groups without a request, for test mode."""
        return _stepped(lambda step, _: work(step))(self._state, None, now)

    def configure(self, config: GroupConfig) -> None:
        """Use other settings from the next call on."""
        self._state.config = config

    @property
    def connections(self) -> Collection[Hashable]:
        """The open connections of members: a live view, valid until the next call."""
        return self._state.connections.keys()

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """Note that a connection has closed; this has no effect if no member uses the
        connection."""
        return _stepped(connection_closed)(self._state, connection, now)

    def topics_deleted(
        self, topics: Mapping[str, int], now: Now, ticket: Ticket | None = None
    ) -> Outcome:
        """Write tombstones for the offsets in these topics that were written before the log offset
        given for the topic.

        The work that remains after this step is done by `expire`, or by `sweep` before ``loaded``.
        ``ticket`` is answered with NONE at the end.
        """
        deleted = TopicsDeleted(self._state.cache, topics, ticket)
        return _stepped(begin)(self._state, deleted, now)

    def expire(self, now: Now, budget: int) -> Outcome:
        """Handle due deadlines and unfinished work, about ``budget`` items (at least one).

        Deadlines come first, then unfinished work such as the retention check, in which a group is
        one item, or several if it has many offsets. While more work is due, ``next_deadline`` is
        not later than now.
        """
        return _stepped(self._expire)(self._state, budget, now)

    def _expire(self, step: Step, budget: int) -> None:
        now = step.now
        deadlines = self._state.deadlines
        while budget > 0:
            due_ms = deadlines.next_ms
            if due_ms is None or due_ms > now.mono_ms:
                break
            budget -= 1
            timer = deadlines.pop(now.mono_ms)
            if timer is not None:
                self._fire(step, timer)
        self._go_on(step, budget)

    @property
    def is_sweeping(self) -> bool:
        """Whether there is unfinished work."""
        return bool(self._state.sweeps)

    def sweep(self, now: Now, budget: int) -> Outcome:
        """Continue unfinished work for about ``budget`` items; deadlines are not checked."""
        return _stepped(self._go_on)(self._state, budget, now)

    def _go_on(self, step: Step, budget: int) -> None:
        """Continue only the first sweep; the next sweep begins in another step, after the records
        of this step are replayed."""
        sweeps = self._state.sweeps
        if budget > 0 and sweeps and work(step, sweeps[0], budget) > 0:
            sweeps.popleft()

    def _fire(self, step: Step, timer: GroupTimer) -> None:
        if timer is self._retention:
            if not any(isinstance(sweep, Retention) for sweep in self._state.sweeps):
                self._state.sweeps.append(Retention(self._state.groups))
            interval_ms = self._state.config.offsets_retention_check_interval_ms
            self._state.deadlines.arm(timer, step.now.mono_ms + interval_ms)
            return
        group = self._state.groups.get(timer.group_id)
        if group is None:
            return
        if timer is group.phase:
            phase_due(step, group)
        elif group.pending.get(timer.member_id) is timer:
            pending_due(step, group, timer.member_id)
        else:
            member = group.members.get(timer.member_id)
            if member is not None and member.session is timer:
                session_due(step, group, member)

    def next_deadline(self) -> int | None:
        """The next time at which ``expire`` has work, in monotonic milliseconds; 0: now; None:
        never.
        """
        if self._state.sweeps:
            return 0
        return self._state.deadlines.next_ms

    def unload(self, error_code: int) -> Outcome:
        """Unload the partition: answer every parked request with the error, move every group to
        DEAD.

        Requests whose replies were lost by an exception in this shard are answered too. Only groups
        with members emit an event: no client waits for the others.
        """
        step = Step(self._state, Now(0, 0))
        for ticket, reply in self._state.interrupted:
            step.reply(ticket, failed(reply, error_code))
        for group, member in list(self._state.parked.values()):
            step.answer_join(group, member, JoinReply(error_code, member.member_id))
            step.answer_sync(group, member, SyncReply(error_code))
        for sweep in self._state.sweeps:
            if sweep.ticket is not None:
                step.reply(sweep.ticket, error_code)
        self._state.sweeps.clear()
        for group in self._state.groups.values():
            if group.state is State.DEAD:
                continue
            group.phase.disarm()
            if group.members:
                step.move(
                    group,
                    State.DEAD,
                    Cause.UNLOADED,
                    "the group's __consumer_offsets partition was unloaded",
                )
            else:
                group.transition_to(State.DEAD, step.now)
        return Outcome(step.records, step.replies, step.events)

    # --------------------------------------------------------------------------------------- log

    def replay(self, run: Run | OwnBatch, base_offset: int) -> None:
        """Apply a run that is in the log from ``base_offset`` on, live and at load.

        Only this method changes committed offsets. At load, the group is built from its record.
        After the load, a handler has already changed the group, and only the log offset of the
        record is noted.
        """
        if not isinstance(run, GroupRun):
            self._state.cache.replay(run, base_offset)
            return
        if run.value is None:
            self._recorded.pop(run.group_id, None)
        else:
            self._recorded[run.group_id] = (base_offset, run.value)
        groups = self._state.groups
        if self._live:
            group = groups.get(run.group_id)
            if group is not None:
                group.record_offset = -1 if run.value is None else base_offset
        elif run.value is None:
            groups.pop(run.group_id, None)
            self._generations.pop(run.group_id, None)
        else:
            group = groups[run.group_id] = Group.restored(run.group_id, run.value, base_offset)
            seen = self._generations.setdefault(group.group_id, [])
            while seen and seen[-1].log_offset >= base_offset:
                seen.pop()  # the snapshot contained it
            seen.append(_generation(group))
            del seen[:-GENERATIONS_KEPT]

    def restore(self, group_id: str, topic: str, columns: TopicColumns) -> None:
        """Restore offsets from a snapshot, before the rest of the log is replayed."""
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
        """Restore a transaction's pending offsets from a snapshot, like ``restore``."""
        assert not self._live
        pending = self._state.cache.pending
        pending.restore(producer_id, producer_epoch, group_id, topic, columns)

    def wake(self, now: Now, budget: int) -> int:
        """Do a part of ``loaded`` for at most ``budget`` groups; return the number of groups, 0
        when none is left.

        The caller calls it after the replay. Sessions start with their full timeout, and a group is
        created for each group id that has only offsets.
        """
        assert not self._live
        state = self._state
        if self._waking is None:
            named = dict.fromkeys((*state.groups, *state.cache.groups()))
            named.update(dict.fromkeys(state.cache.pending.groups()))
            self._waking = iter(named)
        step = Step(state, now)
        awake = 0
        for group_id in islice(self._waking, budget):
            awake += 1
            group = state.groups.get(group_id)
            if group is None:
                group = state.groups[group_id] = Group(group_id)
            group.state_since_ms = now.mono_ms
            if state.config.fetch_counts_as_activity and not group.protocol_type:
                group.offsets_read_ms = now.wall_ms  # the log has no fetches: assume a fetch
            for member in group.members.values():
                step.arm(member.session, member.session_timeout_ms)
            if len(group.members) > state.config.max_size:
                self._oversized.append(group)
        return awake

    def loaded(self, now: Now) -> Outcome:
        """Finish the load after the replay: ``wake`` the remaining groups, and begin to accept
        calls.

        A group with more members than group.max.size rebalances.
        """
        while self.wake(now, _WOKEN_AT_ONCE):
            pass
        self._live = True
        step = Step(self._state, now)
        state = self._state
        generations, self._generations = self._generations, {}
        if state.groups:
            step.events.append(ShardLoaded(len(state.groups), generations))
        oversized, self._oversized = self._oversized, []
        for group in oversized:
            detail = f"loaded with {len(group.members)} members, more than group.max.size"
            prepare(step, group, Cause.OVER_MAX_SIZE, detail)
        interval_ms = state.config.offsets_retention_check_interval_ms
        state.deadlines.arm(self._retention, now.mono_ms + interval_ms)
        return Outcome(step.records, step.replies, step.events)


def _generation(group: Group) -> LoadedGeneration:
    return LoadedGeneration(
        group.record_offset,
        group.generation_id,
        group.protocol_name and cut(group.protocol_name, LOADED_ID_CHARACTERS),
        group.leader_id and cut(group.leader_id, LOADED_ID_CHARACTERS),
        len(group.members),
        group.state_timestamp_ms,
    )
