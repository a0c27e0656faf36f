"""Rejected JoinGroups: the reply, and the event with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.calls import JoinGroup
from coordinator.classic.group import Group
from coordinator.events import JoinRefused
from coordinator.outcome import JoinReply
from coordinator.step import ShardState, Step
from coordinator.wording import some_of
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
)

LASTING = frozenset(
    {
        INCONSISTENT_GROUP_PROTOCOL,
        INVALID_SESSION_TIMEOUT,
        GROUP_MAX_SIZE_REACHED,
        UNSUPPORTED_VERSION,
        UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that a client gets again and again until a setting of the client or the broker is changed.
"""
ERRORS = (*sorted(LASTING), FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID, COORDINATOR_NOT_AVAILABLE)
"""All error codes with which `refuse` rejects a JoinGroup."""
_NAME_CHARACTERS = 100
"""Maximum length of a protocol name in a message."""


def refuse(step: Step, group: Group | None, call: JoinGroup, error_code: int) -> None:
    state, group_id = step.state, call.group_id
    is_other = group_id in state.share_groups or group_id in state.streams_groups
    has_no_id = error_code == GROUP_MAX_SIZE_REACHED or is_other
    member_id = "" if has_no_id else call.member_id
    step.reply(call.ticket, JoinReply(error_code, member_id))
    step.events.append(
        JoinRefused(
            call.group_id,
            call.member_id,
            error_code,
            call.client_id,
            call.client_host,
            _why(step.state, group, call, error_code),
        )
    )


def _why(state: ShardState, group: Group | None, call: JoinGroup, error_code: int) -> str:
    config = state.config
    if error_code == INVALID_SESSION_TIMEOUT:
        return (
            f"session.timeout.ms is {call.session_timeout_ms}, but the broker accepts"
            f" {config.min_session_timeout_ms} to {config.max_session_timeout_ms}"
        )
    if error_code == GROUP_MAX_SIZE_REACHED:
        return f"the group is full: group.max.size is {config.max_size}"
    if error_code == UNSUPPORTED_VERSION:
        return (
            "the client has a group.instance.id, but the cluster does not support static members"
            " yet"
        )
    if error_code == UNKNOWN_SERVER_ERROR:
        return "the group's record would exceed max.message.bytes of __consumer_offsets"
    if error_code == FENCED_INSTANCE_ID:
        return f"another member now has group.instance.id {call.group_instance_id}"
    if error_code == UNKNOWN_MEMBER_ID:
        return "the member id is unknown to the group"
    if error_code == INCONSISTENT_GROUP_PROTOCOL:
        if group is None:
            kind = "share" if call.group_id in state.share_groups else "streams"
            return f"the group is a {kind} group"
        return _mismatch(group, call)
    return "the group is being removed"


def _mismatch(group: Group, call: JoinGroup) -> str:
    """Describes in words how the client's protocols differ from the protocols of the members."""
    if not call.protocol_type or not call.protocols:
        return "the client offers no protocol"
    if group.members and call.protocol_type != group.protocol_type:
        return (
            f"the client's protocol type is {_short(call.protocol_type)}, but the group's is"
            f" {_short(group.protocol_type or '')}"
        )
    everybody = len(group.members)
    shared = [name for name, members in group.support.items() if members == everybody]
    offered = list(dict.fromkeys([name for name, _ in call.protocols]))
    return f"the client offers {_names(offered)}; all members support {_names(shared)}"


def _names(names: Sequence[str]) -> str:
    return some_of([_short(name) for name in names], ", ")


def _short(name: str) -> str:
    return name[:_NAME_CHARACTERS]
