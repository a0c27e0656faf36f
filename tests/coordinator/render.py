"""Formats outcomes and groups as lines of the files in tests/golden."""

from __future__ import annotations

from coordinator.events import (
    Assigned,
    CommitRejected,
    Event,
    GenerationFormed,
    GroupRemoved,
    JoinRefused,
    LostByAdmin,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    OffsetsExpired,
    OffsetsExpiring,
    OffsetsMovedBack,
    ShardLoaded,
    TransactionalOffsets,
    Transition,
)
from coordinator.outcome import (
    CommitReply,
    DescribeReply,
    FetchReply,
    JoinReply,
    LeaveReply,
    ListReply,
    OffsetDeleteReply,
    Outcome,
    Reply,
    SyncReply,
)
from coordinator.shard import GroupShard
from offsets.runs import GroupRun, MarkerRun, OffsetRun, OwnBatch, Run, TransactionalRun
from protocol.consumer_protocol import subscribed_topics
from protocol.deadlines import NEVER
from protocol.errors import NAMES, ProtocolError


def render_outcome(outcome: Outcome, ticket_order: dict[str, int]) -> list[str]:
    """Returns the lines of an outcome: its records, its replies in ticket order, and its events."""
    lines = []
    for run in outcome.records:
        lines += [f"record {line}" for line in render_run(run)]
    for ticket, reply in sorted(outcome.replies, key=lambda pair: ticket_order[pair[0]]):
        lines += [f"reply {ticket} {line}" for line in render_reply(reply)]
    lines += [f"event {render_event(event)}" for event in outcome.events]
    return lines


def name_of(code: int) -> str:
    return "ok" if code == 0 else NAMES[code]


def text_of(data: bytes) -> str:
    """Returns the topics of an encoded subscription as text, "-" for empty bytes, or other bytes as
    text."""
    if not data:
        return "-"
    try:
        return "+".join(subscribed_topics(data))
    except ProtocolError:
        return data.decode()


def render_run(run: Run | OwnBatch) -> list[str]:
    if isinstance(run, TransactionalRun):
        lines = [line for each in run.runs for line in render_run(each)]
        return [f"producer {run.producer_id} {line}" for line in lines]
    if isinstance(run, MarkerRun):
        return [f"producer {run.producer_id} {'COMMIT' if run.committed else 'ABORT'}"]
    if isinstance(run, OffsetRun):
        lines = []
        for i, partition in enumerate(run.partitions):
            metadata = run.metadata[i] if run.metadata else ""
            line = f"offset {run.group_id} {run.topic}/{partition} = {run.offsets[i]}"
            line += f" epoch {run.leader_epochs[i]}" if run.leader_epochs[i] != -1 else ""
            line += f" {metadata!r}" if metadata else ""
            line += f" at {run.commit_timestamp_ms}"
            if run.expire_timestamp_ms != -1:
                line += f" until {run.expire_timestamp_ms}"
            lines.append(line)
        return lines
    if isinstance(run, GroupRun):
        if run.value is None:
            return [f"group {run.group_id} deleted"]
        value = run.value
        line = f"group {run.group_id} generation {value.generation_id}"
        line += f" {value.protocol_type or '-'}/{value.protocol_name or '-'}"
        line += f" leader {value.leader or '-'} at {value.state_timestamp_ms}:"
        for member in value.members:
            said = f"{text_of(member.subscription)}={text_of(member.assignment)}"
            line += f" {member.member_id}({said})"
        return [line]
    return [f"offset {run.group_id} {topic}/{partition} deleted" for topic, partition in run.keys]


def render_reply(reply: Reply) -> list[str]:
    match reply:
        case int():
            return [name_of(reply)]
        case JoinReply():
            return [_join(reply)]
        case SyncReply():
            line = f"sync {name_of(reply.error_code)}"
            if reply.error_code == 0:
                line += f" {reply.protocol_type}/{reply.protocol_name} {text_of(reply.assignment)}"
            return [line]
        case LeaveReply():
            members = [
                f"{member_id or '-'}{'' if instance is None else '/' + instance}:{name_of(code)}"
                for member_id, instance, code in reply.members
            ]
            return [" ".join(["leave", name_of(reply.error_code), *members])]
        case CommitReply():
            if isinstance(reply.errors, int):
                return [f"commit {name_of(reply.errors)}"]
            parts = [
                name_of(each) if isinstance(each, int) else "+".join(map(name_of, each))
                for each in reply.errors
            ]
            return ["commit " + " ".join(parts)]
        case FetchReply():
            return [_fetch(reply)]
        case DescribeReply():
            return _describe(reply)
        case ListReply():
            groups = [
                f"{group.group_id}:{group.protocol_type or '-'}:{group.state}:{group.group_type}"
                for group in reply.groups
            ]
            return [" ".join(["list", name_of(reply.error_code), *groups])]
        case OffsetDeleteReply():
            parts = [
                f"{topic}/{partition}:{name_of(code)}"
                for topic, partitions in reply.topics
                for partition, code in partitions
            ]
            return [" ".join(["offset-delete", name_of(reply.error_code), *parts])]


