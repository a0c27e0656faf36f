"""Searches ZooKeeper for nodes that can't be parsed, when an operator requests it.

When the broker reads such a node, it ignores the node, so that no other node is affected. This
search finds all such nodes at once, including those that the broker has not read since they were
damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from broker.cluster.zookeeper.client_nodes import client_nodes
from broker.cluster.zookeeper.zookeeper import NoNode, ZooKeeper, children_of, slices
from protocol.znodes import acls, admin, brokers, cluster, configs, tokens, topics

BAD_MAX = 100
"""The maximum number of nodes that are listed. Further nodes that can't be parsed are only counted.
"""

Node = tuple[str, Callable[[bytes], Any]]
"""The path of a node, and the function that parses its data."""


@dataclass(slots=True)
class Looked:
    """The result of a search for nodes that can't be parsed."""

    nodes: int = 0
    """The number of nodes that were read."""
    bad: list[tuple[str, str]] = field(default_factory=list)
    """The path of each node that can't be parsed, with the reason."""
    more: int = 0


async def bad_nodes(zookeeper: ZooKeeper) -> Looked:
    """Reads every node about the cluster, brokers, topics, partitions, settings, ACLs and tokens.
    Returns the nodes that can't be parsed."""
    found = Looked()
    async for some in _nodes(zookeeper):
        await _read(zookeeper, some, found)
    return found


async def _nodes(zookeeper: ZooKeeper) -> AsyncIterator[list[Node]]:
    yield [
        (cluster.CONTROLLER, cluster.decode_controller),
        (cluster.CONTROLLER_EPOCH, cluster.decode_epoch),
        (cluster.CLUSTER_ID, cluster.decode_cluster_id),
        (cluster.PRODUCER_IDS, cluster.decode_producer_ids),
        (admin.REASSIGN, admin.decode_reassignments),
        (admin.PREFERRED, admin.decode_preferred),
    ]
    ids = [each for each in await children_of(zookeeper, brokers.IDS) if each.isdecimal()]
    yield [_registration(int(each)) for each in ids]
    for kind in (configs.TOPICS, configs.BROKERS):
        for some in slices(sorted(await children_of(zookeeper, f"{configs.CONFIG}/{kind}"))):
            yield [_settings(f"{configs.CONFIG}/{kind}/{name}") for name in some]
    async for several in client_nodes(zookeeper):
        yield [_settings(f"{configs.CONFIG}/{path}") for path in several]
    async for protecting in _of_rights(zookeeper):
        yield protecting
    for some in slices(sorted(await children_of(zookeeper, topics.TOPICS))):
        places: list[tuple[str, int]] = []
        yield [_topic(name, places) for name in some]
        for states in slices(places):
            yield [_state(*place) for place in states]


async def _of_rights(zookeeper: ZooKeeper) -> AsyncIterator[list[Node]]:
    """Yields the nodes of ACLs and of delegation tokens, in lists."""
    for pattern_type, tree in acls.TREES.items():
        for kind in acls.TYPES:
            names = sorted(await children_of(zookeeper, f"{tree}/{kind}"))
            for some in slices(acls.Place(kind, name, pattern_type) for name in names):
                yield [_entries(place.path) for place in some]
    for several in slices(sorted(await children_of(zookeeper, tokens.TOKENS))):
        yield [_token(tokens.path(each)) for each in several]


def _entries(path: str) -> Node:
    return path, lambda data: acls.decode_entries(path, data)


def _token(path: str) -> Node:
    return path, lambda data: tokens.decode_token(path, data)


def _registration(broker_id: int) -> Node:
    return brokers.path(broker_id), lambda data: brokers.decode_registration(broker_id, data)


def _settings(path: str) -> Node:
    return path, lambda data: configs.decode_config(path, data)


def _topic(name: str, places: list[tuple[str, int]]) -> Node:
    """Returns the path of a topic's node, and a function that parses the node. The function also
    adds the topic's partitions to ``places``."""

    def read(data: bytes) -> None:
        places.extend((name, index) for index in topics.decode_topic(name, data).partitions)

    return topics.topic_path(name), read


def _state(topic: str, partition: int) -> Node:
    path = topics.state_path(topic, partition)
    return path, lambda data: topics.decode_state(topic, partition, data)


async def _read(zookeeper: ZooKeeper, nodes: list[Node], found: Looked) -> None:
    """Reads nodes concurrently, and adds those that can't be parsed to ``found``. Ignores nodes
    that do not exist."""
    answers = await asyncio.gather(
        *[zookeeper.get(path) for path, _ in nodes], return_exceptions=True
    )
    for (path, read), answer in zip(nodes, answers, strict=True):
        if isinstance(answer, NoNode):
            continue
        if isinstance(answer, BaseException):
            raise answer
        found.nodes += 1
        try:
            read(answer[0])
        except ValueError as error:
            if len(found.bad) < BAD_MAX:
                found.bad.append((path, str(error)))
            else:
                found.more += 1
