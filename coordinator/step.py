"""One step of a shard: the shard's state, and the outcome of the step so far.

``ShardState`` is the whole state of a shard. A ``Step`` collects the records, replies and events of
one call. Only ``answer_join`` and ``answer_sync`` reply to parked requests, so that each ticket is
answered exactly once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from coordinator.calls import Ticket
from coordinator.classic.group import Group
from coordinator.classic.member import Member
from coordinator.classic.states import State
from coordinator.config import GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Cause, Event, MemberLeft, Transition
from coordinator.outcome import JoinReply, Outcome, Reply, SyncReply, answered
from coordinator.refusal import MUST_NAME_GROUP, refusal
from coordinator.share.group import ShareGroup
from coordinator.streams.group import StreamsGroup
from coordinator.timers import GroupTimer
from coordinator.topics_image import TopicsImage
from offsets.cache import OffsetCache
from offsets.record_codec import run_bytes_at_most, run_records
from offsets.record_values import UnwritableRun
from offsets.runs import Run
from protocol.deadlines import Deadlines
from protocol.errors import INVALID_GROUP_ID, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID
from protocol.now import Now
from protocol.records.batch import HEADER_BYTES

CommittingGroup = ConsumerGroup | StreamsGroup
"""A group whose members have epochs and commit offsets."""


class ShareDeletion(NamedTuple):
    """A deletion of a share group that waits until the delivery states of its partitions are
    deleted."""

    tickets: list[Ticket]
    topics: set[bytes]
    """The ids of the topics whose delivery states are not deleted yet."""


class ShardState:
    """The state of a shard."""

    __slots__ = (
        "cache",
        "config",
        "connections",
        "consumer_groups",
        "deadlines",
        "expiring",
        "groups",
        "interrupted",
        "parked",
        "share_deletions",
        "share_groups",
        "streams_groups",
        "sweeps",
        "topics",
    )

    def __init__(self, config: GroupConfig, topics: TopicsImage | None = None) -> None:
        self.config = config
        self.groups: dict[str, Group] = {}
        """Classic groups, and groups that have only offsets, by id."""
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        """Consumer groups (KIP-848), by id."""
        self.share_groups: dict[str, ShareGroup] = {}
        """Share groups (KIP-932), by id."""
        self.streams_groups: dict[str, StreamsGroup] = {}
        """Streams groups (KIP-1071), by id. An id is in at most one of ``groups``,
        ``consumer_groups``, ``share_groups`` and ``streams_groups``."""
        self.topics = TopicsImage() if topics is None else topics
        self.cache = OffsetCache()
        """The committed offsets. Only the shard's ``replay`` and ``restore`` methods change the
        cache."""
        self.deadlines: Deadlines[GroupTimer] = Deadlines()
        self.expiring: dict[int, dict[str, int]] = {}
        """The number of a group's offsets that will expire soon, by warning time in milliseconds
        and then by group id. An offset counts if it expires within the warning time after the last
        check of the group. Groups without such offsets are absent."""
        self.parked: dict[Ticket, tuple[Group, Member]] = {}
        """The group and the member of each parked JoinGroup or SyncGroup, by ticket."""
        self.share_deletions: dict[str, ShareDeletion] = {}
        """The deletions of share groups that wait for the share coordinator, by group id."""
        self.connections: dict[Hashable, dict[Member, Group]] = {}
        """The members that use each open connection, each with its group. A member uses at most one
        connection."""
        self.interrupted: list[tuple[Ticket, Reply]] = []
        """Replies that were not sent, because an exception ended their step. Their tickets are not
        parked any more."""
        self.sweeps: deque[Sweep] = deque()
        """Long work that is not finished, in the order in which it is done."""

    def committing_group(self, group_id: str) -> CommittingGroup | None:
        return self.consumer_groups.get(group_id) or self.streams_groups.get(group_id)

    def group_with_offsets(self, group_id: str) -> Group | CommittingGroup | None:
        """Returns the group with this id. Returns None if it does not exist, or if it is a share
        group, whose members do not commit offsets."""
        return self.groups.get(group_id) or self.committing_group(group_id)

    def has_group(self, group_id: str) -> bool:
        return group_id in self.share_groups or self.group_with_offsets(group_id) is not None

    def forget_expiring(self, group_id: str) -> None:
        """Removes a group from the counts of offsets that expire soon, because the group was
        removed."""
        for by_group in self.expiring.values():
            by_group.pop(group_id, None)

    def connect(self, group: Group, member: Member, connection: Hashable) -> None:
        """Records the connection that a member uses. A ``connection`` of None means that it is
        unknown."""
        member.closed_ms = None
        if member.connection is connection:
            return
        self.disconnect(member)
        if connection is not None:
            member.connection = connection
            self.connections.setdefault(connection, {})[member] = group

    def disconnect(self, member: Member) -> None:
        if member.connection is None:
            return
        members = self.connections[member.connection]
        del members[member]
        if not members:
            del self.connections[member.connection]
        member.connection = None


class Step:
    """One step of a shard. Handlers read ``state`` and ``now``, and add records, replies and
    events."""

    __slots__ = ("events", "now", "records", "replies", "state")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.state = state
        self.now = now
        self.records: list[Run] = []
        self.replies: list[tuple[Ticket, Reply]] = []
        self.events: list[Event] = []

    def reply(self, ticket: Ticket, reply: Reply) -> None:
        """Replies to a request that is not parked."""
        self.replies.append((ticket, reply))

    # ---------------------------------------------------------------------------------- parking

    def park_join(self, group: Group, member: Member, ticket: Ticket) -> None:
        """Parks a JoinGroup until the join phase ends.

        If an older JoinGroup of the same member is parked, the older request gets
        REBALANCE_IN_PROGRESS. If the client still waits for this reply, it rejoins under the same
        member id.
        """
        if member.join_ticket is not None:
            displaced = JoinReply(REBALANCE_IN_PROGRESS, member.member_id)
            self.answer_join(group, member, displaced)
        member.join_ticket = ticket
        member.waits = True
        group.joined += 1
        group.last_wait_ms = self.now.mono_ms - group.last_join_ms if group.joined > 1 else 0
        group.last_join_ms = self.now.mono_ms
        group.last_joined_id = member.member_id
        self.state.parked[ticket] = (group, member)
        if member.is_new:
            self.arm(member.session, self.state.config.new_member_join_timeout_ms)
        else:
            member.session.disarm()

    def answer_join(self, group: Group, member: Member, reply: JoinReply) -> None:
        ticket = member.join_ticket
        if ticket is not None:
            self.void(group, member)
            member.knows_id = True
            self.replies.append((ticket, reply))

    def park_sync(self, group: Group, member: Member, ticket: Ticket) -> None:
        """Parks a SyncGroup until the leader's SyncGroup arrives. If an older SyncGroup of the same
        member is parked, it gets REBALANCE_IN_PROGRESS."""
        self.answer_sync(group, member, SyncReply(REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        member.waits = True
        self.state.parked[ticket] = (group, member)
        member.session.disarm()

    def answer_sync(self, group: Group, member: Member, reply: SyncReply) -> bool:
        """Replies to a member's parked SyncGroup. Returns whether a SyncGroup of the member was
        parked."""
        ticket = member.sync_ticket
        if ticket is None:
            return False
        self.void(group, member)
        self.replies.append((ticket, reply))
        return True

    def void(self, group: Group, member: Member) -> None:
        """Removes a member's parked request without a reply. A member has at most one parked
        request, because JoinGroups are parked only in PREPARING_REBALANCE and SyncGroups only in
        AWAITING_SYNC."""
        member.waits = False
        if member.join_ticket is not None:
            del self.state.parked[member.join_ticket]
            member.join_ticket = None
            group.joined -= 1
        if member.sync_ticket is not None:
            del self.state.parked[member.sync_ticket]
            member.sync_ticket = None

    # ----------------------------------------------------------------------------------- timers

    def arm(self, timer: GroupTimer, after_ms: int) -> None:
        self.state.deadlines.arm(timer, self.now.mono_ms + after_ms)

    # ---------------------------------------------------------------------------------- changes

    def move(
        self, group: Group, state: State, cause: Cause, detail: str, member_id: str = ""
    ) -> None:
        """Changes the group's state, and emits the event of the transition."""
        old = group.state
        group.transition_to(state, self.now)
        awaited: tuple[str, ...] = ()
        wait_ms = 0
        if state is State.PREPARING_REBALANCE or state is State.AWAITING_SYNC:
            waits_for = group.awaited()
            if waits_for.deadline_ms is not None:
                wait_ms = waits_for.deadline_ms - self.now.mono_ms
                awaited = tuple([each for each in waits_for.members if each != member_id])
        self.events.append(
            Transition(
                group.group_id,
                old.value,
                state.value,
                group.generation_id,
                cause,
                detail,
                member_id,
                awaited,
                wait_ms,
            )
        )

    def remove(
        self, group: Group, member: Member, cause: Cause, detail: str, silent_ms: int = -1
    ) -> None:
        """Removes a member and replies to its parked request with UNKNOWN_MEMBER_ID. The group's
        state does not change."""
        self.answer_join(group, member, JoinReply(UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(group, member, SyncReply(UNKNOWN_MEMBER_ID))
        group.remove(member)
        self.state.disconnect(member)
        self.emit_left(group, member, cause, detail, silent_ms)

    def emit_left(
        self, group: Group, member: Member, cause: Cause, detail: str, silent_ms: int = -1
    ) -> None:
        self.events.append(
            MemberLeft(
                group.group_id,
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                cause,
                detail,
                silent_ms,
                member.closed_ms is not None,
            )
        )


Handler = Callable[[ShardState, Any, Now], Outcome]


def stepped(handler: Callable[[Step, Any], object]) -> Handler:
    """Returns a handler that runs ``handler`` with a new Step and returns the outcome of the Step.
    A call with an empty group id is rejected before ``handler`` runs, if the API requires a group
    id."""

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


def idle_or_stepped(
    idle: Callable[[ShardState, Any, Now], Reply | None], handler: Callable[[Step, Any], object]
) -> Handler:
    """Returns a handler for calls that may change nothing. The handler first calls ``idle``, which
    returns a reply if the call changes nothing. If ``idle`` returns None, the handler continues
    like the result of ``stepped(handler)``."""
    changing = stepped(handler)

    def handle(state: ShardState, call: Any, now: Now) -> Outcome:
        reply = idle(state, call, now)
        if reply is None:
            return changing(state, call, now)
        return answered(call.ticket, reply)

    return handle


WHOLE_STEP = 1 << 30
"""The cost that `Sweep.piece` returns if no further piece of work may run in the same step."""


class Sweep(ABC):
    """Work that takes several steps. If the work has a ``ticket``, the ticket is answered when the
    work is done."""

    ticket: Ticket | None = None

    @abstractmethod
    def piece(self, step: Step) -> int:
        """Does the next part of the sweep and returns the cost of this part, which counts against
        the budget of `GroupShard.expire`. Returns 0 if the sweep is complete."""

    def failed(self, error_code: int) -> Reply:
        """Returns the reply for ``ticket`` if the shard is unloaded before the work is done."""
        return error_code


def fits(runs: Sequence[Run], max_record_bytes: int) -> bool:
    """Returns whether the runs fit in one batch of at most ``max_record_bytes``, including the
    batch header."""
    room = max_record_bytes - HEADER_BYTES
    try:
        if sum(map(run_bytes_at_most, runs)) <= room:
            return True
        # The estimate is an upper bound: measure the exact size.
        first_delta, size = 0, 0
        for run in runs:
            size += len(run_records(run, first_delta))
            first_delta += len(run)
    except UnwritableRun:
        return False
    return size <= room
