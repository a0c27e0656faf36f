"""Moves leaders through the controller, as an operator does, and reports why leaders moved."""

from __future__ import annotations

from typing import Any

from broker.test_mode.cluster.tested_cluster import SETTLES_WITHIN_S, TestedCluster, member_of
from broker.test_mode.refusals import NotNow
from broker.test_mode.registry.truth import PartitionState
from broker.topics.ticket import Awaited, Reply
from controller.calls import AlterReassignments, Call, ElectLeaders
from controller.outcome import ElectLeadersReply, ReassignmentsReply
from controller.values import TopicPartition
from journal.happened import of_partition
from protocol.errors import NAMES, NONE
from protocol.znodes.topics import StateNode


def state_of(
    cluster: TestedCluster, topic: str, partition: int
) -> tuple[PartitionState, StateNode]:
    """Returns a partition and its state in the registry. Raises NotNow if the partition does not
    exist or has no state yet."""
    found = cluster.truth.partition(topic, partition)
    if found is None or found.state is None:
        raise NotNow(f"{topic}-{partition} does not exist")
    return found, found.state


async def move_leader(
    cluster: TestedCluster, topic: str, partition: int, to: int | None
) -> PartitionState:
    """Makes the in-sync replica ``to`` the preferred leader and elects it. If ``to`` is None,
    elects the next in-sync replica. Raises NotNow."""
    found, state = state_of(cluster, topic, partition)
    wanted = _next(found, state) if to is None else to
    if wanted not in state.isr:
        raise NotNow(
            f"broker {wanted} can't lead {topic}-{partition}: it is not in the ISR"
            f" {', '.join(map(str, state.isr))}"
        )
    if wanted != found.replicas[0]:
        replicas = [wanted, *(each for each in found.replicas if each != wanted)]
        await _reorder(cluster, (topic, partition), replicas)
    if wanted != state.leader:
        await _elect(cluster, (topic, partition), unclean=False)
    await cluster.settle()
    return state_of(cluster, topic, partition)[0]


def _next(found: PartitionState, state: StateNode) -> int:
    others = [each for each in found.replicas if each in state.isr and each != state.leader]
    if not others:
        raise NotNow(f"{found.topic}-{found.partition} has no other in-sync replica")
    return others[0]


async def elect_unclean(cluster: TestedCluster, topic: str, partition: int) -> PartitionState:
    """Elects a live, out-of-sync replica as leader of a partition that has no leader. Raises
    NotNow."""
    _, state = state_of(cluster, topic, partition)
    if state.leader >= 0:
        raise NotNow(
            f"{topic}-{partition} is led by broker {state.leader}: an unclean election needs a"
            " partition whose in-sync replicas are all down"
        )
    await _elect(cluster, (topic, partition), unclean=True)
    await cluster.settle()
    return state_of(cluster, topic, partition)[0]


async def _reorder(cluster: TestedCluster, place: TopicPartition, replicas: list[int]) -> None:
    ticket = Awaited[ReassignmentsReply]()
    reply = await _answered(cluster, AlterReassignments(ticket, {place: replicas}), ticket)
    _check(place, reply.error_code, reply.partitions)
    await cluster.settle()


async def _elect(cluster: TestedCluster, place: TopicPartition, *, unclean: bool) -> None:
    ticket = Awaited[ElectLeadersReply]()
    reply = await _answered(cluster, ElectLeaders(ticket, unclean, [place]), ticket)
    _check(place, reply.error_code, reply.partitions)


async def _answered(cluster: TestedCluster, call: Call, ticket: Awaited[Reply]) -> Reply:
    """Submits a call to the controller and returns its reply. Raises NotNow without a reply."""
    controller = cluster.controller
    member_of(controller.broker).host.submit(call)
    try:
        async with cluster.system.within(SETTLES_WITHIN_S):
            return await ticket.reply
    except TimeoutError:
        raise NotNow(
            f"the controller, broker {controller.broker.registry.node_id}, did not finish within"
            f" {SETTLES_WITHIN_S:g} s; the operation may still be applied"
        ) from None


def _check(place: TopicPartition, error_code: int, partitions: Any) -> None:
    code, text = partitions.get(place, (error_code, ""))
    if code != NONE:
        raise NotNow(f"{place[0]}-{place[1]}: {NAMES.get(code, code)} {text or ''}".rstrip())


def story_of(cluster: TestedCluster, topic: str, partition: int) -> list[dict[str, Any]]:
    """Returns the events of a partition that the running brokers have recorded, oldest first:
    leader changes and ISR changes, with their reasons."""
    rows = [
        {
            "at_ms": each.at_ms,
            "what": each.kind.value,
            "leader": each.leader if each.leader >= 0 else None,
            "leader_epoch": each.leader_epoch if each.leader_epoch >= 0 else None,
            "isr": list(each.isr),
            "sentence": each.why,
            "seen_by": broker_id,
        }
        for broker_id, tested in cluster.brokers.items()
        if tested.is_running
        for each in member_of(tested.broker).keeper.journal.of(of_partition(topic, partition))
    ]
    return sorted(rows, key=lambda row: (row["at_ms"], row["seen_by"]))
