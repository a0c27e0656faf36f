"""A reference for one classic group with the rules of Kafka 4.3.1, written from
GroupMetadataManager and ClassicGroup.

The reference shares no code with the coordinator. It has the rules that determine how long a group
waits: join phase, sessions, assigned member ids, lost SyncGroup requests and static members. All
members offer the same protocol, and records are written immediately. The group does not notice that
a connection closes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.calls import Call, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from coordinator.outcome import JoinedMember, JoinReply, LeaveReply, Reply, SyncReply
from protocol.errors import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

NEW_MEMBER_JOIN_MS = 300_000
NEVER = 1 << 62
EMPTY, PREPARING, COMPLETING, STABLE = "empty", "preparing", "completing", "stable"


@dataclass(eq=False)
class KafkaMember:
    """A member as in Kafka's ClassicGroupMember, with its heartbeat timer."""

    member_id: str
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    is_new: bool = True
    join: Any = None
    sync: Any = None
    assignment: bytes = b""
    session_due_ms: int = NEVER


class KafkaGroup:
    """One classic group with Kafka's rules, and with the interface of `world.Muster`."""

    def __init__(self) -> None:
        self.state = EMPTY
        self.generation = 0
        self.leader = ""
        self.members: dict[str, KafkaMember] = {}
        self.pending: dict[str, int] = {}
        self.pending_syncs: set[str] = set()
        self.phase_due_ms = NEVER
        self.now_ms = 0
        self.replies: list[tuple[Any, Reply]] = []

    # -- interface

    def handle(self, call: Call, now_ms: int) -> Sequence[tuple[Any, Reply]]:
        """Handles a request. Returns the replies that the request releases, as pairs of ticket and
        reply."""
        self.now_ms = now_ms
        match call:
            case JoinGroup():
                self._join(call)
            case SyncGroup():
                self._sync(call)
            case Heartbeat():
                self._heartbeat(call)
            case LeaveGroup():
                self._leave(call)
        return self._taken()

    def connection_closed(self, connection: Hashable, now_ms: int) -> Sequence[tuple[Any, Reply]]:
        """Does nothing, because Kafka's coordinator does not notice that a connection closes."""
        return ()

    def next_due_ms(self) -> int:
        """Returns the time at which the next timer expires, or NEVER if no timer runs."""
        sessions = [each.session_due_ms for each in self.members.values()]
        return min([self.phase_due_ms, *self.pending.values(), *sessions])

    def expire(self, now_ms: int) -> Sequence[tuple[Any, Reply]]:
        """Handles all timers that have expired. Returns the replies that the timers release, as
        pairs of ticket and reply."""
        self.now_ms = now_ms
        for member_id in [each for each, due_ms in self.pending.items() if due_ms <= now_ms]:
            del self.pending[member_id]
            self._maybe_complete()
        for member in list(self.members.values()):
            if member.session_due_ms <= now_ms:
                member.session_due_ms = NEVER
                if member.is_new or (member.join is None and member.sync is None):
                    self._remove(member)
                    self._after_removal()
        if self.phase_due_ms <= now_ms:
            self.phase_due_ms = NEVER
            if self.state == PREPARING:
                self._complete_join()
            else:
                for member_id in list(self.pending_syncs):
                    self._remove(self.members[member_id])
                self._prepare()
        return self._taken()

    def _taken(self) -> Sequence[tuple[Any, Reply]]:
        replies, self.replies = self.replies, []
        return replies

    # -- requests

    def _join(self, call: JoinGroup) -> None:
        instance_id = call.group_instance_id
        if call.member_id:
            if call.member_id in self.pending:
                del self.pending[call.member_id]
                return self._add(call, call.member_id)
            error = self._check(call.member_id, instance_id)
            if error:
                return self._reply(call.ticket, JoinReply(error, call.member_id))
            return self._rejoin(call, self.members[call.member_id])
        member_id = f"{call.client_id}-{call.fresh_id}"
        if instance_id is None and call.member_id_required:
            self.pending[member_id] = self.now_ms + call.session_timeout_ms
            return self._reply(call.ticket, JoinReply(MEMBER_ID_REQUIRED, member_id))
        old = self._static(instance_id)
        if old is None:
            return self._add(call, member_id)
        return self._replace(call, old, member_id)

    def _add(self, call: JoinGroup, member_id: str) -> None:
        member = self.members[member_id] = KafkaMember(
            member_id, call.group_instance_id, call.session_timeout_ms, call.rebalance_timeout_ms
        )
        self.leader = self.leader or member_id
        member.join = call.ticket
        member.session_due_ms = self.now_ms + NEW_MEMBER_JOIN_MS
        self._prepare_or_complete()

    def _rejoin(self, call: JoinGroup, member: KafkaMember) -> None:
        leads = member.member_id == self.leader
        if self.state == COMPLETING or (self.state == STABLE and not leads):
            return self._reply(call.ticket, self._joined(member))
        if self.state == EMPTY:
            return self._reply(call.ticket, JoinReply(UNKNOWN_MEMBER_ID, call.member_id))
        member.join = call.ticket  # an older copy is never answered (KAFKA-20938)
        return self._prepare_or_complete()

    def _replace(self, call: JoinGroup, old: KafkaMember, member_id: str) -> None:
        if old.join is not None:
            self._reply(old.join, JoinReply(FENCED_INSTANCE_ID, old.member_id))
        if old.sync is not None:
            self._reply(old.sync, SyncReply(FENCED_INSTANCE_ID))
        new = KafkaMember(
            member_id,
            old.instance_id,
            call.session_timeout_ms,
            call.rebalance_timeout_ms,
            is_new=old.is_new,
            join=call.ticket,
            assignment=old.assignment,
        )
        self.members = {
            new.member_id if each is old else name: new if each is old else each
            for name, each in self.members.items()
        }
        if old.member_id in self.pending_syncs:
            self.pending_syncs.remove(old.member_id)
            self.pending_syncs.add(member_id)
        if self.leader == old.member_id:
            self.leader = member_id
        self._renew(new)
        if self.state == STABLE:
            reply = self._joined(new)
            reply.skip_assignment = new.member_id == self.leader
            new.join = None
            self._reply(call.ticket, reply)
        elif self.state == COMPLETING:
            self._prepare()
        else:
            self._maybe_complete()

    def _sync(self, call: SyncGroup) -> None:
        error = self._check(call.member_id, call.group_instance_id)
        if not error and call.generation_id != self.generation:
            error = ILLEGAL_GENERATION
        if not error and self.state == PREPARING:
            error = REBALANCE_IN_PROGRESS
        if error:
            return self._reply(call.ticket, SyncReply(error))
        member = self.members[call.member_id]
        self.pending_syncs.discard(call.member_id)
        if self.state == COMPLETING:
            member.sync = call.ticket
            if call.member_id == self.leader:
                given = dict(call.assignments)
                self.state = STABLE
                for each in self.members.values():
                    each.assignment = given.get(each.member_id, b"")
                    self._answer_sync(each, SyncReply(0, None, None, each.assignment))
        else:
            self._reply(call.ticket, SyncReply(0, None, None, member.assignment))
        if self.state == STABLE and not self.pending_syncs:
            self.phase_due_ms = NEVER
        return None

    def _heartbeat(self, call: Heartbeat) -> None:
        error = self._check(call.member_id, call.group_instance_id)
        if not error and call.generation_id != self.generation:
            error = ILLEGAL_GENERATION
        if not error:
            self._renew(self.members[call.member_id])
            error = REBALANCE_IN_PROGRESS if self.state == PREPARING else 0
        self._reply(call.ticket, error)

    def _leave(self, call: LeaveGroup) -> None:
        for leaver in call.members:
            self.pending.pop(leaver.member_id, None)
            member = self.members.get(leaver.member_id)
            if member is not None:
                self._remove(member)
                self._after_removal()
        self._maybe_complete()
        self._reply(call.ticket, LeaveReply(0, []))

    def _check(self, member_id: str, instance_id: str | None) -> int:
        if instance_id is not None:
            static = self._static(instance_id)
            if static is not None and static.member_id != member_id:
                return FENCED_INSTANCE_ID
        return 0 if member_id in self.members else UNKNOWN_MEMBER_ID

    def _static(self, instance_id: str | None) -> KafkaMember | None:
        found = (each for each in self.members.values() if each.instance_id == instance_id)
        return None if instance_id is None else next(found, None)

    # -- rebalances

    def _prepare_or_complete(self) -> None:
        if self.state == PREPARING:
            self._maybe_complete()
        else:
            self._prepare()

    def _prepare(self) -> None:
        is_initial = self.state == EMPTY
        for member in self.members.values():
            self._answer_sync(member, SyncReply(REBALANCE_IN_PROGRESS))
        self.pending_syncs.clear()
        self.state = PREPARING
        if is_initial:  # group.initial.rebalance.delay.ms=0
            self._complete_join()
            return
        self.phase_due_ms = self.now_ms + max(
            [each.rebalance_ms for each in self.members.values()], default=0
        )
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        is_waiting = any(each.join is None for each in self.members.values())
        if self.state == PREPARING and not is_waiting and not self.pending:
            self._complete_join()

    def _complete_join(self) -> None:
        for member in list(self.members.values()):
            if member.join is None and member.instance_id is None:
                self._remove(member)
        joined = [each.member_id for each in self.members.values() if each.join is not None]
        if self.members and not joined:
            longest_ms = max(each.rebalance_ms for each in self.members.values())
            self.phase_due_ms = self.now_ms + longest_ms
            return
        self.phase_due_ms = NEVER
        self.generation += 1
        if not self.members:
            self.state, self.leader = EMPTY, ""
            return
        if self.leader not in joined:
            self.leader = joined[0]
        self.state = COMPLETING
        self.pending_syncs = set(self.members)
        for member in self.members.values():
            if member.join is not None:
                self._reply(member.join, self._joined(member))
                member.join = None
            self._renew(member)
            member.is_new = False
        self.phase_due_ms = self.now_ms + max(each.rebalance_ms for each in self.members.values())

    def _remove(self, member: KafkaMember) -> None:
        if member.join is not None:
            self._reply(member.join, JoinReply(UNKNOWN_MEMBER_ID, ""))
        if member.sync is not None:
            self._reply(member.sync, SyncReply(UNKNOWN_MEMBER_ID))
        del self.members[member.member_id]
        self.pending_syncs.discard(member.member_id)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), "")

    def _after_removal(self) -> None:
        if self.state in (STABLE, COMPLETING):
            self._prepare()
        else:
            self._maybe_complete()

    # -- replies

    def _joined(self, member: KafkaMember) -> JoinReply:
        reply = JoinReply(0, member.member_id, self.generation, None, None, self.leader)
        if member.member_id == self.leader:
            reply.members = [
                JoinedMember(each.member_id, each.instance_id, b"")
                for each in self.members.values()
            ]
        return reply

    def _answer_sync(self, member: KafkaMember, reply: SyncReply) -> None:
        ticket, member.sync = member.sync, None
        if ticket is not None:
            self._reply(ticket, reply)
            self._renew(member)

    def _renew(self, member: KafkaMember) -> None:
        member.session_due_ms = self.now_ms + member.session_ms

    def _reply(self, ticket: Any, reply: Reply) -> None:
        self.replies.append((ticket, reply))
