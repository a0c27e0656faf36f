"""Lists the ZooKeeper nodes of entities with quotas and credentials: client ids, users, client ids
of users, and IP addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from broker.cluster.zookeeper.zookeeper import ZooKeeper, children_of, slices
from protocol.znodes.configs import CLIENTS, CONFIG, IPS, USERS


async def client_nodes(zookeeper: ZooKeeper) -> AsyncIterator[list[str]]:
    """Yields lists of paths, relative to ``/config``: the paths of all entities with quotas or
    credentials. `slices` limits the length of the lists."""
    for kind in (CLIENTS, USERS, IPS):
        names = sorted(await children_of(zookeeper, f"{CONFIG}/{kind}"))
        for some in slices(f"{kind}/{name}" for name in names):
            yield some
            if kind == USERS:
                for several in slices(await _clients_of(zookeeper, some)):
                    yield several


async def _clients_of(zookeeper: ZooKeeper, users: Iterable[str]) -> list[str]:
    """Returns the paths of the nodes for quotas of a (user, client id), for all client ids of
    ``users``."""
    parents = [f"{user}/{CLIENTS}" for user in users]
    found = await asyncio.gather(*[children_of(zookeeper, f"{CONFIG}/{each}") for each in parents])
    return [
        f"{parent}/{name}"
        for parent, names in zip(parents, found, strict=True)
        for name in sorted(names)
    ]
