"""Writes transaction markers to the partitions that this broker leads.

In a partition of ``__consumer_offsets``, the shard of groups writes the marker, so that pending
offsets become visible together with the marker. In any other partition, the log appends the marker
immediately. Once the marker is stable, its ticket is answered with an error code.
"""

from __future__ import annotations

from broker.cores.groups.runtime import GroupRuntime, HostedGroups
from broker.cores.hosted_shard import Phase
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.partition import NEVER, NotYetStable, Partition
from broker.topics.registry import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    Registry,
    absent_error,
)
from broker.topics.replicas.roles import NotLeader
from broker.topics.ticket import Ticket
from coordinator.calls import EndOffsets
from log.errors import AppendRefused, LogPoisoned
from log.values import Marker
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_NOT_SERVED = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)


class LocalMarkers:
    """Implements `Destination` for partitions that this broker leads. Only the event loop's thread
    may use this class."""

    def __init__(
        self,
        registry: Registry,
        logs: LogManager,
        groups: GroupRuntime,
        time: Time,
        errors: InternalErrors,
        timeout_ms: int = NEVER,
    ) -> None:
        """``timeout_ms`` is the maximum time in ms that a marker waits for other in-sync
        replicas."""
        self._registry = registry
        self._logs = logs
        self._groups = groups
        self._time = time
        self._errors = errors
        self._timeout_ms = timeout_ms

    def write(self, topic: str, partition: int, marker: Marker, ticket: Ticket) -> None:
        """Writes a marker; ``ticket`` gets an error code when the marker is stable, or can't become
        stable.

        - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist, or must not have transactional
          records, since only shards write the logs of transactional ids and share partitions.
        - NOT_LEADER_OR_FOLLOWER: another broker leads the partition.
        - INVALID_PRODUCER_EPOCH (47) and TRANSACTION_COORDINATOR_FENCED (52): the log's producer
          state rejects the marker.
        - Other errors are temporary.
        """
        if topic in (TRANSACTION_TOPIC, SHARE_STATE_TOPIC):
            ticket.take(UNKNOWN_TOPIC_OR_PARTITION)
            return
        found = self._logs.get(topic, partition)
        if found is None:
            ticket.take(absent_error(self._registry, topic, partition))
            return
        error_code = found.serving_error(-1)
        if error_code:
            ticket.take(error_code)
            return
        try:
            if topic == OFFSETS_TOPIC:
                self._end_offsets(found, marker, ticket)
                return
            now = self._time.now()
            end_offset = found.append_marker(marker, now.wall_ms).last_offset + 1
            if end_offset <= found.high_watermark:
                ticket.take(NONE)
            else:
                deadline_ms = now.mono_ms + self._timeout_ms
                found.when_stable(end_offset, [(ticket, NONE)], _not_stable, deadline_ms)
        except AppendRefused as refused:
            ticket.take(refused.error_code)
        except (LogPoisoned, OSError):
            ticket.take(KAFKA_STORAGE_ERROR)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and logged
            self._errors.caught("markers", error, partition=found.name)
            ticket.take(UNKNOWN_SERVER_ERROR)

    def coordinator_epoch(self, topic: str, partition: int, producer_id: int) -> int:
        """Returns the highest coordinator epoch in a producer's markers in the partition; -1 if
        unknown."""
        found = self._logs.get(topic, partition)
        producer = None if found is None else found.producers_of(producer_id).get(producer_id)
        return -1 if producer is None else producer.coordinator_epoch

    def _end_offsets(self, partition: Partition, marker: Marker, ticket: Ticket) -> None:
        """Writes a marker through the shard of groups, which is the only writer of the partition's
        log."""
        hosted: HostedGroups | None = self._groups.life.by_partition.get(partition.index)
        if hosted is None:
            ticket.take(NOT_LEADER_OR_FOLLOWER)
            return
        if hosted.phase is Phase.ACTIVE:
            producers = partition.producers_of(marker.producer_id)
            producers.check_marker(
                marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.rules
            )
        call = EndOffsets(
            _OffsetsEnded(ticket),
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.committed,
        )
        self._groups.submit(hosted, call)


class _OffsetsEnded:
    """The ticket of a marker that a shard of groups writes to its log. If the shard is not
    available, the ticket replaces the coordinator error by NOT_LEADER_OR_FOLLOWER: the sender of
    the marker expects the errors of a partition."""

    __slots__ = ("_ticket",)

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def take(self, error_code: int) -> None:
        self._ticket.take(NOT_LEADER_OR_FOLLOWER if error_code in _NOT_SERVED else error_code)


def _not_stable(_: int, error: Exception) -> int:
    if isinstance(error, NotLeader):
        return NOT_LEADER_OR_FOLLOWER
    return REQUEST_TIMED_OUT if isinstance(error, NotYetStable) else KAFKA_STORAGE_ERROR
