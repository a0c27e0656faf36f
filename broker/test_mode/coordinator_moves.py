"""Moves a group's coordinator, makes it unavailable, or keeps it loading. The coordinator is a
shard. Therefore a move affects all groups of the same partition of `__consumer_offsets`, as in
Kafka. By default this topic has one partition, and a move affects all groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.broker import Broker
from broker.cores.groups.runtime import HostedGroups
from broker.cores.hosted_shard import Phase
from broker.test_mode.requests.naming import groups_of
from broker.test_mode.requests.rules import Fail, Filter
from offsets.partitioner import partition_for
from protocol.errors import NOT_COORDINATOR
from protocol.messages.find_coordinator import API as FIND_COORDINATOR

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.request import Request

SERVES_WITHIN_S = 10


class NotCoordinatorOnce(Fail):
    """A fault after a move of a coordinator. Each connection that was open at the move gets
    NOT_COORDINATOR for its first request about the moved groups, and only for this one."""

    def __init__(self, connections: Iterable[object], partition: int, partitions: int) -> None:
        super().__init__(Filter(), NOT_COORDINATOR)
        self._to_notify = set(connections)
        self.of_run = True
        self._partition = partition
        self._partitions = partitions

    def meets(self, services: Services, request: Request) -> bool:  # noqa: ARG002
        if request.connection not in self._to_notify or request.served.api is FIND_COORDINATOR:
            return False
        if all(
            partition_for(each, self._partitions) != self._partition for each in groups_of(request)
        ):
            return False
        self._to_notify.discard(request.connection)
        self.hits += 1
        return not self.is_over


def give_up(broker: Broker, hosted: HostedGroups) -> Callable[[], None]:
    """Ends this broker's leadership of the shard. Returns a function that makes this broker the
    leader again."""
    partition = hosted.partition
    broker.groups.resign(hosted.index)

    def lead() -> None:
        if not broker.groups.life.hosts(partition.index):
            broker.groups.lead(partition)

    return lead


def load(broker: Broker, hosted: HostedGroups) -> Callable[[], None]:
    """Keeps the shard in the loading state until the returned function is called."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    broker.groups.life.reload(hosted, ended)
    return lambda: None if ended.done() else ended.set_result(None)


async def serves(broker: Broker, partition: int) -> bool:
    """Waits until a shard is available. Returns False if it is still not available after
    `SERVES_WITHIN_S`."""
    real = broker.time.real
    try:
        async with real.within(SERVES_WITHIN_S):
            while True:
                hosted = broker.groups.life.by_partition.get(partition)
                if hosted is not None and hosted.phase is Phase.ACTIVE:
                    return True
                await real.sleep(0.001)
    except TimeoutError:
        return False