def _join(reply: JoinReply) -> str:
    line = f"join {name_of(reply.error_code)} member {reply.member_id or '-'}"
    if reply.error_code == 0:
        line += f" generation {reply.generation_id} {reply.protocol_type}/{reply.protocol_name}"
        line += f" leader {reply.leader}"
        line += " skip-assignment" if reply.skip_assignment else ""
        for member in reply.members:
            line += f" {member.member_id}({text_of(member.metadata)})"
    return line


def _fetch(reply: FetchReply) -> str:
    parts = []
    for topic in reply.topics:
        for i, partition in enumerate(topic.partitions):
            codes = topic.codes
            code = codes if isinstance(codes, int) else codes[i]
            part = f"{topic.topic}/{partition}={name_of(code) if code else topic.offsets[i]}"
            part += f":{topic.metadata[i]}" if topic.metadata and topic.metadata[i] else ""
            parts.append(part)
    return " ".join(["fetch", name_of(reply.error_code), *parts])


def _describe(reply: DescribeReply) -> list[str]:
    line = f"describe {name_of(reply.error_code)} {reply.group_id} {reply.state}"
    line += f" {reply.protocol_type or '-'}/{reply.protocol_name or '-'}"
    for member in reply.members:
        line += f" {member.member_id}"
        line += f"/{member.group_instance_id}" if member.group_instance_id is not None else ""
        line += f"({text_of(member.metadata)}={text_of(member.assignment)})"
    return [line]


def render_event(event: Event) -> str:
    match event:
        case Transition():
            line = f"{event.group_id} {event.old_state} -> {event.new_state}"
            line = f"{line} {event.cause.value}: {event.detail}"
            if event.awaited:
                line += f"; awaits {' '.join(event.awaited)}"
            return line
        case MemberJoined():
            why = f" for {event.replaces}" if event.replaces else ""
            why += f": {event.reason}" if event.reason else ""
            return f"{event.group_id} joined {event.member_id}{why}"
        case MemberLeft():
            line = f"{event.group_id} lost {event.member_id}"
            return f"{line} {event.cause.value}: {event.detail}"
        case GenerationFormed():
            line = f"{event.group_id} generation {event.generation_id} {event.protocol_name}"
            line += f" of {event.members} led by {event.leader} after {event.join_ms} ms"
            late = f" by {event.last_wait_ms} ms" if event.last_wait_ms else ""
            return f"{line}, last {event.last_member}{late}"
        case MemberChanged():
            return f"{event.group_id} changed {event.member_id} {event.detail}"
        case Assigned():
            got = " ".join(f"{each.member_id}={text_of(each.assignment)}" for each in event.members)
            return f"{event.group_id} assigned {got}"
        case CommitRejected():
            return f"{event.group_id} rejected commit {NAMES[event.error_code]}: {event.detail}"
        case JoinRefused():
            return f"{event.group_id} refused join {NAMES[event.error_code]}: {event.detail}"
        case OffsetsMovedBack():
            moved = " ".join(
                f"{each.topic}/{each.partition} {each.offset_before}->{each.offset}"
                for each in event.examples
            )
            return (
                f"{event.group_id} moved back {event.offsets} by {event.member_id or '-'} {moved}"
            )
        case LostByAdmin():
            moved = " ".join(
                f"{each.topic}/{each.partition} {each.offset_before}->{each.offset}"
                for each in event.examples
            )
            return f"{event.group_id} lost by an admin {event.loss.value} {event.offsets} {moved}"
        case TransactionalOffsets():
            done = "committed" if event.committed else "dropped"
            return f"{event.group_id} {done} {event.offsets} of producer {event.producer_id}"
        case OffsetsExpiring():
            line = f"{event.group_id} {event.offsets} offsets expire within {event.within_ms} ms"
            return f"{line}, the first at {event.soonest_ms}: {event.detail}"
        case ShardLoaded():
            return _loaded(event)
        case OffsetsExpired():
            return f"{event.group_id} dropped {event.offsets} offsets {event.cause.value}"
        case GroupRemoved():
            return f"{event.group_id} removed {event.cause.value}"


def _loaded(event: ShardLoaded) -> str:
    line = f"loaded {event.groups} groups"
    for group_id, generations in event.generations.items():
        told = " ".join(f"{each.generation_id}@{each.log_offset}" for each in generations)
        line += f", {group_id} {told}"
    return line


def group_line(shard: GroupShard, group_id: str) -> str:
    """Returns a line about a group: state, generation, phase deadline, awaited members, and when
    each session ends."""
    group = shard.view.groups.get(group_id)
    if group is None:
        return f"{group_id}: no group"
    line = f"{group_id}: {group.state.value} generation {group.generation_id}"
    awaited = group.awaited()
    if awaited.deadline_ms is not None:
        line += f", {awaited.phase} until {awaited.deadline_ms}"
        line += f" awaits {' '.join(awaited.members) or 'time'}"
    sessions = []
    for member in group.members.values():
        due_ms = member.session.due_ms
        closed = "" if member.closed_ms is None else f" closed at {member.closed_ms}"
        sessions.append(f"{member.member_id} {'parked' if due_ms == NEVER else due_ms}{closed}")
    sessions += [f"{name}? {timer.due_ms}" for name, timer in group.pending.items()]
    return line + (f", sessions {' '.join(sessions)}" if sessions else "")
