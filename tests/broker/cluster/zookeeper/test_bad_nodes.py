"""Tests that a scan of all ZooKeeper nodes finds the invalid nodes."""

from __future__ import annotations

from broker.cluster.zookeeper import bad_nodes as module
from broker.cluster.zookeeper.bad_nodes import bad_nodes
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from protocol.znodes import cluster, topics
from protocol.znodes.topics import StateNode, TopicNode


async def filled() -> MemoryZooKeeper:
    """Returns a ZooKeeper with one topic that has two partitions. Only partition 0 has a state
    node."""
    zookeeper = MemoryZooKeeper(Ensemble())
    for path in cluster.AT_START:
        await ensure_path(zookeeper, path)
    node = TopicNode({0: (1,), 1: (1,)})
    await zookeeper.create(topics.topic_path("t"), topics.encode_topic(node))
    await ensure_path(zookeeper, topics.partition_path("t", 0))
    state = topics.encode_state(StateNode(1, 0, (1,), 1, False))
    await zookeeper.create(topics.state_path("t", 0), state)
    return zookeeper


async def test_zookeeper_scan_of_a_valid_cluster_finds_no_invalid_nodes() -> None:
    looked = await bad_nodes(await filled())

    assert (looked.nodes, looked.bad, looked.more) == (3, [], 0)


async def test_zookeeper_scan_lists_each_invalid_node() -> None:
    zookeeper = await filled()
    bad = ["/brokers/ids/3", "/brokers/topics/u", "/config/topics/t", "/controller_epoch"]
    for path in bad:
        await zookeeper.create(path, b"{not json")
    await zookeeper.set(topics.state_path("t", 0), b"[]")
    looked = await bad_nodes(zookeeper)

    assert sorted(path for path, _ in looked.bad) == sorted([*bad, topics.state_path("t", 0)])
    assert all(path in why for path, why in looked.bad)


async def test_zookeeper_scan_includes_nodes_of_acls_users_and_tokens() -> None:
    zookeeper = await filled()
    bad = [
        "/kafka-acl/Topic/t",
        "/kafka-acl-extended/prefixed/Group/g",
        "/config/users/alice",
        "/delegation_token/tokens/one",
    ]
    for path in bad:
        await ensure_path(zookeeper, path.rpartition("/")[0])
        await zookeeper.create(path, b'{"version":1}')
    looked = await bad_nodes(zookeeper)

    assert sorted(path for path, _ in looked.bad) == sorted(set(bad) - {"/config/users/alice"})


async def test_zookeeper_scan_counts_but_does_not_list_invalid_nodes_beyond_the_maximum() -> None:
    zookeeper = await filled()
    for number in range(module.BAD_MAX + 7):
        await zookeeper.create(f"/config/topics/t{number}", b"[")
    looked = await bad_nodes(zookeeper)

    assert (len(looked.bad), looked.more) == (module.BAD_MAX, 7)
