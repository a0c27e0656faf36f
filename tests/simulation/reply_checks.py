"""Checks that each reply is permitted for the state of the group when the request arrived: fencing,
protocols, assignments and offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
)
from coordinator.classic.group import Group
from coordinator.classic.states import State
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
from offsets.runs import OwnBatch, Run
from protocol.errors import (
    FENCED_INSTANCE_ID,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_SERVER_ERROR,
    UNSTABLE_OFFSET_COMMIT,
)
from tests.model.log_reader import ModelState

if TYPE_CHECKING:
    from tests.simulation.world import World


def describe_code(reply: Reply) -> Any:
    if isinstance(reply, int):
        return reply
    return reply.errors if isinstance(reply, CommitReply) else reply.error_code


@dataclass
class Before:
    """The state of a group before the current call."""

    group: Group | None = None
    state: State | None = None
    members: frozenset[str] = frozenset()
    static_members: dict[str, str] = field(default_factory=dict)
    generation_id: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    """The time at which each member's session expires, by member id."""


class ReplyChecks:
    """Checks of single replies, with the facts from earlier replies."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = ModelState()
        """The state after all accepted batches, as the tests' own decoder reads it from the
        batches."""
        self.before = Before()
        self.loads = 0
        self.removals: dict[str, int] = {}
        self.votes: dict[tuple[Any, ...], tuple[str | None, str]] = {}
        """The selected protocol and the leader of each generation. The key consists of the group,
        the life of the group (see `_life`) and the generation."""
        self.assigned: dict[tuple[Any, ...], bytes] = {}
        """The assignment that a member received, by group, life of the group (see `_life`),
        generation and member."""
        self.fenced: set[tuple[str, str]] = set()
        """Group and member id of each member that got FENCED_INSTANCE_ID since the shard was
        loaded."""
        self.given: dict[tuple[Any, ...], dict[str, bytes]] = {}
        """The assignments that the leader of a group sent, by group, life of the group and
        generation. A new life begins when a group is created again (see `_life`)."""
        self.touched: set[str] = set()
        """The groups whose ids are in the calls or records of the current step."""
        self.checked: dict[str, int] = {}

    def count(self, what: str) -> None:
        """Counts an executed check. A check that is never executed proves nothing."""
        self.checked[what] = self.checked.get(what, 0) + 1

    def _life(self, group_id: str) -> tuple[int, int]:
        """Returns a key that changes when the group is deleted or the shard is loaded, because the
        generations of the group may then restart at 1."""
        return self.loads, self.removals.get(group_id, 0)

    def before_call(self, call: Call) -> None:
        group_id = getattr(call, "group_id", "")
        self.touched.add(group_id)
        group = self.world.shard.view.groups.get(group_id)
        if group is None:
            self.before = Before()
        else:
            self.before = Before(
                group,
                group.state,
                frozenset(group.members),
                dict(group.static_members),
                group.generation_id,
                {name: member.session.due_ms for name, member in group.members.items()},
            )
            if isinstance(call, SyncGroup) and group.state is State.AWAITING_SYNC:
                self._note_given(call, group)

    def _note_given(self, call: SyncGroup, group: Group) -> None:
        """Stores the assignments that a SyncGroup of the group's leader contains. Members receive
        the assignments only if the SyncGroup is accepted."""
        if (call.member_id, call.generation_id) == (group.leader_id, group.generation_id):
            key = (call.group_id, self._life(call.group_id), call.generation_id)
            self.given[key] = {_identity(name): value for name, value in call.assignments}

    def after_call(self, call: Call, outcome: Outcome) -> None:
        """Checks the reply to ``call`` in the outcome of ``call``: the reply must fit the state
        before the call. Does not check replies to earlier calls, which were parked."""
        for ticket, reply in outcome.replies:
            if ticket != call.ticket:
                continue
            self._check_sessions(call, reply)
            match call, reply:
                case OffsetCommit(), CommitReply():
                    self._check_commit(call, reply, outcome.records)
                case TxnOffsetCommit(), CommitReply():
                    self._check_transactional(call, reply, outcome.records)
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
                    assert call.group_id not in self.world.shard.view.groups
                    assert not self.world.shard.view.offsets.has_offsets(call.group_id)
                    assert call.group_id not in self.model.groups
                    self.count("deleted")

    def _check_sessions(self, call: Call, reply: Reply) -> None:
        """Asserts that a session is not renewed by a rejected call, or by a call of a client that
        is not a member."""
        code = describe_code(reply)
        if isinstance(call, Heartbeat | SyncGroup | OffsetCommit):
            if code == NONE or not isinstance(code, int):
                return
            if isinstance(call, Heartbeat) and code == REBALANCE_IN_PROGRESS:
                return  # a member's call, to which the reply is that it must rejoin
            if isinstance(call, SyncGroup) and code == UNKNOWN_SERVER_ERROR:
                return  # the write failed: all members must rejoin
        elif not isinstance(
            call, OffsetFetch | DescribeGroup | ListGroups | TxnOffsetCommit | EndOffsets
        ):
            return
        group = self.before.group
        if group is not None:
            for name, member in group.members.items():
                assert member.session.due_ms == self.before.sessions.get(name), (
                    f"{call} kept {name}"
                )
            self.count("sessions")

    def _check_fence(self, call: Heartbeat | SyncGroup | OffsetCommit) -> None:
        """Asserts that an accepted call has the current generation of a member, and is from the
        current owner of its instance id."""
        found = self.before
        assert call.member_id in found.members, f"{call} of no member"
        assert call.generation_id == found.generation_id, f"{call} of another generation"
        if call.group_instance_id is not None:
            assert found.static_members.get(call.group_instance_id) == call.member_id
        assert (call.group_id, call.member_id) not in self.fenced, f"{call} after its fence"
        self.count("fence")

    def _check_commit(
        self, call: OffsetCommit, reply: CommitReply, records: Sequence[Run | OwnBatch]
    ) -> None:
        errors = reply.errors
        if isinstance(errors, int) and errors != NONE:
            assert not records
            return
        if call.generation_id < 0 and not call.member_id:
            assert not self.before.members, "a simple commit into a group with members"
        else:
            self._check_fence(call)
            assert self.before.state in (State.STABLE, State.PREPARING_REBALANCE)
        self._check_stored(call, errors)

    def _check_stored(self, call: OffsetCommit, errors: Any) -> None:
        cache = self.world.shard.view.offsets
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

    def _check_transactional(
        self, call: TxnOffsetCommit, reply: CommitReply, records: Sequence[Run | OwnBatch]
    ) -> None:
        """Asserts that a TxnOffsetCommit that contains a member id comes from a member of the
        group, and that its accepted offsets are pending."""
        errors = reply.errors
        if isinstance(errors, int) and errors != NONE:
            assert not records
            return
        named = call.generation_id >= 0 or call.member_id or call.group_instance_id is not None
        simple = call.generation_id < 0 and self.before.state in (None, State.EMPTY)
        if named and not simple:
            assert call.member_id in self.before.members
            assert call.generation_id == self.before.generation_id
        pending = self.model.pending.get(call.producer_id, {})
        for i, topic in enumerate(call.topics):
            codes = errors if isinstance(errors, int) else errors[i]
            for j, partition in enumerate(topic.partitions):
                if not (codes if isinstance(codes, int) else codes[j]):
                    entry = pending[call.group_id, topic.topic, partition]
                    assert entry.offset == topic.offsets[j]
        self.count("transactional commit")

    def _check_fetch(self, call: OffsetFetch, reply: FetchReply) -> None:
        """Asserts that fetched offsets equal those that ``self.model`` has read from the log, or -1
        for a partition without an offset."""
        assert reply.error_code == NONE
        stored = self.model.offsets.get(call.group_id, {})
        fetched = {
            (columns[0], partition): (offset, epoch, text, code)
            for columns in reply.topics
            for partition, offset, epoch, text, code in zip(
                columns[1],
                columns[2],
                columns[3],
                columns[4] or [""] * len(columns[1]),
                [columns[5]] * len(columns[1]) if isinstance(columns[5], int) else columns[5],
                strict=True,
            )
        }
        keys: list[tuple[str, int]] = list(stored)
        if call.topics is not None:
            keys = [(topic, number) for topic, numbers in call.topics for number in numbers]
        expected: dict[tuple[str, int], tuple[Any, ...]] = {
            key: (*stored.get(key, (-1, -1, ""))[:3], NONE) for key in keys
        }
        if call.require_stable:
            for of_producer in self.model.pending.values():
                for group_id, topic, number in of_producer:
                    if group_id == call.group_id and (topic, number) in expected:
                        expected[topic, number] = (-1, -1, "", UNSTABLE_OFFSET_COMMIT)
                        self.count("unstable")
        assert fetched == expected
        self.count("fetch")

    def _check_list(self, call: ListGroups, reply: ListReply) -> None:
        names = {"awaitingsync": "completingrebalance"}
        wanted = {names.get(name, name) for name in call.states}
        assert {(group.group_id, group.state) for group in reply.groups} == {
            (group.group_id, group.state.value)
            for group in self.world.shard.view.groups.values()
            if (not wanted or group.state.value.lower() in wanted)
            and (not call.types or group.type in call.types)
        }
        self.count("list")

    def _check_describe(self, call: DescribeGroup, reply: DescribeReply) -> None:
        group = self.world.shard.view.groups.get(call.group_id)
        assert reply.state == ("Dead" if group is None else group.state.value)
        if group is not None:
            assert {member.member_id for member in reply.members} == set(group.members)
            shown = any(member.metadata or member.assignment for member in reply.members)
            assert not shown or group.state is State.STABLE
        self.count("describe")

    def replied(self, call: Call, reply: Reply) -> None:
        """Checks the reply to a call, whether or not the request was parked."""
        if isinstance(call, JoinGroup) and isinstance(reply, JoinReply):
            self._check_join_reply(call, reply)
        elif isinstance(call, SyncGroup) and isinstance(reply, SyncReply):
            self._check_sync_reply(call, reply)
        if (
            describe_code(reply) == FENCED_INSTANCE_ID
            and call.member_id.startswith(f"{call.group_instance_id}-")
            and call.group_id in self.world.shard.view.groups
        ):
            self.fenced.add((call.group_id, call.member_id))
            self.count("fenced")

    def _check_join_reply(self, call: JoinGroup, reply: JoinReply) -> None:
        """Asserts that all members of a generation receive the same protocol and the same
        leader."""
        if reply.error_code:
            assert (reply.generation_id, reply.members, reply.leader) == (-1, (), "")
            return
        group = self.world.shard.view.groups.get(call.group_id)
        if group is None or group.generation_id != reply.generation_id:
            return  # a reply in an earlier generation
        told = (reply.protocol_name, _identity(reply.leader))
        key = (call.group_id, self._life(call.group_id), reply.generation_id)
        assert self.votes.setdefault(key, told) == told
        assert bool(reply.members) <= (reply.leader == reply.member_id)
        self.count("join")

    def _check_sync_reply(self, call: SyncGroup, reply: SyncReply) -> None:
        """Asserts that a member always receives the same assignment in a generation."""
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
        given = self.given.get(key[:3])
        if given is not None:
            assert reply.assignment == given.get(key[3], b""), "not what the leader gave it"
            self.count("given")
        self.count("sync")


_STATIC = re.compile(r"(.*-static-\d|nobody's)-")


def _identity(member_id: str) -> str:
    """Returns the instance id of a static member, or the member id of a dynamic member.

    All clients that send wrong requests join with the same instance id, so each of them replaces
    the previous one.
    """
    static = _STATIC.match(member_id)
    return member_id if static is None else static[1]
