"""The finalized feature levels of a cluster, in the ZooKeeper node ``/feature`` (KIP-584).

Each broker registers the levels that it supports. UpdateFeatures makes the controller change the
finalized levels (`broker/cluster/controller/feature_changes.py`). Every broker watches the node. A
broker that does not support a finalized level can't join the cluster, since it could not read the
records that the other brokers write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.protection.followed_nodes import FollowedNodes, Spawn
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.cluster.zookeeper.zookeeper import NoNode, ZooKeeper
from broker.config.config import Config
from broker.config.config_table import (
    GROUP_VERSION,
    GROUP_VERSION_MAX,
    SHARE_VERSION,
    SHARE_VERSION_MAX,
    STREAMS_VERSION,
    STREAMS_VERSION_MAX,
)
from broker.config.group_rules import (
    CONSUMER,
    SHARE,
    STREAMS,
    serves_consumer_groups,
    serves_share_groups,
    serves_streams_groups,
)
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.feature_updates import SupportedLevels
from broker.topics.registry import NO_FEATURES, Features
from broker.topics.startup_parts import CannotJoin
from protocol.znodes import cluster
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

_PROTOCOLS = {
    GROUP_VERSION: (CONSUMER, GROUP_VERSION_MAX),
    SHARE_VERSION: (SHARE, SHARE_VERSION_MAX),
    STREAMS_VERSION: (STREAMS, STREAMS_VERSION_MAX),
}
"""For each feature: the group protocol that needs the feature, and the highest level that this
version of Muster supports."""


def supported_features(config: Config, spoken: InterBroker) -> SupportedLevels:
    """Returns the feature levels that this broker supports, as lowest and highest level.

    The lowest level is 1, because Kafka 2.7 to 3.2 can't read a registration with level 0. Consumer
    groups, share groups and streams groups need topic ids, hence an inter.broker.protocol.version
    of 2.8 or later.
    """
    supported: dict[str, tuple[int, int]] = {}
    if spoken.has_topic_ids and serves_consumer_groups(config):
        supported[GROUP_VERSION] = 1, GROUP_VERSION_MAX
    if spoken.has_topic_ids and serves_share_groups(config):
        supported[SHARE_VERSION] = 1, SHARE_VERSION_MAX
    if spoken.has_topic_ids and serves_streams_groups(config):
        supported[STREAMS_VERSION] = 1, STREAMS_VERSION_MAX
    return supported


def unsupported(levels: Mapping[str, int], supported: SupportedLevels) -> list[str]:
    """Returns the sorted names of the features whose level in ``levels`` is not supported."""
    return sorted(
        name
        for name, level in levels.items()
        if name not in supported or not supported[name][0] <= level <= supported[name][1]
    )


async def check_levels(zookeeper: ZooKeeper, supported: SupportedLevels) -> None:
    """Raises CannotJoin if this broker does not support a finalized level of the cluster.

    Raises BadNode if the node ``/feature`` can't be parsed.
    """
    levels = (await read_levels(zookeeper)).levels
    for name in unsupported(levels, supported):
        advice = "use a version of Muster that supports this level"
        protocol, level_max = _PROTOCOLS.get(name, ("", 0))
        if levels[name] <= level_max:
            advice = (
                f"add {protocol} to group.coordinator.rebalance.protocols, and set"
                " inter.broker.protocol.version to 2.8 or later"
            )
        raise CannotJoin(
            f"the cluster has the feature {name} at level {levels[name]}, which this broker does"
            f" not support: {advice}, or lower the level with kafka-features.sh"
        )


async def read_levels(zookeeper: ZooKeeper, changed: Callable[[], None] | None = None) -> Features:
    """Returns the finalized levels. ``changed`` is called once, at the next change of the node
    ``/feature``.

    Raises BadNode.
    """
    try:
        data, stat = await zookeeper.get(cluster.FEATURE, changed)
    except NoNode:
        if changed is not None and await zookeeper.exists(cluster.FEATURE, changed) is not None:
            return await read_levels(zookeeper, changed)
        return NO_FEATURES
    return Features(stat.version, cluster.decode_feature(data))


class FeatureLevels:
    """Keeps the finalized levels in the registry up to date. Only the event loop's thread may use
    this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        registry: ClusterRegistry,
        supported: SupportedLevels,
        time: Time,
        spawn: Spawn,
        errors: InternalErrors,
    ) -> None:
        self._zookeeper = zookeeper
        self._registry = registry
        self._supported = supported
        self._node = FollowedNodes(
            zookeeper, time, spawn, errors, "settings", (), (), self._read, _no_notice
        )

    async def open(self) -> None:
        """Reads the finalized levels, and starts to watch for changes. Raises ZooKeeperError."""
        await self._node.open()

    def stop(self) -> None:
        self._node.stop()

    async def _read(self) -> None:
        try:
            self._take(await read_levels(self._zookeeper, self._node.changed))
        except BadNode as error:
            logger.error("ZooKeeper node can't be parsed, ignored", reason=str(error))

    def _take(self, features: Features) -> None:
        before, self._registry.features = self._registry.features, features
        if before.levels != features.levels:
            logger.info("feature levels changed", levels=dict(features.levels))
        for name in unsupported(features.levels, self._supported):
            logger.error(
                "this broker does not support a feature level of the cluster",
                feature=name,
                level=features.levels[name],
            )


async def _no_notice(path: str, data: bytes) -> None:
    raise AssertionError(f"/feature has no notices: {path} {data!r}")
