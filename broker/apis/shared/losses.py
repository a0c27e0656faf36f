"""Adds an entry to a group's journal if an admin request deleted records that the group had not
read.

In a cluster each broker writes the journals of the groups that it coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from broker.loop.slices import Slices
from broker.metrics.lag import readable
from broker.net.request import Request
from coordinator.calls import Sender
from coordinator.commits import lost
from coordinator.events import Loss

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Moved = tuple[str, int, int, int]
"""Topic, partition, committed offset, and new log start offset (-1 if the topic is deleted)."""
Starts = Mapping[str, Mapping[int, int]]
"""The log start offset after the deletion of records, by topic and partition."""


def sender_of(request: Request) -> Sender:
    """Returns the principal, client id and host of the sender of a request, for the journal."""
    connection = request.connection
    return Sender(str(connection.principal), request.client_id, connection.client_host)


async def report_trimmed(
    services: Services, sender: Sender, starts: Starts, slices: Slices
) -> None:
    """Reports deleted records in the journal of each group that had not read them. ``starts`` has
    the new log start offsets."""
    with services.groups.errors.reporting("deleted records"):
        for topic, begins in starts.items():
            for group_id, offsets in _committed(services, topic):
                lost_here = [
                    (topic, partition, offset, begins[partition])
                    for partition, offset in offsets
                    if 0 <= offset < begins.get(partition, 0)
                ]
                if lost_here:
                    event = lost(group_id, Loss.TRIMMED, sender, lost_here)
                    services.groups.life.emit([event])
                if slices.over:
                    await slices.pause()


async def readers_of(
    services: Services, topics: Iterable[str], slices: Slices
) -> dict[str, dict[str, list[Moved]]]:
    """Called before ``topics`` are deleted. Returns the offsets that groups have committed for
    these topics, by topic and group.

    Raises no exception, so that the topics are deleted in any case. After an internal error, the
    result contains only the offsets that were found before the error.
    """
    found: dict[str, dict[str, list[Moved]]] = {}
    with services.groups.errors.reporting("readers of deleted topics"):
        for topic in topics:
            if slices.over:
                await slices.pause()
            groups = found[topic] = {}
            for group_id, offsets in _committed(services, topic):
                if offsets:
                    groups[group_id] = [
                        (topic, partition, offset, -1) for partition, offset in offsets
                    ]
                if slices.over:
                    await slices.pause()
    return found


def report_deleted(
    services: Services, sender: Sender, readers: Mapping[str, Mapping[str, list[Moved]]]
) -> None:
    """Reports deleted topics in the journal of each group that had committed offsets in these
    topics."""
    with services.groups.errors.reporting("deleted topics"):
        services.groups.life.emit(
            lost(group_id, Loss.TOPIC_DELETED, sender, offsets)
            for groups in readers.values()
            for group_id, offsets in groups.items()
        )


def _committed(services: Services, topic: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yields each group with its committed offsets in the topic. Yields groups without offsets in
    the topic too, with an empty list: the caller may have to pause between two groups."""
    for hosted in readable(services.groups):
        cached = hosted.core.view.offsets
        for group_id in list(cached.groups()):
            if topic in cached.topics(group_id):
                partitions = cached.partitions(group_id, topic)
                fetched = cached.fetch(group_id, topic, partitions)
                yield group_id, list(zip(partitions, fetched.offsets, strict=True))
            else:
                yield group_id, []
