from __future__ import annotations

from dataclasses import fields
from enum import Enum

from controller.events import Event
from controller.outcome import (
    AlterPartitionReply,
    ControlledShutdownReply,
    CreateState,
    DeleteNodes,
    DeleteTopic,
    ElectLeadersReply,
    ListedReassignments,
    Outcome,
    ProducerIdsReply,
    Read,
    ReadProducerIds,
    ReadStates,
    ReadTopic,
    ReadUnclean,
    ReassignmentsReply,
    Reply,
    RewriteTopic,
    SetProducerIds,
    SetReassignments,
    SetState,
    Write,
)
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Send,
    ShownPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import Assignment, LeaderAndIsr, TopicPartition
from protocol.errors import NAMES


def render_outcome(outcome: Outcome) -> list[str]:
    """Returns the outcome as lines of text: one line for each write, request, read, reply and
    event."""
    lines = [f"write {write_line(each)}" for each in outcome.writes]
    told: dict[str, list[int]] = {}
    for send in outcome.sends:
        told.setdefault(send_line(send), []).append(send.broker_id)
    lines += [f"to {numbers(to)}: {line}" for line, to in told.items()]
    lines += [f"read {read_line(each)}" for each in outcome.reads]
    lines += [f"reply {ticket}: {reply_line(reply)}" for ticket, reply in outcome.replies]
    lines += [f"event {event_line(each)}" for each in outcome.events]
    if outcome.resign:
        lines.append(f"resign: {outcome.resign}")
    return lines


def numbers(ids: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def place(key: TopicPartition) -> str:
    return f"{key[0]}/{key[1]}"


def state_text(state: LeaderAndIsr | LeaderAndIsrPartition | ShownPartition) -> str:
    text = f"leader {state.leader} epoch {state.leader_epoch} isr {numbers(state.isr)}"
    return text + (" recovering" if getattr(state, "recovering", False) else "")


def assignment_text(assignment: Assignment) -> str:
    words = [numbers(assignment.replicas)]
    if assignment.adding:
        words.append(f"adding {numbers(assignment.adding)}")
    if assignment.removing:
        words.append(f"removing {numbers(assignment.removing)}")
    return " ".join(words)


def write_line(write: Write) -> str:
    match write:
        case CreateState():
            return f"create {place((write.topic, write.partition))} {state_text(write.state)}"
        case SetState():
            where = place((write.topic, write.partition))
            return f"set {where} {state_text(write.state)} at version {write.state.partition_epoch}"
        case RewriteTopic():
            partitions = [f"{i}: {assignment_text(a)}" for i, a in write.partitions.items()]
            topic_id = "none" if write.topic_id is None else int.from_bytes(write.topic_id)
            said = "; ".join(partitions)
            return f"topic {write.name} id {topic_id} {said} at version {write.znode_version}"
        case DeleteTopic():
            return f"delete topic {write.name}"
        case DeleteNodes():
            return f"delete {' '.join(write.paths)}"
        case SetReassignments():
            targets = [f"{place(key)} to {numbers(to)}" for key, to in write.targets.items()]
            return f"reassignments {'; '.join(targets) or 'none'}"
        case SetProducerIds():
            ids = f"{write.block_start} to {write.block_end}"
            return f"producer ids {ids} of {write.broker_id} at version {write.znode_version}"


def send_line(send: Send) -> str:
    match send:
        case LeaderAndIsrRequest():
            told = [
                f"{place((topic.name, each.partition))} {_led_partition(each)}"
                for topic in send.topics
                for each in topic.partitions
            ]
            return f"LeaderAndIsr {'; '.join(told)}"
        case UpdateMetadataRequest():
            shown = [
                f"; {place((topic.name, each.partition))} {_shown(each)}"
                for topic in send.topics
                for each in topic.partitions
            ]
            brokers = numbers([each.broker_id for each in send.brokers])
            return f"UpdateMetadata brokers {brokers}{''.join(shown)}"
        case StopReplicaRequest():
            stopped = [
                f"{place((topic.name, each.partition))} epoch {each.leader_epoch}"
                + (" delete" if each.delete else "")
                for topic in send.topics
                for each in topic.partitions
            ]
            return f"StopReplica {'; '.join(stopped)}"


def _led_partition(told: LeaderAndIsrPartition) -> str:
    assignment = Assignment(told.replicas, told.adding, told.removing)
    new = " new" if told.is_new else ""
    return f"{state_text(told)} of {assignment_text(assignment)}{new}"


def _shown(shown: ShownPartition) -> str:
    offline = f" offline {numbers(shown.offline)}" if shown.offline else ""
    return f"{state_text(shown)}{offline}"


def read_line(read: Read) -> str:
    match read:
        case ReadTopic():
            return f"topic {read.name}"
        case ReadStates():
            return f"states {' '.join(map(place, read.partitions))}"
        case ReadUnclean():
            return f"unclean of {read.topic}"
        case ReadProducerIds():
            return "producer ids"


def reply_line(reply: Reply) -> str:
    error = error_name(reply.error_code)
    match reply:
        case AlterPartitionReply():
            parts = [
                f"; {place((each.topic, each.partition))} {error_name(each.error_code)}"
                + (f" isr {numbers(each.isr)} version {each.partition_epoch}" if each.isr else "")
                for each in reply.partitions
            ]
        case ControlledShutdownReply():
            parts = [f"; still leads {place(each)}" for each in reply.remaining]
        case ElectLeadersReply() | ReassignmentsReply():
            parts = [
                f"; {place(key)} {error_name(code)}" + (f": {text}" if text else "")
                for key, (code, text) in reply.partitions.items()
            ]
        case ListedReassignments():
            parts = [
                f"; {place(key)} {assignment_text(each)}" for key, each in reply.partitions.items()
            ]
        case ProducerIdsReply():
            parts = [f"; {reply.first} and {reply.length - 1} more"] if reply.length else []
    return error + "".join(parts)


def error_name(code: int) -> str:
    return "ok" if code == 0 else NAMES[code]


def event_line(event: Event) -> str:
    words = []
    for each in fields(event):
        value = getattr(event, each.name)
        if isinstance(value, Enum):
            value = value.name
        elif isinstance(value, Assignment):
            value = assignment_text(value)
        elif isinstance(value, tuple):
            value = ",".join(map(str, value)) or "-"
        words.append(f"{each.name} {value}")
    return f"{type(event).__name__} {' '.join(words)}"
