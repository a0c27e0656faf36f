"""A controller failover at each step of a reassignment. The previous controller continues to
run."""

from __future__ import annotations

from itertools import count

import pytest

from controller.calls import AlterReassignments
from controller.facts import ReassignmentsSeen, Written
from controller.outcome import ReassignmentsReply
from controller.values import NO_LEADER, Replicas
from protocol.errors import NO_REASSIGNMENT_IN_PROGRESS, NONE
from tests.controller.test_stories import T0, cluster
from tests.controller.world import Host, World

ORIGIN, TARGET, OTHER = (1, 2, 3), (4, 2), (3, 4, 1)


def step(host: Host) -> bool:
    """Performs one write, one read, one response or one slice of work. Returns False if nothing was
    left to do."""
    if host.resigned:
        return False
    if host.more:
        host.work()
    elif host.writes:
        host.give(Written([host.write_one()]))
    elif host.reads:
        host.read_one()
    elif ready := host._channels_ready():
        answer = host.send_one(ready[0])
        if answer is not None:
            host.give(answer)
    else:
        return False
    return True


def catch_up(world: World, newest: Host, tickets: count[int]) -> None:
    """Makes the leader add its followers to the ISR one by one, until all are in the ISR."""
    for _ in range(8):
        while sum(step(each) for each in world.hosts):  # until it is fenced
            pass
        state, assignment = world.nodes.states[T0], world.nodes.topics["t"].partitions[0]
        if state.leader == NO_LEADER:
            return
        told = {each: world.brokers[each].replicas.get(T0) for each in assignment.replicas}
        follow = [each for each, at in told.items() if at and at.leader_epoch == state.leader_epoch]
        if set(follow) <= set(state.isr) or state.leader not in follow:
            return
        isr = tuple(dict.fromkeys((*state.isr, *follow)))
        newest.give(world.isr_asked(f"isr {next(tickets)}", state.leader, {T0: isr}))


def check(world: World, allowed: set[Replicas], *, was_over: bool) -> None:
    """Checks that no reassignment is in progress, and that nodes, brokers and disks agree on the
    replicas.

    ``was_over`` means that the target replicas were in sync before the controller failed. Then the
    disk of a broker may still have a replica that the reassignment has removed, as in Kafka.
    """
    replicas, adding, removing = world.nodes.topics["t"].partitions[0]
    state = world.nodes.states[T0]
    assert (adding, removing) == ((), ())
    assert tuple(replicas) in allowed
    assert set(state.isr) == set(replicas)
    assert state.leader in replicas
    assert {each.shown[T0] for each in world.brokers.values() if each.epoch >= 0} == {state.leader}
    on_disk = {each.broker_id for each in world.brokers.values() if T0 in each.directories}
    assert set(replicas) <= on_disk
    assert on_disk == set(replicas) or was_over
    assert world.nodes.moves == {}


def steps_of_a_move() -> int:
    """Returns the number of steps of the reassignment without a failover."""
    host = cluster(1, 2, 3, 4)
    host.give(AlterReassignments("move", {T0: TARGET}))
    taken, tickets = 0, count()
    while True:
        while step(host):
            taken += 1
        state = host.world.nodes.states[T0]
        if set(state.isr) == set(host.world.nodes.topics["t"].partitions[0].replicas):
            return taken
        isr = (*state.isr, *set(TARGET) - set(state.isr))
        host.give(host.world.isr_asked(next(tickets), state.leader, {T0: isr}))


STEPS = steps_of_a_move()


@pytest.mark.parametrize("again", [None, OTHER, "cancel", "restart"])
@pytest.mark.parametrize("by_node", [False, True])
def test_reassignment_is_completed_or_undone_after_any_failover(
    again: Replicas | str | None, by_node: bool
) -> None:
    """``again`` is the event after the failover: a restart of a broker, a cancellation of the
    reassignment, another reassignment, or None for no event."""
    for at in range(STEPS + 1):
        older = cluster(1, 2, 3, 4)
        world, tickets = older.world, count()
        if by_node:
            world.nodes.moves = {T0: TARGET}
            older.give(ReassignmentsSeen(dict(world.nodes.moves)))
        else:
            older.give(AlterReassignments("move", {T0: TARGET}))
        for taken in range(at):
            if not step(older):
                state = world.nodes.states[T0]
                isr = tuple(dict.fromkeys((*state.isr, *TARGET)))
                if set(isr) == set(state.isr):
                    break
                older.give(world.isr_asked(f"older {taken}", state.leader, {T0: isr}))
        was_over = set(world.nodes.states[T0].isr) <= set(TARGET)
        newer = world.elect(2)
        if again == "restart":  # the broker gets a new epoch, and no controller has seen it down
            world.register(4)
            newer.give(world.see_brokers())
        elif again is not None:
            target = None if again == "cancel" else OTHER
            newer.give(AlterReassignments("again", {T0: target}))
        catch_up(world, newer, tickets)

        reply = older.replies.get("move")
        was_accepted = isinstance(reply, ReassignmentsReply) and reply.partitions == {
            T0: (NONE, "")
        }
        allowed: set[Replicas] = {TARGET} if was_accepted or by_node else {ORIGIN, TARGET}
        if again in (OTHER, "cancel"):
            answered = newer.replies["again"]
            assert isinstance(answered, ReassignmentsReply)
            code = answered.partitions[T0][0]
            if again == OTHER:
                assert code == NONE
                allowed = {OTHER}
            elif code == NONE:
                allowed = {(2, 1, 3)}  # as in Kafka, the order is that of the whole replica list
            else:
                assert code == NO_REASSIGNMENT_IN_PROGRESS
        check(world, allowed, was_over=was_over)
