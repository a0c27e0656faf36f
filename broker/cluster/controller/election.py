"""The election of the controller: the first broker that creates ``/controller`` increments the
epoch.

One multi makes both writes, so that two controllers never share an epoch. The version of the
epoch's node fences all writes of this controller. Source: Kafka 3.9 ``KafkaZkClient``; 0.10.2
creates the node first and increments the epoch afterwards.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

import structlog

from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Stat,
    ZooKeeper,
)
from protocol.znodes import cluster
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

NOBODY = -1


class Elected(NamedTuple):
    """The result of an election that this broker won."""

    epoch: int
    epoch_version: int
    """The version of the node ``/controller_epoch``."""


async def controller_of(zookeeper: ZooKeeper) -> int:
    """Returns the broker id of the controller; `NOBODY` if the cluster has no controller."""
    try:
        data, _ = await zookeeper.get(cluster.CONTROLLER)
    except NoNode:
        return NOBODY
    return cluster.decode_controller(data)


async def last_epoch(zookeeper: ZooKeeper) -> int:
    """Returns the epoch of the last elected controller; 0 before the first election."""
    try:
        data, _ = await zookeeper.get(cluster.CONTROLLER_EPOCH)
    except NoNode:
        return 0
    return cluster.decode_epoch(data)


async def elect(zookeeper: ZooKeeper, broker_id: int, wall_ms: int) -> Elected | None:
    """Tries to become the controller; returns None if another broker is the controller."""
    if await zookeeper.exists(cluster.CONTROLLER) is not None:
        return None
    epoch, version = await _epoch(zookeeper)
    wanted: list[Operation] = [
        Create(cluster.CONTROLLER, cluster.encode_controller(broker_id, wall_ms), ephemeral=True),
        Set(cluster.CONTROLLER_EPOCH, cluster.encode_epoch(epoch + 1), version),
    ]
    try:
        _, stat = await zookeeper.multi(wanted)
    except MultiFailed as failed:
        if not isinstance(failed.error, NodeExists | BadVersion):
            raise failed.error from None
        if failed.error.unsure and await _is_ours(zookeeper, epoch + 1):
            return Elected(epoch + 1, version + 1)
        return None
    assert isinstance(stat, Stat)
    return Elected(epoch + 1, stat.version)


async def write_feature(zookeeper: ZooKeeper, spoken: InterBroker) -> None:
    """Creates ``/feature``, or updates it to ``inter.broker.protocol.version``.

    A node with features was written by a controller that supports them, and is not changed. Source:
    Kafka 3.9 ``KafkaController.maybeSetupFeatureVersioning``.
    """
    wanted = cluster.encode_feature(spoken.feature_version, spoken.has_features)
    try:
        data, stat = await zookeeper.get(cluster.FEATURE)
    except NoNode:
        with suppress(NodeExists):
            await zookeeper.create(cluster.FEATURE, wanted)
        return
    try:
        has_some = bool(cluster.decode_feature(data))
    except BadNode as error:
        logger.error("ZooKeeper node can't be parsed, ignored", reason=str(error))
        return
    if not has_some and json.loads(data) != json.loads(wanted):
        with suppress(BadVersion):
            await zookeeper.set(cluster.FEATURE, wanted, stat.version)


async def _epoch(zookeeper: ZooKeeper) -> tuple[int, int]:
    """Returns the epoch of the last controller and the version of the epoch's node; creates a
    missing node."""
    with suppress(NodeExists):
        if await zookeeper.exists(cluster.CONTROLLER_EPOCH) is None:
            await zookeeper.create(cluster.CONTROLLER_EPOCH, cluster.encode_epoch(0))
    data, stat = await zookeeper.get(cluster.CONTROLLER_EPOCH)
    return cluster.decode_epoch(data), stat.version


async def _is_ours(zookeeper: ZooKeeper, epoch: int) -> bool:
    """True if an earlier attempt of this election succeeded."""
    there = await zookeeper.exists(cluster.CONTROLLER)
    if there is None or there.ephemeral_owner != zookeeper.session:
        return False
    data, _ = await zookeeper.get(cluster.CONTROLLER_EPOCH)
    return cluster.decode_epoch(data) == epoch
