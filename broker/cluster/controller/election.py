"""The election of the controller: the first broker that creates ``/controller`` wins and increments
the controller epoch.

One ZooKeeper multi makes both writes, so that two controllers never share an epoch. The version of
``/controller_epoch`` fences all later writes of the controller. Source: Kafka 3.9
``KafkaZkClient``. Kafka 0.10.2 makes two writes instead.
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
    """The epoch of an election that this broker won."""

    epoch: int
    epoch_version: int
    """The version of the node ``/controller_epoch``."""


async def controller_of(zookeeper: ZooKeeper) -> int:
    """Returns the broker id of the controller; `NOBODY` if the node ``/controller`` does not
    exist."""
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
    """Tries to become the controller. Returns None if another broker is, or becomes, the
    controller."""
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
    """Creates ``/feature``, or updates it to the format of this broker's
    ``inter.broker.protocol.version``.

    A node that already lists features is not changed, because a controller that supports features
    wrote it. Source: Kafka 3.9 ``KafkaController.maybeSetupFeatureVersioning``.
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
    """Returns the current controller epoch and the version of ``/controller_epoch``. Creates the
    node if it does not exist."""
    with suppress(NodeExists):
        if await zookeeper.exists(cluster.CONTROLLER_EPOCH) is None:
            await zookeeper.create(cluster.CONTROLLER_EPOCH, cluster.encode_epoch(0))
    data, stat = await zookeeper.get(cluster.CONTROLLER_EPOCH)
    return cluster.decode_epoch(data), stat.version


async def _is_ours(zookeeper: ZooKeeper, epoch: int) -> bool:
    """Returns True if this broker already won the election with ``epoch``, although the write
    returned an error."""
    there = await zookeeper.exists(cluster.CONTROLLER)
    if there is None or there.ephemeral_owner != zookeeper.session:
        return False
    data, _ = await zookeeper.get(cluster.CONTROLLER_EPOCH)
    return cluster.decode_epoch(data) == epoch
