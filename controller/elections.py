"""Elections: computes the state to write from the states of a partition and of brokers.

These functions have no side effects. They check for changes in the following order, and return the
first change that must be written: the first state of the partition; a lost leader or lost ISR
members; the next step of a reassignment. `granting` handles requested changes, which come last.
Every new state has leader_epoch + 1, because brokers ignore a state with the same epoch.
"""

from __future__ import annotations

from controller.change import Change
from controller.cluster import Cluster
from controller.events import Cause
from controller.partition import Moving, Partition
from controller.values import NO_LEADER, LeaderAndIsr, Replicas


def next_change(cluster: Cluster, partition: Partition) -> Change | None:
    """Returns the change of the partition's state to write now; None if no change is necessary."""
    known = partition.known
    if known is None:
        return _first(cluster, partition)
    there = known.leader != NO_LEADER and (
        cluster.is_there(partition, known.leader) and known.leader in partition.replicas
    )
    change = _kept(cluster, partition, known) if there else offline(cluster, partition, known)
    return change or _moved(cluster, partition, known)


def wants_unclean_setting(cluster: Cluster, partition: Partition) -> bool:
    """Returns True if the topic's unclean.leader.election.enable must be read because it decides
    whether a live replica may become leader."""
    known, topic = partition.known, partition.topic
    return (
        known is not None
        and not topic.unclean_asked
        and not (known.leader != NO_LEADER and cluster.is_there(partition, known.leader))
        and any(cluster.is_back(partition, each) for each in partition.replicas)
        and not any(cluster.is_back(partition, each) for each in known.isr)
    )


def _first(cluster: Cluster, partition: Partition) -> Change | None:
    """Returns the change that writes the first state of a partition. The first live replica is the
    leader; all live replicas are in the ISR."""
    live = tuple(each for each in _candidates(partition) if cluster.is_back(partition, each))
    if not live:
        return None
    state = LeaderAndIsr(live[0], partition.least_epoch, live, cluster.epoch)
    return Change(state, Cause.CREATED, partition.lost)


def _kept(cluster: Cluster, partition: Partition, known: LeaderAndIsr) -> Change | None:
    """Returns the change of a partition whose leader is live; None if no change is needed. The
    change removes replicas that are not live from the ISR. If the leader is shutting down, the
    change elects another leader."""
    replicas, leader = partition.replicas, known.leader
    if leader in cluster.shutting_down and len(replicas) > 1:
        live = _live_in_isr(cluster, partition, known)
        if live:
            isr = tuple(each for each in known.isr if each in live)
            return _change(cluster, partition, live[0], isr, Cause.SHUTDOWN)
    isr = tuple(each for each in known.isr if each == leader or cluster.lives(partition, each))
    if isr and isr != known.isr:
        return _change(cluster, partition, leader, isr, Cause.OFFLINE)
    return None


def offline(
    cluster: Cluster, partition: Partition, known: LeaderAndIsr, *, unclean: bool = False
) -> Change | None:
    """Returns the change for a partition that has no leader or has lost its leader.

    The new leader is, in order of preference: an ISR member whose session was not interrupted; an
    ISR member that has returned; with unclean election, any live replica. Without a leader the ISR
    keeps its members, because each of them may become leader when it returns.
    """
    live = _live_in_isr(cluster, partition, known)
    if not live:
        live = tuple(
            each for each in _candidates(partition)
            if each in known.isr and cluster.is_back(partition, each)
        )  # fmt: skip
    if live:
        isr = tuple(each for each in known.isr if each in live)
        return _change(cluster, partition, live[0], isr, Cause.OFFLINE)
    back = [each for each in _candidates(partition) if cluster.is_back(partition, each)]
    if back and (unclean or cluster.allows_unclean(partition.topic)):
        return _change(cluster, partition, back[0], (back[0],), Cause.UNCLEAN)
    if known.leader != NO_LEADER:
        return _change(cluster, partition, NO_LEADER, known.isr, Cause.OFFLINE)
    return None


def preferred(cluster: Cluster, partition: Partition, cause: Cause) -> Change | None:
    """Returns the change to the preferred leader; None if the preferred leader already leads, is
    not live or is not in the ISR."""
    known, first = partition.known, _candidates(partition)[:1]
    if known is None or not first or known.leader == first[0]:
        return None
    if first[0] not in known.isr or not cluster.lives(partition, first[0]):
        return None
    return _change(cluster, partition, first[0], known.isr, cause)


def _moved(cluster: Cluster, partition: Partition, known: LeaderAndIsr) -> Change | None:
    """Returns the change for the next step of a reassignment; None if no change is due.

    The first change gives all replicas a new leader epoch. When the target replicas have caught up,
    the second change leaves only the target replicas in the partition. Further changes remove the
    other replicas from the ISR one by one.
    """
    if partition.moving in (Moving.START, Moving.CATCHING_UP):
        target, moves = partition.target, partition.adding or partition.removing
        if not moves or set(target) <= set(known.isr):
            return led_by(cluster, partition, known, target, finishes=True)
        if partition.moving is Moving.START:
            return led_by(cluster, partition, known, partition.replicas)
        return None
    left = [each for each in known.isr if each not in partition.replicas]
    if partition.moving in (Moving.NO, Moving.LEAVING) and 0 < len(left) < len(known.isr):
        # Replicas leave the ISR one by one, as in Kafka. In Moving.NO, a controller failed between
        # its writes.
        return led_by(cluster, partition, known, (*partition.replicas, *left[1:]))
    return None


def led_by(
    cluster: Cluster,
    partition: Partition,
    known: LeaderAndIsr,
    replicas: Replicas,
    *,
    finishes: bool = False,
) -> Change | None:
    """Returns the change after which a broker of ``replicas`` leads and only brokers of
    ``replicas`` are in the ISR. The current leader stays if possible. Returns None if the current
    leader must be replaced, but no other broker can lead.

    If ``finishes`` is True, the change completes a reassignment. It then does not change the ISR;
    `_moved` removes the leaving replicas from the ISR afterwards.
    """
    isr = tuple(each for each in known.isr if each in replicas)
    leader = known.leader
    if leader not in replicas or not cluster.is_there(partition, leader):
        live = [each for each in replicas if each in isr and cluster.lives(partition, each)]
        if live:
            leader = live[0]
        elif finishes or leader != NO_LEADER:
            return None
    kept = known.isr if finishes else isr or known.isr
    return _change(cluster, partition, leader, kept, Cause.REASSIGNED, finishes)


def _candidates(partition: Partition) -> Replicas:
    """Returns the replicas that may become leader. If a new assignment waits to be written to the
    topic's node, a replica may become leader only if it is also in this assignment."""
    wanted = partition.topic.wanted.get(partition.index)
    if wanted is None:
        return partition.replicas
    return tuple(each for each in partition.replicas if each in wanted.assignment.replicas)


def _live_in_isr(cluster: Cluster, partition: Partition, known: LeaderAndIsr) -> Replicas:
    """Returns the live ISR members in the order of the assignment."""
    return tuple(
        each for each in _candidates(partition)
        if each in known.isr and cluster.lives(partition, each)
    )  # fmt: skip


def _change(
    cluster: Cluster,
    partition: Partition,
    leader: int,
    isr: Replicas,
    cause: Cause,
    finishes: bool = False,
) -> Change:
    known = partition.known
    assert known is not None
    recovering = cluster.config.recovery_state if cause is Cause.UNCLEAN else known.recovering
    state = LeaderAndIsr(
        leader, known.leader_epoch + 1, isr, cluster.epoch, recovering, known.partition_epoch
    )
    return Change(state, cause, partition.lost, finishes=finishes)
