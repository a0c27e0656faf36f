"""The invariants of a shard, computed from its members and its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.config import GroupConfig
from coordinator.shard import GroupShard
from offsets.runs import OwnBatch, Run
from protocol.deadlines import NEVER
from protocol.now import Now


def check_shard(shard: GroupShard) -> None:
    """Checks the counters and indexes of a shard against its members, and that no group is due
    before the shard's next deadline."""
    parked = set()
    for group in shard.view.groups.values():
        check_group(group)
        for member in group.members.values():
            for ticket in (member.join_ticket, member.sync_ticket):
                if ticket is not None:
                    assert ticket not in parked
                    parked.add(ticket)
    assert parked == set(shard.view.parked())
    speaking = {m.connection for g in shard.view.groups.values() for m in g.members.values()}
    assert set(shard.connections) == speaking - {None}
    next_ms = shard.next_deadline()
    dues = [timer.due_ms for group in shard.view.groups.values() for timer in timers(group)]
    live = [due for due in dues if due != NEVER]
    if live:
        assert next_ms is not None
        assert next_ms <= min(live)


def timers(group: Group) -> list:
    sessions = [member.session for member in group.members.values()]
    return [group.phase, *group.pending.values(), *sessions]


def check_group(group: Group) -> None:
    """Checks the invariants that coordinator/group.py documents."""
    members = group.members
    assert group.joined == sum(m.join_ticket is not None for m in members.values())
    support = Counter(n for m in members.values() for n in {name for name, _ in m.protocols})
    assert group.support == support
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id}
    assert group.static_members == static
    assert not set(group.pending) & set(members)
    assert all(key == member.member_id for key, member in members.items())
    assert group.pending_syncs <= set(members)
    if group.state is State.DEAD:
        return
    if group.leader_id is None:  # a downgraded group has no leader until it has rebalanced
        assert not members or group.state is State.PREPARING_REBALANCE
    else:
        assert group.leader_id in members
    awaited = group.awaited()
    armed = group.phase.due_ms != NEVER
    match group.state:
        case State.EMPTY:
            assert not members
            assert not armed
        case State.PREPARING_REBALANCE:
            assert armed
            assert awaited.deadline_ms == group.phase.due_ms
            assert not group.pending_syncs
            assert not any(m.sync_ticket for m in members.values())
            assert not (group.initial_delay and group.holding)
            if group.holding:
                assert group.phase.due_ms <= group.join_deadline_ms
                assert members or group.pending, "nobody is left to wait for more"
            elif not group.initial_delay:
                assert awaited.members, "a join phase that waits for nobody must have ended"
        case State.AWAITING_SYNC:
            assert armed
            assert group.leader_id in awaited.members
            assert group.joined == 0
        case State.STABLE:
            assert armed == bool(group.pending_syncs)
            assert group.joined == 0
            assert not any(m.sync_ticket for m in members.values())
    for member in members.values():
        waits = member.join_ticket is not None or member.sync_ticket is not None
        if not waits or (member.is_new and member.join_ticket is not None):
            assert member.session.due_ms != NEVER, f"{member.member_id} could stay for ever"


def reloaded(
    config: GroupConfig, log: Iterable[tuple[int, Run | OwnBatch]], now: Now
) -> GroupShard:
    shard = GroupShard(config)
    for base_offset, run in log:
        shard.replay(run, base_offset)
    shard.loaded(now)
    return shard


def remembered(shard: GroupShard) -> dict[str, tuple]:
    """Returns the state that a load must restore: all offsets, and the groups that are not in a
    rebalance, with their members."""
    settled = {}
    for group in shard.view.groups.values():
        if group.state not in (State.STABLE, State.EMPTY):
            continue
        value = group.run().value
        assert value is not None
        members = tuple(sorted(value.members, key=lambda member: member.member_id))
        stamped = value.state_timestamp_ms if group.record_offset != -1 else None
        kept = (value.protocol_type, value.generation_id, value.protocol_name, value.leader)
        offsets = tuple(sorted(shard.view.offsets.entries(group.group_id)))
        known = group.record_offset != -1 or offsets
        if known:
            settled[group.group_id] = (group.state, kept, stamped, members, offsets)
    return settled


def pending_of(shard: GroupShard) -> dict[tuple, list]:
    return {
        tuple(whose): [(each, columns.get(each)) for each in columns.partitions()]
        for *whose, columns in shard.view.all_pending()
    }


def check_against_log(
    shard: GroupShard, config: GroupConfig, log: list[tuple[int, Run | OwnBatch]], now: Now
) -> None:
    """Checks that a second shard, loaded from the log, has the same state as ``shard``, except for
    groups in a rebalance."""
    live = remembered(shard)
    # A static member that is down can bring a group above its limit; a load would then rebalance
    # it.
    second = reloaded(replace(config, max_size=2**31 - 1), log, now)
    again = remembered(second)
    assert pending_of(second) == pending_of(shard)
    assert set(second.view.groups) <= set(shard.view.groups), "a group that was forgotten came back"
    for group_id, state in live.items():
        assert again.get(group_id) == state, group_id
