"""Checks of replies on their way from the core to the client: when a reply is sent, and that its
content arrives unchanged.

A reply of a shard is recorded together with the log offset on which it depends. When the broker
passes the bytes of the reply to a transport, the log must be stable up to this offset: written if
the broker may only be killed, and fsynced if the topic flushes each record. The decoded response
must equal the reply of the shard, or report that the write failed or timed out. Only requests that
consist of a single call are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.calls import Call, OffsetCommit, TxnOffsetCommit
from coordinator.outcome import CommitReply, FetchReply, JoinReply, LeaveReply, Reply, SyncReply
from coordinator.refusal import timed_out, write_failed

if TYPE_CHECKING:
    from tests.simulation.whole.shard_watch import ShardWatch

Key = tuple[str, int]
"""Client id and correlation id. Clients of a simulation never use a pair twice."""


@dataclass
class Made:
    """A reply that a shard has created, and the call that it answers. A successful reply must not
    be sent before all log records below ``log_offset`` are stable."""

    call: Call
    reply: Reply
    watch: ShardWatch
    log_offset: int
    left: bool = False


class Replies:
    """All recorded replies of the shards to their clients."""

    def __init__(self) -> None:
        self.compared = 0
        """The number of replies that arrived unchanged at their client."""
        self._made: dict[Key, Made] = {}

    def made(self, ticket: Any, call: Call, reply: Reply, watch: ShardWatch) -> None:
        """Records the reply of a shard to a call. The ticket belongs to a request with a single
        call."""
        correlation_id = getattr(ticket, "correlation_id", None)
        if correlation_id is not None:
            key = (ticket.client_id, correlation_id)
            assert key not in self._made, f"{key} is answered twice"
            self._made[key] = Made(call, reply, watch, watch.accepted)

    def leaves(self, key: Key, heard: Callable[[], Reply]) -> None:
        """Checks a response when the broker passes it to a transport. ``heard()`` decodes the
        response."""
        made = self._made.get(key)
        if made is None:
            return  # the edge answered the request itself, or the request is several calls
        assert not made.left, f"the answer to {key} is written twice"
        made.left = True
        end = made.watch.stable_end()
        if made.log_offset <= end:
            made.watch.checkers.leaves(made.log_offset)
            return
        assert not answers_well(heard()), (
            f"the answer to {made.call} leaves; it depends on the log up to {made.log_offset},"
            f" and what is stable ends at {end}"
        )

    def heard(self, name: str, correlation_id: int, call: Call, reply: Reply) -> None:
        """Asserts that the reply which a client has decoded equals the reply of the shard."""
        made = self._made.pop((name, correlation_id), None)
        if made is None:
            return
        assert made.left, f"{name} hears of {correlation_id}, which was never written"
        if isinstance(made.call, OffsetCommit) and isinstance(call, OffsetCommit):
            asked, taken = (
                [topic.partitions for topic in each.topics] for each in (call, made.call)
            )
            if list(map(list, asked)) != list(map(list, taken)):
                return  # the edge answered for topics or partitions that do not exist
        heard = essence(reply, call)
        errors = write_failed(made.reply), timed_out(made.reply)
        said = [essence(each, made.call) for each in (made.reply, *errors)]
        assert heard in said, f"{name} hears {heard} of {call}, and the core said {said[0]}"
        self.compared += heard == said[0]

    def forget(self) -> None:
        """Drops the unsent replies of a dead broker process."""
        self._made = {key: made for key, made in self._made.items() if made.left}


def answers_well(reply: Reply) -> bool:
    """Returns True if a reply reports success. Such a reply depends on records in the log. A commit
    is a success if at least one partition was committed."""
    if isinstance(reply, int):
        return reply == 0
    if isinstance(reply, CommitReply):
        errors = reply.errors
        columns = [errors] if isinstance(errors, int) else errors
        return any(0 in ([each] if isinstance(each, int) else each) for each in columns)
    return reply.error_code == 0


def essence(reply: Reply, call: Call) -> Any:
    """Returns the parts of a reply that a response of any version contains."""
    match reply:
        case JoinReply():
            members = [(member.member_id, member.metadata) for member in reply.members]
            return reply.error_code, reply.generation_id, reply.leader, reply.member_id, members
        case SyncReply():
            return reply.error_code, reply.assignment
        case LeaveReply():
            return reply.error_code or max((code for _, _, code in reply.members), default=0)
        case CommitReply():
            assert isinstance(call, OffsetCommit | TxnOffsetCommit)
            errors = reply.errors
            columns = []
            for i, topic in enumerate(call.topics):
                codes = errors if isinstance(errors, int) else errors[i]
                count = len(topic.partitions)
                columns.append([codes] * count if isinstance(codes, int) else list(codes))
            return columns
        case FetchReply():
            return reply.error_code, {
                topic.topic: (
                    list(topic.partitions),
                    list(topic.offsets),
                    list(topic.metadata or ()),
                    topic.codes,
                )
                for topic in reply.topics
            }
    return reply
