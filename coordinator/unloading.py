"""The end of a shard, after another broker became the leader of its partition, or after its log
failed."""

from __future__ import annotations

from coordinator.classic.states import State
from coordinator.events import Cause
from coordinator.outcome import JoinReply, Outcome, SyncReply
from coordinator.refusal import failed
from coordinator.step import ShardState, Step
from protocol.now import Now


def unload(state: ShardState, error_code: int) -> Outcome:
    """Replies to every parked request of the shard with the error, and moves every group to DEAD.

    Requests whose replies were lost because of an exception in this shard get a reply too. For a
    group without members, no event is emitted, because no client waits for the group.
    """
    step = Step(state, Now(0, 0))
    for ticket, reply in state.interrupted:
        step.reply(ticket, failed(reply, error_code))
    for group, member in list(state.parked.values()):
        step.answer_join(group, member, JoinReply(error_code, member.member_id))
        step.answer_sync(group, member, SyncReply(error_code))
    for sweep in state.sweeps:
        if sweep.ticket is not None:
            step.reply(sweep.ticket, sweep.failed(error_code))
    state.sweeps.clear()
    for deletion in state.share_deletions.values():
        for ticket in deletion.tickets:
            step.reply(ticket, error_code)
    state.share_deletions.clear()
    for group in state.groups.values():
        if group.state is State.DEAD:
            continue
        group.phase.disarm()
        if group.members:
            step.move(
                group,
                State.DEAD,
                Cause.UNLOADED,
                "the group's __consumer_offsets partition was unloaded",
            )
        else:
            group.transition_to(State.DEAD, step.now)
    return Outcome(step.records, step.replies, step.events)
