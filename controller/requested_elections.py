"""Leader elections that were requested by ElectLeaders, by `/admin/preferred_replica_election`, or
by the check for leader imbalance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.calls import ElectLeaders
from controller.change import Change
from controller.elections import offline, preferred
from controller.events import Cause
from controller.outcome import ElectLeadersReply
from controller.partition import Deletion, Moving, Partition
from controller.pending_requests import ElectionRequest, PendingElection
from controller.values import NO_LEADER, TopicPartition
from controller.work import Work
from protocol import errors
from protocol.znodes.admin import PREFERRED

_NO_TOPIC = (errors.UNKNOWN_TOPIC_OR_PARTITION, "This partition does not exist.")
_DELETED = (errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
_NOT_NEEDED = (errors.ELECTION_NOT_NEEDED, "The partition already has the requested leader.")
_NOT_PREFERRED = (
    errors.PREFERRED_LEADER_NOT_AVAILABLE,
    "The preferred leader is down or not in the ISR.",
)
_NOBODY = (errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "All replicas of the partition are down.")
_DONE = (errors.NONE, "")
BALANCE_AFTER_MS = 5_000
"""Milliseconds from the controller's election until its first check of the preferred leaders."""


def elect_leaders(work: Work, call: ElectLeaders) -> None:
    """Queues an election for each partition. An election begins when no write of its partition is
    in flight. The call gets one reply for all partitions."""
    asked = call.partitions
    if asked is None:
        keys = [
            each.key for each in work.cluster.partitions() if each.topic.deletion is Deletion.NO
        ]
    else:
        keys = list(dict.fromkeys(asked))
    if not keys:
        work.reply(call.ticket, ElectLeadersReply(errors.NONE, {}))
        return
    number = work.park(call.ticket, ElectLeadersReply(errors.NOT_CONTROLLER, {}))
    cause = Cause.UNCLEAN if call.unclean else Cause.PREFERRED
    _ask(work, keys, ElectionRequest(number, asked is None, len(keys)), cause)


def preferred_seen(work: Work, partitions: Iterable[TopicPartition]) -> None:
    """Queues the elections that `/admin/preferred_replica_election` requests. The znode is deleted
    when all these elections are done."""
    keys = list(dict.fromkeys(partitions))
    request = ElectionRequest(None, False, len(keys) + 1)
    _ask(work, keys, request, Cause.PREFERRED)
    _count(work, request)


def _ask(work: Work, keys: list[TopicPartition], request: ElectionRequest, cause: Cause) -> None:
    for key in keys:
        partition = work.cluster.partition(key)
        if partition is None:
            _answer(work, request, key, _NO_TOPIC)
        elif partition.topic.deletion is not Deletion.NO:
            _answer(work, request, key, _DELETED)
        else:
            partition.pending(PendingElection(cause, request))
            work.mark(partition)


def checked(work: Work, partition: Partition, pending: PendingElection) -> Change | None:
    """Returns the change to write. Returns None if the election needs no write or was rejected; the
    result of the election is then already recorded."""
    cluster, known = work.cluster, partition.known
    unclean = pending.cause is Cause.UNCLEAN
    change: Change | None = None
    if known is None:
        refusal = _NOBODY if unclean else _NOT_PREFERRED
    elif unclean:
        led = known.leader != NO_LEADER
        refusal = _NOT_NEEDED if led else _NOBODY
        change = None if led else offline(cluster, partition, known, unclean=True)
    else:
        is_first = partition.replicas[:1] == (known.leader,)
        refusal = _NOT_NEEDED if is_first else _NOT_PREFERRED
        change = preferred(cluster, partition, pending.cause)
    if change is None:
        _answer(work, pending.request, partition.key, refusal)
        return None
    return Change(change.state, change.cause, change.lost, pending)


def granted(work: Work, partition: Partition, pending: PendingElection) -> None:
    """Notes that a requested election has succeeded in the partition. Called when the new leader
    was written."""
    _answer(work, pending.request, partition.key, _DONE)


def refuse_gone(work: Work, partition: Partition, pending: PendingElection) -> None:
    """Rejects an election because its topic is deleted or being deleted."""
    _answer(work, pending.request, partition.key, _DELETED)


def _answer(
    work: Work,
    request: ElectionRequest | None,
    key: TopicPartition,
    result: tuple[int, str],
) -> None:
    if request is not None:
        if not (request.all_asked and result is _NOT_NEEDED):
            request.results[key] = result
        _count(work, request)


def _count(work: Work, request: ElectionRequest) -> None:
    request.left -= 1
    if request.left:
        return
    if request.number is not None:
        work.answer(request.number, ElectLeadersReply(errors.NONE, request.results))
    else:
        work.delete_nodes([PREFERRED])


# --------------------------------------------------------------------------------- the balancer


def balance(work: Work) -> Iterator[None]:
    """Queues elections of preferred leaders, one broker after another.

    A broker is imbalanced if other brokers lead more than leader.imbalance.per.broker.percentage of
    the partitions for which this broker is the preferred leader. Elections are queued only for
    partitions whose preferred replica could lead now.
    """
    totals: dict[int, int] = {}
    elsewhere: dict[int, list[Partition]] = {}
    for topic in [*work.cluster.topics.values()]:
        if topic.deletion is not Deletion.NO:
            continue
        for partition in [*topic.partitions.values()]:
            yield
            first = partition.replicas[:1]
            if partition.known is not None and first:
                totals[first[0]] = totals.get(first[0], 0) + 1
                if partition.known.leader != first[0]:
                    elsewhere.setdefault(first[0], []).append(partition)
    percentage = work.cluster.config.leader_imbalance_per_broker_percentage
    for broker_id, partitions in elsewhere.items():
        if len(partitions) * 100 <= percentage * totals[broker_id]:
            continue
        for partition in partitions:
            yield
            if (
                partition.moving is Moving.NO
                and partition.topic.deletion is Deletion.NO
                and preferred(work.cluster, partition, Cause.BALANCE) is not None
            ):
                partition.pending(PendingElection(Cause.BALANCE, None))
                work.mark(partition)
