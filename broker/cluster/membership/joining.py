"""Joins a cluster: connects to ZooKeeper, and reads the cluster id, the broker id and the topics.

The broker joins before it opens its logs, because the settings of the logs are in ZooKeeper. The
data directory may have partitions of topics that ZooKeeper no longer has; the broker leaves these
directories as they are (`strays`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from broker.cluster.membership import registration
from broker.cluster.membership.feature_levels import check_levels
from broker.cluster.membership.settings import ClusterSettings
from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.zookeeper.zookeeper import Connect, NoNode, SessionExpired, ZooKeeper
from broker.config.config import Config
from broker.time import Time
from broker.topics.directory.identity import Identity, keep_identity, read_identity
from broker.topics.directory.missing import KnownMissing
from broker.topics.directory.partition_mark import mark_of
from broker.topics.registry import Topic, partition_name, partition_of, uuid_bytes, uuid_text
from broker.topics.startup_parts import CannotJoin
from log.files.filesystem import FileSystem
from protocol.schema import ZERO_UUID
from protocol.znodes import topics
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Joined:
    """The data that a broker read from ZooKeeper when it joined the cluster."""

    zookeeper: ZooKeeper
    node_id: int
    cluster_id: str
    topics: Sequence[Topic]
    """The topics in ZooKeeper that have at least one partition in the data directory."""


async def join(
    settings: ClusterSettings,
    config: Config,
    connect: Connect,
    fs: FileSystem,
    directory: str,
    missing: KnownMissing,
    time: Time,
) -> Joined:
    """Connects to ZooKeeper, and reads the cluster id, the broker id and the topics. Raises
    CannotJoin and BadDirectory.

    Adds the dynamic settings in ZooKeeper to ``config``.
    """
    identity = read_identity(fs, directory, settings.configured_id, missing)
    where = settings.zookeeper
    try:
        zookeeper = await connect(where, time)
    except TimeoutError:
        raise CannotJoin(
            f"ZooKeeper at {where.hosts} did not answer within {where.connection_timeout_ms}"
            " ms: start ZooKeeper, or correct zookeeper.connect"
        ) from None
    try:
        while True:
            with suppress(SessionExpired):  # repeated in the new session
                return await _joined(zookeeper, settings, config, fs, directory, identity, time)
    except BadNode as error:
        await zookeeper.close()
        raise CannotJoin(
            f"{error}; correct the ZooKeeper node, then start this broker again"
        ) from None
    except BaseException:
        await zookeeper.close()
        raise


async def _joined(
    zookeeper: ZooKeeper,
    settings: ClusterSettings,
    config: Config,
    fs: FileSystem,
    directory: str,
    identity: Identity,
    time: Time,
) -> Joined:
    await registration.prepare(zookeeper)
    fresh = uuid_text(time.fresh_id())
    cluster_id = await registration.cluster_id(zookeeper, fresh, identity.cluster_id)
    node_id = identity.node_id
    if node_id is None:
        if not settings.generates_ids:
            raise CannotJoin(
                "broker.id is not set, and broker.id.generation.enable is false: set broker.id, or"
                " set broker.id.generation.enable=true"
            )
        node_id = await registration.generated_id(zookeeper, settings.reserved_id_max)
    keep_identity(fs, directory, identity, node_id, cluster_id)
    nodes = ConfigNodes(zookeeper, config)
    config.adopt(await nodes.broker(node_id))
    await check_levels(zookeeper, settings.features)
    here = _here(fs.list(directory))

    def of_disk(name: str) -> Topic:
        count = max(here[name]) + 1
        marks = [mark_of(fs, f"{directory}/{partition_name(name, each)}") for each in here[name]]
        return Topic(name, next(filter(None, marks), ZERO_UUID), count)

    found = await asyncio.gather(*[_topic(zookeeper, nodes, name, of_disk) for name in here])
    known = [each for each in found if each is not None]
    strays = [name for name, topic in zip(here, found, strict=True) if topic is None]
    if strays:
        logger.warning(
            "directories of unknown topics ignored: ZooKeeper does not have these topics",
            topics=strays,
        )
    return Joined(zookeeper, node_id, cluster_id, known)


def _here(names: Iterable[str]) -> dict[str, list[int]]:
    """Returns the partitions that have a directory on this broker: their sorted indexes, by
    topic."""
    here: dict[str, list[int]] = {}
    for place in sorted(filter(None, map(partition_of, names))):
        here.setdefault(place[0], []).append(place[1])
    return here


async def _topic(
    zookeeper: ZooKeeper, nodes: ConfigNodes, name: str, of_disk: Callable[[str], Topic]
) -> Topic | None:
    """Returns a topic as ZooKeeper describes it; None if ZooKeeper does not have the topic.

    If the topic's node can't be parsed, returns the result of ``of_disk``, which describes the
    topic by its directories. The controller sends the missing facts once the node is corrected.
    """
    try:
        data, _ = await zookeeper.get(topics.topic_path(name))
        node = topics.decode_topic(name, data)
        topic_id = ZERO_UUID if node.topic_id is None else uuid_bytes(node.topic_id)
        topic = Topic(name, topic_id, max(node.partitions, default=-1) + 1)
    except NoNode:
        return None
    except ValueError as error:
        logger.error(
            "ZooKeeper node of a topic can't be parsed, correct the node",
            effect="until the node is correct, the topic is read from the data directory",
            topic=name,
            reason=str(error),
        )
        topic = of_disk(name)
    return topic.with_configs(await nodes.topic(name))
