"""Tests how a broker joins its cluster: it sets its broker id and the cluster id, and loads the
topics of its data directory."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.membership.joining import Joined, join
from broker.cluster.membership.settings import cluster_settings
from broker.cluster.zookeeper.zookeeper import Where, ZooKeeper
from broker.config.config import BadConfig, Config
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from broker.topics.directory.missing import KnownMissing
from broker.topics.directory.partition_mark import mark
from broker.topics.registry import BadDirectory
from broker.topics.startup_parts import CannotJoin
from protocol.znodes import cluster, configs, topics
from tests.simulated_files import SimulatedFiles

DIRECTORY = "/data"
CLUSTER = "c" * 22


class Scene:
    """A data directory and a simulated ZooKeeper for a broker that joins."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.fs = SimulatedFiles()
        self.fs.make_directory(DIRECTORY)
        self.sessions: list[MemoryZooKeeper] = []
        self.wheres: list[Where] = []

    async def _connect(self, where: Where, time: Time) -> ZooKeeper:
        self.wheres.append(where)
        self.sessions.append(MemoryZooKeeper(self.ensemble))
        return self.sessions[-1]

    async def join(self, **settings: str) -> Joined:
        config = config_of(**settings)
        return await join(
            cluster_settings(config),
            config,
            self._connect,
            self.fs,
            DIRECTORY,
            KnownMissing(),
            Time(),
        )

    def directory(self, name: str) -> None:
        self.fs.make_directory(f"{DIRECTORY}/{name}")


def config_of(**settings: str) -> Config:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return Config({"zookeeper.connect": "zoo:2181/chroot", **given})


async def test_first_broker_generates_its_broker_id_and_the_cluster_id() -> None:
    there = Scene()
    joined = await there.join(broker_id="-1")
    assert joined.node_id == 1001
    assert len(joined.cluster_id) == 22
    assert there.wheres[0].hosts == "zoo:2181/chroot"
    again = await there.join(broker_id="-1")
    assert (again.node_id, again.cluster_id) == (1001, joined.cluster_id)
    other = Scene()
    other.ensemble = there.ensemble
    second = await other.join(broker_id="-1", reserved_broker_max_id="2000")
    assert (second.node_id, second.cluster_id) == (2002, joined.cluster_id)


async def test_configured_broker_id_cannot_be_changed() -> None:
    there = Scene()
    assert (await there.join(broker_id="7")).node_id == 7
    with pytest.raises(BadDirectory, match="belongs to broker 7, but this is broker 8"):
        await there.join(broker_id="8")
    assert len(there.sessions) == 1, "ZooKeeper was not asked"


async def test_join_fails_when_broker_id_is_unset_and_broker_id_generation_is_disabled() -> None:
    there = Scene()
    with pytest.raises(CannotJoin, match=r"broker\.id is not set"):
        await there.join(broker_id="-1", broker_id_generation_enable="false")
    assert there.ensemble.sessions == {}, "its session has ended"


async def test_join_fails_when_data_directory_belongs_to_another_cluster() -> None:
    there = Scene()
    await there.join(broker_id="1")
    other = Scene()
    other.fs = there.fs
    await MemoryZooKeeper(other.ensemble).create("/cluster", None)
    written = cluster.encode_cluster_id(CLUSTER)
    await MemoryZooKeeper(other.ensemble).create(cluster.CLUSTER_ID, written)
    with pytest.raises(
        BadDirectory, match=f"zookeeper.connect is the address of cluster {CLUSTER}"
    ):
        await other.join(broker_id="1")


async def test_join_fails_when_zookeeper_does_not_respond() -> None:
    there = Scene()

    async def nobody(where: Where, time: Time) -> ZooKeeper:
        raise TimeoutError

    config = config_of(broker_id="1", zookeeper_connection_timeout_ms="200")
    settings = cluster_settings(config)
    with pytest.raises(
        CannotJoin, match="ZooKeeper at zoo:2181/chroot did not answer within 200 ms"
    ):
        await join(settings, config, nobody, there.fs, DIRECTORY, KnownMissing(), Time())
    assert there.fs.list(DIRECTORY) == [], "nothing was written"


async def test_broker_loads_the_topics_of_zookeeper_that_have_a_local_directory() -> None:
    there = Scene()
    await there.join(broker_id="1")
    zookeeper = MemoryZooKeeper(there.ensemble)
    for name in ("here", "elsewhere"):
        node = topics.TopicNode({0: (1,), 4: (2,)}, "AAECAwQFBgcICQoLDA0ODw")
        await zookeeper.create(topics.topic_path(name), topics.encode_topic(node))
    data = configs.encode_config({"retention.ms": "1000"})
    await zookeeper.create(configs.path(configs.TOPICS, "here"), data)
    for name in ("here-0", "here-4", "stray-0", "no_partition"):
        there.directory(name)
    with capture_logs() as lines:
        joined = await there.join(broker_id="1")
    (topic,) = joined.topics
    assert (topic.name, topic.topic_id, topic.partitions) == ("here", bytes(range(16)), 5)
    assert topic.configs == {"retention.ms": "1000"}
    assert [each["topics"] for each in lines if "topics" in each] == [["stray"]]


@pytest.mark.parametrize(
    "data", [b"{", b'{"partitions":{"0":[1]},"topic_id":"short"}', b'{"partitions":[1]}']
)
async def test_topic_with_an_invalid_znode_is_loaded_from_its_directories(data: bytes) -> None:
    there = Scene()
    await there.join(broker_id="1")
    zookeeper = MemoryZooKeeper(there.ensemble)
    await zookeeper.create(topics.topic_path("bad"), data)
    stored = configs.encode_config({"retention.ms": "1000"})
    await zookeeper.create(configs.path(configs.TOPICS, "bad"), stored)
    topic_id = bytes(range(16))
    for index in (1, 4):
        there.directory(f"bad-{index}")
        mark(there.fs, f"{DIRECTORY}/bad-{index}", topic_id)
    with capture_logs() as lines:
        (topic,) = (await there.join(broker_id="1")).topics
    assert (topic.name, topic.topic_id, topic.partitions) == ("bad", topic_id, 5)
    assert topic.configs == {"retention.ms": "1000"}
    assert [each["topic"] for each in lines if "can't be parsed" in each["event"]] == ["bad"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"zookeeper_set_acl": "true"}, "ACLs and TLS of ZooKeeper"),
        ({"zookeeper_ssl_client_enable": "true"}, "ACLs and TLS of ZooKeeper"),
        ({"zookeeper_metadata_migration_enable": "true"}, "does not migrate to KRaft"),
        (
            {"inter_broker_protocol_version": "0.9"},
            r"protocol\.version: '0\.9' is not supported",
        ),
        ({"inter_broker_protocol_version": "new"}, "is not a Kafka version such as 3.9"),
        (
            {"inter_broker_protocol_version": "0.10.2"},
            r"log\.message\.format\.version=3\.0-IV1 with .*=0\.10\.2: brokers of that",
        ),
        (
            {"inter_broker_listener_name": "INSIDE"},
            "the inter-broker listener INSIDE is not in listeners",
        ),
    ],
)
def test_settings_that_clusters_do_not_support_are_refused_with_a_message(
    settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        cluster_settings(config_of(**settings))


def test_zookeeper_settings_have_the_defaults_of_kafka() -> None:
    where = cluster_settings(config_of()).zookeeper
    assert where == Where("zoo:2181/chroot", 18000, 18000, 10)
    where = cluster_settings(config_of(zookeeper_connection_timeout_ms="7")).zookeeper
    assert (where.session_timeout_ms, where.connection_timeout_ms) == (18000, 7)
