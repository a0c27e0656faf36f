"""Changes the finalized feature levels of the cluster, for UpdateFeatures requests to the
controller (KIP-584).

A level is written to ``/feature`` only if every registered broker supports it. The write is fenced
by the controller's epoch and by the version of ``/feature``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    Check,
    MultiFailed,
    NoNode,
    Set,
    ZooKeeper,
    children_of,
)
from broker.topics.feature_updates import FeatureUpdate, RefusedUpdate, SupportedLevels, updated
from protocol.errors import FEATURE_UPDATE_FAILED, NOT_CONTROLLER
from protocol.znodes import brokers, cluster

_FENCE = 0
"""The index of the check of the controller epoch among the operations of the ZooKeeper multi."""


async def change_levels(
    zookeeper: ZooKeeper,
    spoken: InterBroker,
    fence: Check,
    updates: Sequence[FeatureUpdate],
    *,
    validate_only: bool,
) -> None:
    """Changes the finalized levels. If ``validate_only`` is True, only checks the updates.

    Raises RefusedUpdate and ZooKeeperError. Raises BadNode if a node can't be parsed.
    """
    if not spoken.has_features:
        raise RefusedUpdate(
            FEATURE_UPDATE_FAILED,
            "inter.broker.protocol.version is below 2.7: brokers do not register their features",
        )
    while True:
        data, stat = await zookeeper.get(cluster.FEATURE)
        levels = cluster.decode_feature(data)
        fresh = updated(levels, updates, await _supported(zookeeper))
        if validate_only or fresh == levels:
            return
        data = cluster.encode_feature(spoken.feature_version, True, fresh)
        try:
            await zookeeper.multi([fence, Set(cluster.FEATURE, data, stat.version)])
        except MultiFailed as failed:
            if not isinstance(failed.error, BadVersion):
                raise failed.error from None
            if failed.index == _FENCE:
                raise RefusedUpdate(NOT_CONTROLLER, "Another broker is the controller.") from None
            continue  # the node has changed, or a lost connection hid that the write succeeded
        return


async def _supported(zookeeper: ZooKeeper) -> dict[str, SupportedLevels]:
    """Returns the supported levels of each registered broker, in the order of broker ids."""
    names = [name for name in await children_of(zookeeper, brokers.IDS) if name.isdecimal()]
    found = await asyncio.gather(*[_registered(zookeeper, int(name)) for name in names])
    there = sorted((broker_id, levels) for broker_id, levels in found if levels is not None)
    return {f"Broker {broker_id}": levels for broker_id, levels in there}


async def _registered(zookeeper: ZooKeeper, broker_id: int) -> tuple[int, SupportedLevels | None]:
    """Returns the broker id, and the feature levels that the registered broker supports. The levels
    are None if the broker is no longer registered."""
    try:
        data, _ = await zookeeper.get(brokers.path(broker_id))
    except NoNode:
        return broker_id, None
    return broker_id, brokers.decode_registration(broker_id, data).features
