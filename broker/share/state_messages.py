"""Converts calls of the share coordinator to requests, and responses to replies. The APIs 83 to 87
have the same form: a request has a group and, by topic id, entries of partitions; the response has
one result for each entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from broker.topics.ticket import Ticket
from protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from protocol.schema import Api
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    StateReply,
    WriteState,
)
from share.persister.values import UNKNOWN_COUNT
from share.values import SharePartitionKey, StateBatch, StoredState

Entry = Mapping[str, Any]
"""The fields of one partition in a request or a response."""
UNKNOWN_EPOCH = -1
_NOTHING = StoredState(0, 0, 0, UNKNOWN_COUNT)
"""The state in the response entry of a partition with an error."""


class Form(NamedTuple):
    """The message format of one type of call."""

    api: Api
    request: Callable[[Any], dict[str, Any]]
    """A function that converts a call into the request entry for the call's partition."""
    call: Callable[[Ticket, SharePartitionKey, Entry], Call]
    """Returns the call for a request entry."""
    result: Callable[[StoredState], dict[str, Any]]
    """Returns the fields of a response entry that contain the stored state, without the partition
    and the error."""
    state: Callable[[Entry], StoredState] | None = None
    """A function that reads the state from a response entry without an error. None if the entries
    of this API contain no state."""

    def reply(self, entry: Entry) -> StateReply:
        """Returns the reply for a response entry."""
        error_code = entry["error_code"]
        state = None if error_code or self.state is None else self.state(entry)
        return StateReply(error_code, entry["error_message"], state)

    def entry(self, partition: int, reply: StateReply) -> dict[str, Any]:
        """Returns the response entry for a reply."""
        return {
            "partition": partition,
            "error_code": reply.error_code,
            "error_message": reply.error_message,
            **self.result(reply.state or _NOTHING),
        }


def _batches(state: StoredState) -> list[dict[str, Any]]:
    return [each._asdict() for each in state.batches]


def _initialized(call: InitializeState) -> dict[str, Any]:
    return {"state_epoch": call.state_epoch, "start_offset": call.start_offset}


def _by_leader(call: ReadState | ReadStateSummary) -> dict[str, Any]:
    return {"leader_epoch": call.leader_epoch}


def _written(call: WriteState) -> dict[str, Any]:
    return {
        "state_epoch": call.state_epoch,
        "leader_epoch": call.leader_epoch,
        "start_offset": call.start_offset,
        "delivery_complete_count": call.delivery_complete_count,
        "state_batches": [each._asdict() for each in call.batches],
    }


def _write(ticket: Ticket, key: SharePartitionKey, entry: Entry) -> WriteState:
    return WriteState(
        ticket,
        key,
        entry["state_epoch"],
        entry["leader_epoch"],
        entry["start_offset"],
        entry.get("delivery_complete_count", UNKNOWN_COUNT),
        [StateBatch(**each) for each in entry["state_batches"]],
    )


def _read(state: StoredState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": _batches(state),
    }


def _read_state(entry: Entry) -> StoredState:
    """Returns the state in a ReadShareGroupState result. Its leader epoch and its delivery complete
    count are unknown, because the result does not contain them. The reader, the leader of the
    partition, does not need them."""
    batches = tuple([StateBatch(**each) for each in entry["state_batches"]])
    return StoredState(
        entry["state_epoch"], UNKNOWN_EPOCH, entry["start_offset"], UNKNOWN_COUNT, batches
    )


def _summary(state: StoredState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
    }


def _summarized(entry: Entry) -> StoredState:
    return StoredState(
        entry["state_epoch"],
        entry["leader_epoch"],
        entry["start_offset"],
        entry.get("delivery_complete_count", UNKNOWN_COUNT),
    )


def _nothing(_: object) -> dict[str, Any]:
    return {}


FORMS: Mapping[type, Form] = {
    InitializeState: Form(
        initialize_share_group_state.API,
        _initialized,
        lambda ticket, key, entry: InitializeState(
            ticket, key, entry["state_epoch"], entry["start_offset"]
        ),
        _nothing,
    ),
    ReadState: Form(
        read_share_group_state.API,
        _by_leader,
        lambda ticket, key, entry: ReadState(ticket, key, entry["leader_epoch"]),
        _read,
        _read_state,
    ),
    WriteState: Form(write_share_group_state.API, _written, _write, _nothing),
    DeleteState: Form(
        delete_share_group_state.API,
        _nothing,
        lambda ticket, key, _: DeleteState(ticket, key),
        _nothing,
    ),
    ReadStateSummary: Form(
        read_share_group_state_summary.API,
        _by_leader,
        lambda ticket, key, entry: ReadStateSummary(ticket, key, entry["leader_epoch"]),
        _summary,
        _summarized,
    ),
}
"""The message format of each type of call."""
