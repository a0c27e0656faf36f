"""Reports admin requests that make groups miss records to the journals of these groups.

In a cluster each broker reports to the groups that it coordinates.
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
"""Topic, partition, the committed offset, and the new log start offset; -1: the topic is
deleted.
"""
Starts = Mapping[str, Mapping[int, int]]
"""By topic and partition: the log start offset after records were deleted."""


def sender_of(request: Request) -> Sender:
    """The sender of a request, for the journal."""
    connection = request.connection
    return Sender(str(connection.principal), request.client_id, connection.client_host)


async def report_trimmed(
    services: Services, sender: Sender, starts: Starts, slices: Slices
) -> None:
    """Report deleted records to the groups that had not read them."""
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
    """The committed offsets in topics that are about to be deleted, by topic and group.

    An exception here is caught: the offsets found so far are returned, and the topics are still
    deleted.
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
    """Report deleted topics to the groups that had offsets in them."""
    with services.groups.errors.reporting("deleted topics"):
        services.groups.life.emit(
            lost(group_id, Loss.TOPIC_DELETED, sender, offsets)
            for groups in readers.values()
            for group_id, offsets in groups.items()
        )


def _committed(services: Services, topic: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Every group with its partitions and offsets in a topic; most groups have none."""
    for hosted in readable(services.groups):
        cached = hosted.core.view.offsets
        for group_id in list(cached.groups()):
            if topic in cached.topics(group_id):
                partitions = cached.partitions(group_id, topic)
                fetched = cached.fetch(group_id, topic, partitions)
                yield group_id, list(zip(partitions, fetched.offsets, strict=True))
            else:
                yield group_id, []
