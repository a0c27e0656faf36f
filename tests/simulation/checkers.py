"""What must hold in the simulated world, checked after every step.

The laws are DESIGN's words made executable: the cache equals what a second reader makes of the
log's bytes; a shard loaded from the log equals the live one on all that a STABLE or EMPTY group
must remember; every request is answered once; a group that waits has a deadline and says for whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
)
from coordinator.deadlines import NEVER
from coordinator.events import Event, GroupRemoved
from coordinator.group import Group
from coordinator.outcome import (
    CommitReply,
    DescribeReply,
    FetchReply,
    JoinReply,
    ListReply,
    Outcome,
    Reply,
    SyncReply,
)
from coordinator.states import State
from offsets.runs import GroupRun, OffsetTombstones, Run
from protocol.errors import FENCED_INSTANCE_ID, NONE
from tests.model.log_reader import ModelGroup, ModelState, group_of_value, read_log
from tests.simulation.clients import LONGEST_REBALANCE_MS, Member

if TYPE_CHECKING:
    from tests.simulation.world import World

RELOAD_EVERY = 25
"""Steps between two comparisons with a shard loaded from the log."""


def describe_code(reply: Reply) -> Any:
    """The code, or codes, of a reply."""
    if isinstance(reply, int):
        return reply
    return reply.errors if isinstance(reply, CommitReply) else reply.error_code


@dataclass
class Before:
    """What a call found."""

    group: Group | None = None
    state: State | None = None
    members: frozenset[str] = frozenset()
    static_members: dict[str, str] = field(default_factory=dict)
    generation_id: int = 0


class Checkers:
    """All checks, and the little that they remember."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = ModelState()
        """The second reader, fed with every accepted batch."""
        self.before = Before()
        self.steps = 0
        self.loads = 0
        self.removals: dict[str, int] = {}
        self.votes: dict[tuple[Any, ...], tuple[str | None, str]] = {}
        """(group, life, generation) to (protocol, leader's identity)."""
        self.assigned: dict[tuple[Any, ...], bytes] = {}
        """(group, life, generation, member's identity) to its assignment."""
        self.persisted: dict[str, dict[int, dict[str, bytes]]] = {}
        """Group to generation to {identity: assignment}, as written."""
        self.fenced: set[tuple[str, str]] = set()
        """(group, member id) that were told FENCED_INSTANCE_ID in this life of the shard."""
        self.checked: dict[str, int] = {}

    def count(self, what: str) -> None:
        """Remember that a check had something to look at: one that never has proves nothing."""
        self.checked[what] = self.checked.get(what, 0) + 1

    # -------------------------------------------------------------------------- what happened

    def accepted(self, data: bytes) -> None:
        """A batch was replayed; the second reader reads its bytes."""
        for record in self.model.feed(data):
            if record.key[:2] == b"\0\x02":
                group_id = record.key[4:].decode()
                if record.value is None:
                    self.persisted.pop(group_id, None)
                else:
                    self._check_persisted(group_id, group_of_value(record.value))

    def _check_persisted(self, group_id: str, group: ModelGroup) -> None:
        """No two persisted assignments share a generation and differ."""
        by_identity = {
            member.group_instance_id or member.member_id: member.assignment
            for member in group.members
        }
        known = self.persisted.setdefault(group_id, {}).setdefault(group.generation_id, by_identity)
        assert known == by_identity, f"{group_id} generation {group.generation_id} stored twice"
        self.count("persisted")

    def reloaded(self) -> None:
        """The shard begins again from what is in the log."""
        self.model = ModelState()
        self.persisted.clear()
        self.accepted(bytes(self.world.log))
        self.fenced.clear()
        self.loads += 1

    def told(self, events: Iterable[Event]) -> None:
        """Events of an outcome."""
        for event in events:
            if isinstance(event, GroupRemoved):
                self.removals[event.group_id] = self.removals.get(event.group_id, 0) + 1

    def _life(self, group_id: str) -> tuple[int, int]:
        """Generations begin anew when a group is forgotten, and may when the shard is loaded."""
        return self.loads, self.removals.get(group_id, 0)

    def before_replay(self, run: Run) -> None:
        """A group's record in the log is the group as it is."""
        if isinstance(run, GroupRun) and run.value is not None:
            group = self.world.shard.groups.get(run.group_id)
            if group is not None:  # else forgotten in the same breath: its tombstone follows
                assert group.state in (State.STABLE, State.EMPTY)

    # ------------------------------------------------------------------------------- one call

    def before_call(self, call: Call) -> None:
        """Remember what the call finds."""
        group = self.world.shard.groups.get(getattr(call, "group_id", ""))
        if group is None:
            self.before = Before()
        else:
            self.before = Before(
                group,
                group.state,
                frozenset(group.members),
                dict(group.static_members),
                group.generation_id,
            )

    def after_call(self, call: Call, outcome: Outcome) -> None:
        """The reply, if there is one already, fits what the call found."""
        for ticket, reply in outcome.replies:
            if ticket != call.ticket:
                continue
            match call, reply:
                case OffsetCommit(), CommitReply():
                    self._check_commit(call, reply, outcome.records)
                case OffsetFetch(), FetchReply():
                    self._check_fetch(call, reply)
                case Heartbeat(), int():
                    if reply == NONE:
                        self._check_fence(call)
                case SyncGroup(), SyncReply():
                    if reply.error_code == NONE:
                        self._check_fence(call)
                case ListGroups(), ListReply():
                    self._check_list(call, reply)
                case DescribeGroup(), DescribeReply():
                    self._check_describe(call, reply)
                case DeleteGroup(), 0:
                    assert call.group_id not in self.world.shard.groups
                    assert not self.world.shard.cache.has_offsets(call.group_id)
                    assert call.group_id not in self.model.groups
                    self.count("deleted")

    def _check_fence(self, call: Heartbeat | SyncGroup | OffsetCommit) -> None:
        """Only the current (member, generation) gets in, and the current holder of an instance."""
        found = self.before
        assert call.member_id in found.members, f"{call} of no member"
        assert call.generation_id == found.generation_id, f"{call} of another generation"
        if call.group_instance_id is not None:
            assert found.static_members.get(call.group_instance_id) == call.member_id
        assert (call.group_id, call.member_id) not in self.fenced, f"{call} after its fence"
        self.count("fence")

    def _check_commit(self, call: OffsetCommit, reply: CommitReply, records: Sequence[Run]) -> None:
        errors = reply.errors
        if isinstance(errors, int) and errors != NONE:
            assert not records
            return
        if call.generation_id < 0 and not call.member_id:
            assert not self.before.members, "a simple commit into a group with members"
        else:
            self._check_fence(call)
            assert self.before.state in (State.STABLE, State.PREPARING_REBALANCE)
        cache = self.world.shard.cache
        for i, topic in enumerate(call.topics):
            codes = errors if isinstance(errors, int) else errors[i]
            for j, partition in enumerate(topic.partitions):
                code = codes if isinstance(codes, int) else codes[j]
                entry = cache.get(call.group_id, topic.topic, partition)
                if code:
                    continue
                assert entry is not None
                metadata = (topic.metadata[j] or "") if topic.metadata else ""
                epoch = -1 if entry.expire_timestamp_ms != -1 else topic.leader_epochs[j]
                assert (entry.offset, entry.leader_epoch, entry.metadata) == (
                    topic.offsets[j],
                    epoch,
                    metadata,
                )
        self.count("commit")

    def _check_fetch(self, call: OffsetFetch, reply: FetchReply) -> None:
        """What is fetched is what the second reader sees; -1 where it sees nothing."""
        assert reply.error_code == NONE
        stored = self.model.offsets.get(call.group_id, {})
        fetched = {
            (columns[0], partition): (offset, epoch, text)
            for columns in reply.topics
            for partition, offset, epoch, text in zip(
                columns[1],
                columns[2],
                columns[3],
                columns[4] or [""] * len(columns[1]),
                strict=True,
            )
        }
        if call.topics is None:
            assert fetched == {key: value[:3] for key, value in stored.items()}
        else:
            asked = [(topic, number) for topic, numbers in call.topics for number in numbers]
            assert fetched == {key: tuple(stored.get(key, (-1, -1, ""))[:3]) for key in asked}
        self.count("fetch")

    def _check_list(self, call: ListGroups, reply: ListReply) -> None:
        names = {"awaitingsync": "completingrebalance"}
        wanted = {names.get(name, name) for name in call.states}
        assert {(group.group_id, group.state) for group in reply.groups} == {
            (group.group_id, group.state.value)
            for group in self.world.shard.groups.values()
            if (not wanted or group.state.value.lower() in wanted)
            and (not call.types or "classic" in call.types)
        }
        self.count("list")

    def _check_describe(self, call: DescribeGroup, reply: DescribeReply) -> None:
        group = self.world.shard.groups.get(call.group_id)
        assert reply.state == ("Dead" if group is None else group.state.value)
        if group is not None:
            assert {member.member_id for member in reply.members} == set(group.members)
            shown = any(member.metadata or member.assignment for member in reply.members)
            assert not shown or group.state is State.STABLE
        self.count("describe")

    def replied(self, call: Call, reply: Reply) -> None:
        """A reply is made, at once or after a wait."""
        if isinstance(call, JoinGroup) and isinstance(reply, JoinReply):
            self._check_join_reply(call, reply)
        elif isinstance(call, SyncGroup) and isinstance(reply, SyncReply):
            self._check_sync_reply(call, reply)
        if (
            describe_code(reply) == FENCED_INSTANCE_ID
            and call.member_id.startswith(f"{call.group_instance_id}-")
            and call.group_id in self.world.shard.groups
        ):
            self.fenced.add((call.group_id, call.member_id))
            self.count("fenced")

    def _check_join_reply(self, call: JoinGroup, reply: JoinReply) -> None:
        """In one generation everybody is told one protocol and one leader."""
        if reply.error_code:
            assert (reply.generation_id, reply.members, reply.leader) == (-1, (), "")
            return
        group = self.world.shard.groups.get(call.group_id)
        if group is None or group.generation_id != reply.generation_id:
            return  # of a generation before
        told = (reply.protocol_name, _identity(reply.leader))
        key = (call.group_id, self._life(call.group_id), reply.generation_id)
        assert self.votes.setdefault(key, told) == told
        assert bool(reply.members) <= (reply.leader == reply.member_id)
        self.count("join")

    def _check_sync_reply(self, call: SyncGroup, reply: SyncReply) -> None:
        """In one generation each member gets one assignment, however often it asks."""
        if reply.error_code:
            assert reply.assignment == b""
            return
        key = (
            call.group_id,
            self._life(call.group_id),
            call.generation_id,
            _identity(call.member_id),
        )
        assert self.assigned.setdefault(key, reply.assignment) == reply.assignment
        self.count("sync")

    def expiring(self, outcome: Outcome) -> None:
        """Retention drops only what may go, before the records are replayed."""
        world = self.world
        retention_ms = world.config.offsets_retention_ms
        for run in outcome.records:
            if not isinstance(run, OffsetTombstones):
                continue
            group = world.shard.groups.get(run.group_id)
            assert group is None or group.state in (State.EMPTY, State.STABLE)
            for key in run.keys:
                stored = self.model.offsets[run.group_id][key]
                due_ms = stored.expire_timestamp_ms
                if due_ms == -1:
                    since_ms = [stored.commit_timestamp_ms]
                    if group is None or (group.protocol_type and group.state is State.EMPTY):
                        record = self.model.groups.get(run.group_id)
                        if record is not None and record.state_timestamp_ms != -1:
                            since_ms = [record.state_timestamp_ms]
                    due_ms = min(since_ms) + retention_ms
                assert world.wall_ms >= due_ms, f"{key} of {run.group_id} expired too early"
                self.count("expired")

    # ------------------------------------------------------------------------- after each step

    def check_all(self) -> None:
        """Every law."""
        self.steps += 1
        self.check_cache()
        self.check_tickets()
        for group in self.world.shard.groups.values():
            self.check_waiting(group)
            self.check_counters(group)
        if self.steps % RELOAD_EVERY == 0:
            self.check_reload()
        if self.steps % (20 * RELOAD_EVERY) == 0 and not self.world.unappended:
            assert read_log(bytes(self.world.log)) == self.model

    def check_cache(self) -> None:
        """Law of state 1: the cache is what the log's bytes say."""
        cache = self.world.shard.cache
        found = {
            group_id: {
                (topic, partition): tuple(entry)
                for topic, partition, entry in cache.entries(group_id)
            }
            for group_id in cache.groups()
        }
        assert found == self.model.offsets, "the cache is not what the log says"
        assert cache.offsets() == sum(map(len, found.values()))

    def check_tickets(self) -> None:
        """Every request is parked, or was answered; none is both, and none waits too long."""
        world = self.world
        assert set(world.shard.parked()) == set(world.open), "a request is lost, or answered twice"
        longest_ms = LONGEST_REBALANCE_MS + world.config.initial_rebalance_delay_ms
        for request in world.open.values():
            waited_ms = world.mono_ms - request.sent_ms
            assert waited_ms < longest_ms, f"{request.call} waits for {waited_ms} ms"
            self.count("parked")

    def check_waiting(self, group: Group) -> None:
        """Preparing or Completing implies an armed deadline that names whom it waits for."""
        awaited = group.awaited()
        if group.state not in (State.PREPARING_REBALANCE, State.AWAITING_SYNC):
            assert group.state is State.STABLE or group.phase.due_ms == NEVER
            return
        assert awaited.deadline_ms is not None
        assert self.world.mono_ms < awaited.deadline_ms < NEVER, f"{group.group_id} has no deadline"
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
        """Counters are what recounting gives."""
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
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert group.pending_syncs <= set(group.members)
        if not group.members:  # all may leave during the initial delay, which time alone ends
            assert group.state is State.EMPTY or group.initial_delay
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
        for timer in group.pending.values():
            assert self.world.mono_ms < timer.due_ms < NEVER

    def check_reload(self) -> None:
        """Law of state 2: what is loaded is what a STABLE or EMPTY group must remember."""
        world = self.world
        fresh = world.loaded_shard(world.unappended)
        fresh.loaded(world.now)
        live = world.shard
        assert {g: list(fresh.cache.entries(g)) for g in fresh.cache.groups()} == {
            g: list(live.cache.entries(g)) for g in live.cache.groups()
        }
        assert set(fresh.groups) <= set(live.groups), "a forgotten group came back"
        for group_id, group in live.groups.items():
            loaded = fresh.groups.get(group_id)
            if group.state is State.STABLE:
                assert loaded is not None
                if not _over_size(world, group):
                    assert loaded.state is State.STABLE
                assert remembered(loaded) == remembered(group)
                self.count("reloaded STABLE")
            elif group.state is State.EMPTY:
                if loaded is None:
                    assert group.generation_id == 0
                    assert not live.cache.has_offsets(group_id)
                else:
                    assert remembered(loaded) == remembered(group)
                    self.count("reloaded EMPTY")
            elif loaded is not None:
                assert loaded.generation_id <= group.generation_id

    def unrest(self) -> list[str]:
        """Why the world has not come to rest: groups that are not STABLE with all their clients.

        Where group.max.size is below their number, those without room try for ever.
        """
        by_group: dict[str, list[Member]] = {}
        for client in self.world.clients:
            if isinstance(client, Member):
                by_group.setdefault(client.group_id, []).append(client)
        complaints = []
        for group_id, clients in by_group.items():
            if len(clients) > self.world.config.max_size:
                continue
            group = self.world.shard.groups.get(group_id)
            here = {client.member_id for client in clients if client.phase == "in"}
            if group is None or group.state is not State.STABLE:
                complaints.append(f"{group_id} is {group and group.state}")
            elif len(here) < len(clients) or set(group.members) != here:
                complaints.append(f"{group_id} has {list(group.members)}, not {here}")
            else:
                self.count("at rest")
        return complaints


def remembered(group: Group) -> dict[str, Any]:
    """All that a STABLE or EMPTY group must remember over a restart."""
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


def _over_size(world: World, group: Group) -> bool:
    return len(group.members) > world.config.max_size


def _identity(member_id: str) -> str:
    """A static member keeps its instance id, whatever member id it has now."""
    return member_id.rsplit("-", 1)[0] if "-static-" in member_id else member_id
