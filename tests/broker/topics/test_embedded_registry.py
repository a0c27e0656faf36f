"""The topic registry in the data directory: its files, crashes, and the adoption of directories
that Kafka wrote."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from broker.topics.directory.embedded_registry import EmbeddedRegistry
from broker.topics.directory.partition_mark import partition_metadata
from broker.topics.registry import (
    BadDirectory,
    DeletedTopic,
    Features,
    Topic,
    uuid_bytes,
    uuid_text,
)
from log.files.filesystem import FileSystem, OsFileSystem, read_whole, write_whole
from tests.simulated_files import SimulatedFiles

ROOT = Path(__file__).parents[3]
INTERNAL = {"__consumer_offsets": {"cleanup.policy": "compact"}}
DATA = "/data"


def opened(
    fs: FileSystem, directory: str = DATA, broker_id: int | None = None, default_id: int = 1
) -> EmbeddedRegistry:
    numbers = count(1)
    fs.make_directory(directory)
    return EmbeddedRegistry(
        fs,
        directory,
        broker_id,
        default_id,
        lambda: next(numbers).to_bytes(16, "big"),
        INTERNAL,
    )


def create(registry: EmbeddedRegistry, name: str, **configs: str) -> Topic:
    topic = Topic(name, random.Random(name).randbytes(16), 3, configs)
    registry.store(topic)
    registry.show(topic)
    return topic


def topics_after_restart(registry: EmbeddedRegistry) -> Mapping[str, Topic]:
    return registry.topics


# -- identity


def test_node_id_and_cluster_id_survive_a_restart() -> None:
    fs = SimulatedFiles()
    first = opened(fs, broker_id=7)

    again = opened(fs)

    assert (first.node_id, again.node_id) == (7, 7)
    assert len(first.cluster_id) == 22
    assert again.cluster_id == first.cluster_id
    text = fs.written(f"{DATA}/meta.properties").decode()
    assert text == f"version=0\nbroker.id=7\ncluster.id={first.cluster_id}\n"


def test_node_id_is_the_default_id_when_no_id_is_configured() -> None:
    assert opened(SimulatedFiles(), default_id=1).node_id == 1


def test_data_directory_of_another_broker_is_refused() -> None:
    fs = SimulatedFiles()
    opened(fs, broker_id=1)

    with pytest.raises(BadDirectory, match="belongs to broker 1, but this is broker 2"):
        opened(fs, broker_id=2)


def test_meta_properties_of_a_kraft_broker_are_kept() -> None:
    fs = SimulatedFiles()
    fs.make_directory(DATA)
    theirs = b"#\nnode.id=4\ndirectory.id=x\nversion=1\ncluster.id=vPeOCWypqUOSepEvx0cbog\n"
    write_whole(fs, f"{DATA}/meta.properties", theirs)

    registry = opened(fs)

    assert (registry.node_id, registry.cluster_id) == (4, "vPeOCWypqUOSepEvx0cbog")
    assert fs.written(f"{DATA}/meta.properties") == theirs


def test_meta_properties_without_a_cluster_id_get_a_new_cluster_id() -> None:
    fs = SimulatedFiles()
    fs.make_directory(DATA)
    write_whole(fs, f"{DATA}/meta.properties", b"version=0\nbroker.id=0\n")

    registry = opened(fs)

    assert registry.node_id == 0
    assert opened(fs).cluster_id == registry.cluster_id


# -- topics


def test_topics_survive_a_restart_with_ids_and_settings() -> None:
    fs = SimulatedFiles()
    topic = create(opened(fs), "t", **{"retention.ms": "5"})

    again = opened(fs)

    assert again.topic("t") == topic
    assert again.topic_by_id(topic.topic_id) == topic
    assert again.topic_name(topic.topic_id) == "t"
    assert again.topic_id("t") == topic.topic_id
    assert again.partition_counts == {"t": 3}
    assert again.topic("other") is None


def test_topic_with_an_unfinished_deletion_is_hidden_after_a_restart() -> None:
    fs = SimulatedFiles()
    registry = opened(fs)
    topic = create(registry, "t")
    registry.mark_deleted("t")
    assert registry.topic("t") == topic
    registry.hide("t")

    again = opened(fs)

    assert again.topic("t") is None
    assert again.dying == {"t": DeletedTopic(topic)}
    again.forget(topic)
    assert opened(fs).dying == {}


@pytest.mark.parametrize("seed", range(30))
def test_every_stored_topic_survives_a_power_loss(seed: int) -> None:
    """A topic is stored when `store` returns. A topic whose `store` failed may or may not exist
    after the power loss."""
    chance = random.Random(seed)
    fs = SimulatedFiles()
    registry = opened(fs)
    create(registry, "safe")
    if chance.random() < 0.5:
        fs.fail(chance.choice(["write", "rename", "fsync_directory", "fsync"]), "")
        with pytest.raises(OSError, match=r"."):
            registry.store(Topic("lost?", b"x" * 16, 1))
        fs.heal()
    else:
        create(registry, "kept")
    promised = set(registry.topics)

    fs.lose_power(chance)
    after = opened(fs)

    assert promised <= set(after.topics) <= {*promised, "lost?"}


def test_failed_topic_creation_is_not_stored_by_the_next_registry_write() -> None:
    fs = SimulatedFiles()
    registry = opened(fs)
    fs.fail("write", "")
    with pytest.raises(OSError, match=r"."):
        registry.store(Topic("refused", b"x" * 16, 1))

    create(registry, "next")

    assert set(opened(fs).topics) == {"next"}


def test_reserved_producer_ids_survive_a_power_loss() -> None:
    fs = SimulatedFiles()
    first = opened(fs).reserve_producer_ids(1000)
    fs.lose_power(random.Random(0))

    second = opened(fs).reserve_producer_ids(1000)

    assert (first, second) == (range(1000), range(1000, 2000))


def test_reserved_producer_ids_are_above_the_producer_ids_in_adopted_logs() -> None:
    registry = opened(SimulatedFiles())

    registry.raise_producer_ids(4500)

    assert registry.reserve_producer_ids(10) == range(4501, 4511)


def test_feature_epoch_increases_only_when_a_level_changes() -> None:
    """Clients use the ApiVersions response with the highest features epoch that they have
    received."""
    fs = SimulatedFiles()
    seen = []
    for level in (2, 2, 0, 2):
        registry = opened(fs)
        registry.finalize({"transaction.version": level})
        fs.lose_power(random.Random(0))
        seen.append((registry.features.epoch, registry.features.levels["transaction.version"]))

    assert seen == [(1, 2), (1, 2), (2, 0), (3, 2)]


def test_feature_level_is_finalized_in_memory_although_its_write_fails() -> None:
    fs = SimulatedFiles()
    registry = opened(fs)
    fs.fail("write", "")

    registry.finalize({"transaction.version": 1})

    assert registry.features == Features(1, {"transaction.version": 1})


def version_of(fs: SimulatedFiles) -> int:
    version: int = json.loads(read_whole(fs, f"{DATA}/topics.json"))["version"]
    return version


def test_older_muster_version_refuses_a_directory_while_consumer_groups_are_served() -> None:
    """While consumer groups are served, the topic list has version 3. An older Muster knows only
    versions 1 and 2. It refuses the directory with an error that names the version."""
    fs = SimulatedFiles()
    registry = opened(fs)
    registry.finalize({"group.version": 0})
    assert version_of(fs) == 1
    registry.finalize({"group.version": 1})
    assert version_of(fs) == 3

    again = opened(fs)
    assert again.features.levels == {"group.version": 1}
    again.finalize({"group.version": 0})
    assert version_of(fs) == 1


def test_feature_group_version_is_not_finalized_on_a_full_disk() -> None:
    fs = SimulatedFiles()
    registry = opened(fs)
    fs.fail("write", "")

    registry.finalize({"group.version": 1, "transaction.version": 1})

    assert registry.features == Features(1, {"group.version": 0, "transaction.version": 1})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 1, "next_producer_id": 0, "topics": [{"name": "t"}]}',
        '{"version": 1, "next_producer_id": 0, "topics":'
        ' [{"name": "a/b", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",'
        ' "partitions": 1, "configs": {}}]}',
    ],
)
def test_damaged_topic_list_is_refused(text: str) -> None:
    fs = SimulatedFiles()
    opened(fs)
    write_whole(fs, f"{DATA}/topics.json", text.encode())

    with pytest.raises(BadDirectory, match="is damaged"):
        opened(fs)


def test_topic_list_of_a_later_version_is_refused() -> None:
    fs = SimulatedFiles()
    opened(fs)
    write_whole(fs, f"{DATA}/topics.json", b'{"version": 6}')

    with pytest.raises(BadDirectory, match="version 6, but this Muster reads version 5"):
        opened(fs)


# -- adoption


def test_directory_of_apache_kafka_is_adopted(tmp_path: Path) -> None:
    source = ROOT / "tests/data/kafka-dirs/kafka-4.3.1-clean/data.tar.xz"
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    directory = tmp_path / "data"

    registry = opened(OsFileSystem(), str(directory))

    offsets = registry.topic("__consumer_offsets")
    assert offsets is not None
    assert (offsets.partitions, offsets.configs) == (4, {"cleanup.policy": "compact"})
    written = (directory / "t-none-0" / "partition.metadata").read_bytes()
    topic = registry.topic("t-none")
    assert topic is not None
    assert written == partition_metadata(topic.topic_id)
    assert topic.configs == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert set(registry.adopted) == set(registry.topics)
    assert opened(OsFileSystem(), str(directory)).adopted == []


def test_start_fails_when_partitions_of_one_topic_have_different_topic_ids() -> None:
    fs = SimulatedFiles()
    for partition, topic_id in ((0, b"a" * 16), (1, b"b" * 16)):
        directory = f"{DATA}/t-{partition}"
        fs.make_directory(directory)
        fs.put(f"{directory}/00000000000000000000.log", b"")
        fs.put(f"{directory}/partition.metadata", partition_metadata(topic_id))

    with pytest.raises(BadDirectory, match="different topic ids"):
        opened(fs)


def test_directories_that_are_not_partitions_are_ignored() -> None:
    fs = SimulatedFiles()
    for name in ("t-0.0123-delete", "__cluster_metadata-0", "notes", "empty-0"):
        fs.make_directory(f"{DATA}/{name}")
    fs.put(f"{DATA}/__cluster_metadata-0/00000000000000000000.log", b"")

    assert opened(fs).topics == {}


# -- examples in docs/formats/registry.md

PAGE = (ROOT / "docs" / "formats" / "registry.md").read_text()


def test_topic_list_example_of_the_registry_page_is_read() -> None:
    example = PAGE.split("```json\n")[1].split("```")[0]
    fs = SimulatedFiles()
    fs.make_directory(DATA)
    fs.put(f"{DATA}/topics.json", example.encode())
    for name in (*json.loads(example)["files"], "meta.properties"):
        fs.put(f"{DATA}/{name}", b"cluster.id=qn0yhuRYT46qiqNeWIhXgg\n")
    fs.put(f"{DATA}/configs.json", b'{"version": 1, "brokers": {}}')

    registry = opened(fs)

    orders = registry.topic("orders")
    assert orders is not None
    assert (orders.partitions, orders.configs) == (3, {"retention.ms": "86400000"})
    assert uuid_text(orders.topic_id) == "vzPv9U8MSCqHBRiUumrOFw"
    assert uuid_bytes("vzPv9U8MSCqHBRiUumrOFw") == orders.topic_id
    assert list(registry.dying) == ["clicks"]
    assert registry.reserve_producer_ids(1) == range(2000, 2001)
    assert json.loads(fs.written(f"{DATA}/topics.json"))["next_producer_id"] == 2001


def test_broker_settings_example_of_the_registry_page_is_read() -> None:
    example = PAGE.split("```json\n")[2].split("```")[0]
    fs = SimulatedFiles()
    opened(fs).note_files()
    fs.put(f"{DATA}/configs.json", example.encode())

    registry = opened(fs)
    expected = {
        "": {"log.retention.ms": "3000"},
        "1": {"log.retention.ms": "2000", "max.connections": "500"},
    }
    assert registry.broker_configs == expected
    registry.store_broker_configs("1", {"max.connections": "7"})
    registry.store_broker_configs("", {})

    assert opened(fs).broker_configs == {"1": {"max.connections": "7"}}
    assert (
        json.loads(fs.written(f"{DATA}/configs.json"))["version"] == json.loads(example)["version"]
    )


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version": 2, "brokers": {}}', '{"version": 1, "b', "7"]
)
def test_damaged_broker_settings_file_is_refused(text: str) -> None:
    fs = SimulatedFiles()
    fs.make_directory(DATA)
    fs.put(f"{DATA}/configs.json", text.encode())

    with pytest.raises(BadDirectory, match=r"configs\.json"):
        opened(fs)
