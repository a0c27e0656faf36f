"""Calls to the coordinator with all fields set, of which a test changes one or two, and a driver
for a shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.calls import (
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    OffsetCommit,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.config import GroupConfig
from coordinator.outcome import Outcome, Reply
from coordinator.shard import GroupShard
from offsets.runs import OwnBatch, Run
from protocol.consumer_protocol import encode_subscription
from protocol.now import Now

SUBSCRIPTION = encode_subscription(["t"])


def join(ticket: Any, member_id: str = "", **other: Any) -> JoinGroup:
    fields: dict[str, Any] = {
        "group_id": "g",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [("range", SUBSCRIPTION)],
        "reason": None,
        "member_id_required": False,
        "supports_skip_assignment": True,
        "fresh_id": str(ticket),
    }
    return JoinGroup(ticket=ticket, member_id=member_id, **(fields | other))


def sync(ticket: Any, member_id: str, generation_id: int = 1, **other: Any) -> SyncGroup:
    fields: dict[str, Any] = {
        "group_id": "g",
        "group_instance_id": None,
        "protocol_type": None,
        "protocol_name": None,
        "assignments": [],
    }
    return SyncGroup(
        ticket=ticket, member_id=member_id, generation_id=generation_id, **(fields | other)
    )


def heartbeat(ticket: Any, member_id: str, generation_id: int = 1, **other: Any) -> Heartbeat:
    fields: dict[str, Any] = {"group_id": "g", "group_instance_id": None}
    return Heartbeat(
        ticket=ticket, member_id=member_id, generation_id=generation_id, **(fields | other)
    )


def leave(ticket: Any, *member_ids: str, group_id: str = "g") -> LeaveGroup:
    return LeaveGroup(ticket, group_id, [Leaver(name, None, None) for name in member_ids])


def commit(ticket: Any, member_id: str = "", generation_id: int = -1, **other: Any) -> OffsetCommit:
    fields: dict[str, Any] = {
        "group_id": "g",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [TopicOffsets("t", [0], [5], [-1], None, None)],
    }
    return OffsetCommit(
        ticket=ticket, member_id=member_id, generation_id=generation_id, **(fields | other)
    )


def txn_commit(
    ticket: Any, member_id: str = "", generation_id: int = -1, **other: Any
) -> TxnOffsetCommit:
    fields: dict[str, Any] = {
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 0,
        "group_instance_id": None,
        "topics": [TopicOffsets("t", [0], [5], [-1], None, None)],
    }
    return TxnOffsetCommit(
        ticket=ticket, member_id=member_id, generation_id=generation_id, **(fields | other)
    )


def end(ticket: Any, *, committed: bool, producer_id: int = 7) -> EndOffsets:
    return EndOffsets(ticket, producer_id, 0, 0, committed)


class Driver:
    """A shard with its log and clock. ``handle`` appends and replays the records of each outcome,
    as the runtime does."""

    def __init__(self, **settings: int) -> None:
        self.config = GroupConfig(**({"initial_rebalance_delay_ms": 0} | settings))
        self.shard = GroupShard(self.config)
        self.mono_ms = 0
        self.log: list[tuple[int, Run | OwnBatch]] = []
        self.shard.loaded(self.now)

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, 1_000_000 + self.mono_ms)

    def handle(self, call: Any) -> Outcome:
        return self.take(self.shard.handle(call, self.now))

    def take(self, outcome: Outcome) -> Outcome:
        for run in outcome.records:
            base_offset = sum(len(earlier) for _, earlier in self.log)
            self.shard.replay(run, base_offset)
            self.log.append((base_offset, run))
        return outcome

    def answer(self, call: Any) -> Reply:
        """Passes a call to the shard and returns its reply. The call must be of a type that is
        never parked."""
        return dict(self.handle(call).replies)[call.ticket]

    def error(self, call: Any) -> int:
        reply = self.answer(call)
        return reply if isinstance(reply, int) else reply.error_code

    def form(self, *names: str, settle: bool = True) -> list[str]:
        """Lets dynamic members join and returns their member ids. The group is then Stable, or in
        CompletingRebalance if ``settle`` is False."""
        tickets = [f"{name}-{len(self.log)}" for name in names]
        for ticket in tickets:
            self.handle(join(ticket, client_id="m", fresh_id=ticket))
            group = self.shard.view.groups["g"]
            for member in list(group.members.values()):
                if member.join_ticket is None:
                    self.handle(join(f"{ticket}/{member.member_id}", member.member_id))
        ids = [f"m-{ticket}" for ticket in tickets]
        group = self.shard.view.groups["g"]
        assert group.state.value == "CompletingRebalance"
        if settle:
            given: Sequence[tuple[str, bytes]] = [(name, name.encode()) for name in ids]
            leader = str(group.leader_id)
            for name in [leader, *(each for each in ids if each != leader)]:
                call = sync(f"sync {name}", name, group.generation_id, assignments=given)
                self.handle(call)
            assert group.state.value == "Stable"
        return ids
