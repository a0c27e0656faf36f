"""Invariants of the simulated world, which are checked after every step.

Invariant 1 of the state: the cache has the offsets that the second decoder reads from the log.
Invariant 2 of the state: a shard that is loaded from the log, or from a snapshot and later records,
equals the live shard in all state that a STABLE or EMPTY group must keep. The log may have been
cleaned.

Further invariants: acknowledged records survive a crash (promises.py), each request is answered
once, and a waiting group has a deadline and names the awaited members.
docs/internals/simulations.md lists all invariants with their checkers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.events import Event, GenerationFormed, GroupRemoved
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from offsets.runs import (
    GroupRun,
    MarkerRun,
    OffsetTombstones,
    OwnBatch,
    Run,
    TransactionalRun,
)
from protocol.deadlines import NEVER
from tests.model.log_reader import (
    ModelGroup,
    ModelRecord,
    ModelState,
    group_of_value,
    read_log,
)
from tests.simulation.clients import LONGEST_REBALANCE_MS, Member
from tests.simulation.promises import Promises
from tests.simulation.reply_checks import ReplyChecks

if TYPE_CHECKING:
    from tests.simulation.world import World

RELOAD_EVERY = 100
"""Number of steps between two comparisons with a shard that is loaded from the log. A comparison
also follows each cleaning and each snapshot."""
ALL_EVERY = 25
"""Number of steps between two checks of all groups. The other checks cover only groups in the calls
and records of the step."""


class Checkers(ReplyChecks):
    """All checks of one simulated world, and the state of these checks."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.steps = 0
        self.persisted: dict[str, dict[int, dict[str, bytes]]] = {}
        """The assignments written to the log: by group, then generation, then member."""
        self.promises = Promises()
        self._look_at_all = True
        self.generations: dict[tuple[str, tuple[int, int]], int] = {}
        """The newest generation of each group, by group id and by a key that changes when the group
        is deleted or the shard is loaded."""

    # -------------------------------------------------------------------------- reports of the
    # world

    def accepted(self, data: bytes) -> None:
        records = self.model.feed(data)
        self.promises.accepted(records)
        self._note_persisted(records)

    def _note_persisted(self, records: Iterable[ModelRecord]) -> None:
        for record in records:
            if record.key[:2] == b"\0\x02":
                group_id = record.key[4:].decode()
                if record.value is None:
                    self.persisted.pop(group_id, None)
                else:
                    self._check_persisted(group_id, group_of_value(record.value))

    def _check_persisted(self, group_id: str, group: ModelGroup) -> None:
        """Asserts that all assignments which were written in one generation are equal."""
        by_identity = {
            member.group_instance_id or member.member_id: member.assignment
            for member in group.members
        }
        known = self.persisted.setdefault(group_id, {}).setdefault(group.generation_id, by_identity)
        assert known == by_identity, f"{group_id} generation {group.generation_id} stored twice"
        self.count("persisted")

    def reloaded(self) -> None:
        """Called when the shard is loaded again. Resets the checks to the content of the log."""
        log = self.world.log
        self.model = ModelState()
        self.persisted.clear()
        records = self.model.feed(log.data)
        self.promises.kept(records, log.end)
        self._note_persisted(records)
        self.fenced.clear()
        self.loads += 1
        self._look_at_all = True

    def leaves(self, log_offset: int) -> None:
        """Notes that the broker sends a reply that depends on the records below ``log_offset``."""
        self.promises.leaves(log_offset)

    def told(self, events: Iterable[Event]) -> None:
        for event in events:
            self.touched.add(getattr(event, "group_id", ""))
            if isinstance(event, GenerationFormed):
                key = (event.group_id, self._life(event.group_id))
                before = self.generations.get(key, 0)
                assert event.generation_id > before, f"{key} goes from {before} back to {event}"
                self.generations[key] = event.generation_id
                self.count("generation")
            elif isinstance(event, GroupRemoved):
                self.removals[event.group_id] = self.removals.get(event.group_id, 0) + 1

    def before_replay(self, run: Run | OwnBatch) -> None:
        """Must be called before a record is replayed. Asserts that the record of a group equals the
        state of the group."""
        if isinstance(run, MarkerRun):
            pending = self.model.pending.get(run.producer_id, {})
            self.touched.update(group_id for group_id, _, _ in pending)
            self.count(f"transaction {'committed' if run.committed else 'aborted'}")
            return
        first = run.runs[0] if isinstance(run, TransactionalRun) else run
        self.touched.add(first.group_id)
        if isinstance(run, GroupRun) and run.value is not None:
            group = self.world.shard.view.groups.get(run.group_id)
            if group is not None:  # else its tombstone follows in this step
                assert group.state in (State.STABLE, State.EMPTY)

    def expiring(self, outcome: Outcome) -> None:
        """Asserts that retention deletes only expired offsets. Must run before the tombstones are
        replayed."""
        world = self.world
        retention_ms = world.config.offsets_retention_ms
        for run in outcome.records:
            if not isinstance(run, OffsetTombstones):
                continue
            group = world.shard.view.groups.get(run.group_id)
            assert group is None or group.state in (State.EMPTY, State.STABLE)
            for key in run.keys:
                pending = any((run.group_id, *key) in each for each in self.model.pending.values())
                assert not pending, f"{key} of {run.group_id} expires in a transaction"
                stored = self.model.offsets.get(run.group_id, {}).get(key)
                assert stored is not None, f"{key} of {run.group_id} is in no log, and expires"
                due_ms = stored.expire_timestamp_ms
                if due_ms == -1:
                    due_ms = stored.commit_timestamp_ms + retention_ms
                    if group is None or (group.protocol_type and group.state is State.EMPTY):
                        record = self.model.groups.get(run.group_id)
                        if record is not None and record.state_timestamp_ms != -1:
                            due_ms = record.state_timestamp_ms + retention_ms
                assert world.wall_ms >= due_ms, f"{key} of {run.group_id} expired too early"
                self.count("expired")

    # ------------------------------------------------------------------------- after each step

    def check_all(self) -> None:
        self.steps += 1
        groups = self.classic_groups()
        look_at_all = self._look_at_all or self.steps % ALL_EVERY == 0
        self._look_at_all = False
        self.check_cache(None if look_at_all else self.touched)
        self.check_tickets()
        for group_id in groups if look_at_all else self.touched & groups.keys():
            self.check_waiting(groups[group_id])
            self.check_counters(groups[group_id])
        self.touched.clear()
        if self.steps % RELOAD_EVERY == 0:
            self.check_reload(with_snapshot=False)
        if self.steps % (20 * RELOAD_EVERY) == 0 and not self.world.unappended:
            again = read_log(self.world.log.data)
            model = self.model
            found = (again.offsets, again.groups, again.pending)
            assert found == (model.offsets, model.groups, model.pending)

    def classic_groups(self) -> Mapping[str, Group]:
        """Returns the classic groups, whose deadlines and counters are checked."""
        return self.world.shard.view.groups

    def check_cache(self, groups: Collection[str] | None) -> None:
        """Asserts that the committed offsets in the cache equal those in the log, for ``groups``
        or, if it is None, for all groups."""
        cache, stored = self.world.shard.view.offsets, self.model.offsets
        assert pending_of(self.world.shard) == self.model.pending, "not what the log says is open"
        if self.model.pending:
            self.count("pending")
        if groups is None:
            found = entries_of(self.world.shard)
            assert found == stored, "the cache is not what the log says"
            assert cache.count() == sum(map(len, found.values()))
            return
        for group_id in groups:
            assert entries_of_group(self.world.shard, group_id) == stored.get(group_id, {})
        assert len(cache.groups()) == len(stored)

    def check_tickets(self) -> None:
        """Asserts that each request is either parked or answered, and that no request waits too
        long."""
        world = self.world
        assert set(world.shard.view.parked()) == set(world.open), (
            "a request is lost, or answered twice"
        )
        longest_ms = LONGEST_REBALANCE_MS + world.config.initial_rebalance_delay_ms
        for request in world.open.values():
            waited_ms = world.mono_ms - world.leapt_ms - request.sent_ms
            assert waited_ms < longest_ms + world.late_ms, (
                f"{request.call} waits for {waited_ms} ms"
            )
            self.count("parked")

    def check_waiting(self, group: Group) -> None:
        """Checks the result of ``awaited`` for a group in state PreparingRebalance or
        CompletingRebalance: the group has a deadline, and the result contains the members for which
        the group waits."""
        awaited = group.awaited()
        if group.state not in (State.PREPARING_REBALANCE, State.AWAITING_SYNC):
            assert group.state is State.STABLE or group.phase.due_ms == NEVER
            return
        assert awaited.deadline_ms is not None
        assert awaited.deadline_ms < NEVER, f"{group.group_id} has no deadline"
        assert self.world.mono_ms < awaited.deadline_ms + self.world.late_ms, f"{group.group_id}"
        next_ms = self.world.shard.next_deadline()
        assert next_ms is not None
        assert next_ms <= awaited.deadline_ms
        if group.state is State.PREPARING_REBALANCE:
            absent = {m.member_id for m in group.members.values() if m.join_ticket is None}
            assert set(awaited.members) == absent | set(group.pending)
            assert awaited.members or awaited.phase == "initial delay", "it waits for nobody"
        else:
            assert awaited.members, "it waits for nobody"
            assert group.leader_id in awaited.members
        self.count(f"awaited in {awaited.phase}")

    def check_counters(self, group: Group) -> None:
        """Asserts that the counters of a group agree with the members of the group."""
        members = group.members.values()
        assert group.joined == sum(member.join_ticket is not None for member in members)
        support: dict[str, int] = {}
        for member in members:
            for name in {name for name, _ in member.protocols}:
                support[name] = support.get(name, 0) + 1
        assert group.support == support
        assert group.static_members == {
            member.group_instance_id: member.member_id
            for member in members
            if member.group_instance_id is not None
        }
        assert not set(group.pending) & set(group.members)
        if group.leader_id is None:  # a downgraded group has no leader until it has rebalanced
            assert not members or group.state is State.PREPARING_REBALANCE
        else:
            assert group.leader_id in group.members
        assert group.pending_syncs <= set(group.members)
        if not group.members:
            # All members may leave during the initial delay, which then ends at its time; or while
            # assigned ids are awaited, until their clients join or the join phase ends (as in
            # Kafka).
            assert group.state is State.EMPTY or group.initial_delay or group.pending
        else:
            assert group.state not in (State.EMPTY, State.DEAD)
        parked = self.world.open
        for member in members:
            assert member.join_ticket is None or group.state is State.PREPARING_REBALANCE
            assert member.sync_ticket is None or group.state is State.AWAITING_SYNC
            waiting = {member.join_ticket, member.sync_ticket} - {None}
            assert len(waiting) <= 1
            assert waiting <= set(parked)
            armed = member.session.due_ms != NEVER
            assert armed or waiting, f"nothing ends {member.member_id}"
            assert not armed or member.session.queued_ms <= member.session.due_ms
            if armed and not waiting:
                left_ms = member.session.due_ms - self.world.mono_ms
                assert left_ms > -self.world.late_ms, f"{member.member_id} lives on"
                assert left_ms <= member.session_timeout_ms, f"{member.member_id} lives on"
        for timer in group.pending.values():
            assert self.world.mono_ms < timer.due_ms + self.world.late_ms
            assert timer.due_ms < NEVER

    def check_reload(self, with_snapshot: bool) -> None:
        """Loads a shard from the log. Asserts that it has all state that a STABLE or EMPTY group
        must keep (invariant 2 of the state).

        The invariant holds for a cleaned log, and for any replay offset of a snapshot.
        """
        self.check_loaded(self.world.loaded_shard(with_snapshot))
        if with_snapshot:
            self.count("snapshot")

    def check_loaded(self, fresh: GroupShard) -> None:
        """Asserts that the loaded shard ``fresh`` equals the live shard."""
        world, live = self.world, self.world.shard
        fresh.loaded(world.now)
        assert entries_of(fresh) == entries_of(live)
        assert pending_of(fresh) == pending_of(live), "what was pending is not after a load"
        assert set(fresh.view.groups) <= set(live.view.groups), "a forgotten group came back"
        for group_id, group in live.view.groups.items():
            loaded = fresh.view.groups.get(group_id)
            if group.state is State.STABLE:
                assert loaded is not None
                if len(group.members) > world.config.max_size:
                    # Static members that are down count when others join, but not when a log is
                    # loaded.
                    assert loaded.state is State.PREPARING_REBALANCE
                    continue
                assert loaded.state is State.STABLE
                assert remembered(loaded) == remembered(group)
                self.count("reloaded STABLE")
            elif group.state is State.EMPTY:
                if loaded is None:
                    assert group.generation_id == 0
                    assert not live.view.offsets.has_offsets(group_id)
                else:
                    assert remembered(loaded) == remembered(group)
                    self.count("reloaded EMPTY")
            elif loaded is not None:
                assert loaded.generation_id <= group.generation_id

    def unrest(self) -> list[str]:
        """Returns the reasons why the simulation is not at rest: the groups that are not STABLE
        with all their clients.

        Two kinds of groups never come to rest and are excluded. If group.max.size is below the
        number of clients, the rejected clients retry forever. If the record of the group cannot be
        written, SyncGroup fails forever.
        """
        config = self.world.config
        by_group: dict[str, list[Member]] = {}
        for client in self.world.clients:
            if isinstance(client, Member):
                by_group.setdefault(client.group_id, []).append(client)
        complaints = []
        for group_id, clients in by_group.items():
            if len(clients) > config.max_size or config.max_record_bytes < 2_000:
                continue
            group = self.world.shard.view.groups.get(group_id)
            here = {client.member_id for client in clients if client.phase == "in"}
            if group is None or group.state is not State.STABLE:
                complaints.append(f"{group_id} is {group and group.state}")
            elif len(here) < len(clients) or set(group.members) != here:
                complaints.append(f"{group_id} has {list(group.members)}, not {here}")
            else:
                self.count("at rest")
        return complaints


def entries_of(shard: GroupShard) -> dict[str, dict[tuple[str, int], tuple[Any, ...]]]:
    return {
        group_id: entries_of_group(shard, group_id)
        for group_id in list(shard.view.offsets.groups())
    }


def pending_of(shard: GroupShard) -> dict[int, dict[tuple[str, str, int], tuple[Any, ...]]]:
    found: dict[int, dict[tuple[str, str, int], tuple[Any, ...]]] = {}
    for producer_id, _, group_id, topic, columns in shard.view.all_pending():
        for partition in columns.partitions():
            entry = columns.get(partition)
            assert entry is not None
            found.setdefault(producer_id, {})[group_id, topic, partition] = entry
    return found


def entries_of_group(shard: GroupShard, group_id: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {
        (topic, partition): entry
        for topic, partition, entry in shard.view.offsets.entries(group_id)
    }


def remembered(group: Group) -> dict[str, Any]:
    """Returns the state that a STABLE or EMPTY group must have after a restart of the broker."""
    if group.generation_id == 0:
        return {"generation": 0}
    return {
        "generation": group.generation_id,
        "protocol type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "state since": group.state_timestamp_ms,
        "members": {
            member.member_id: (
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata(group.protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        },
    }
