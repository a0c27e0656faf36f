"""The admin client of each Python library manages topics, groups and offsets, and receives
errors."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import Any

import pytest

from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group

pytestmark = pytest.mark.interop


@pytest.fixture
def consumed(broker: Broker, name: str) -> str:
    """Creates a topic with two partitions, and a group without members that has committed offset 5
    in both partitions. Returns the group id."""
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 2)
    feed = Feed(broker.bootstrap, name, 2)
    with Group("confluent", broker.bootstrap, f"{name}-group", topics=[name]) as group:
        member = group.start("a")
        group.until_seen(feed.send(10))
        member.commit()
        member.leave()
    assert cluster.committed(f"{name}-group") == {(name, 0): 5, (name, 1): 5}
    return f"{name}-group"


def _failure(future: Any) -> str:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as found:
        future.result(10)
    text: str = found.value.args[0].name()
    return text


def test_confluent_admin_creates_extends_and_deletes_topics(broker: Broker, name: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ConfigResource,
        NewPartitions,
        NewTopic,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"retention.ms": "3600000", "cleanup.policy": "compact"}
    topic = NewTopic(name, 2, 1, config=config)
    admin.create_topics([topic])[name].result(10)
    Cluster(broker.bootstrap).until_partitions(name, 2)
    assert _failure(admin.create_topics([topic])[name]) == "TOPIC_ALREADY_EXISTS"
    found = admin.list_topics(name, timeout=10)
    assert list(found.topics[name].partitions) == [0, 1]
    [broker_id] = found.brokers
    assert found.topics[name].partitions[0].replicas == [broker_id]

    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["retention.ms"].value == "3600000"
    assert not configs["retention.ms"].is_default
    assert configs["segment.ms"].is_default

    admin.create_partitions([NewPartitions(name, 4)])[name].result(10)
    cluster = Cluster(broker.bootstrap)
    cluster.until_partitions(name, 4)
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 4
    fewer = admin.create_partitions([NewPartitions(name, 3)])[name]
    assert _failure(fewer) == "INVALID_PARTITIONS"
    admin.delete_topics([name])[name].result(10)
    cluster.until_partitions(name, 0)
    assert _failure(admin.delete_topics([name])[name]) == "UNKNOWN_TOPIC_OR_PART"


def test_confluent_admin_alters_settings_and_deletes_records(broker: Broker, name: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 1)
    Feed(broker.bootstrap, name, 1).send(5)

    def altered(incremental: bool, **operations: tuple[AlterConfigOpType, str]) -> dict[str, str]:
        entries = [
            ConfigEntry(setting.replace("_", "."), value, incremental_operation=operation)
            for setting, (operation, value) in operations.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name)
        if incremental:
            resource.incremental_configs = entries
            admin.incremental_alter_configs([resource])[resource].result(10)
        else:
            for entry in entries:
                resource.set_config(entry.name, entry.value)
            with warnings.catch_warnings(action="ignore"):  # deprecated, but still in use
                admin.alter_configs([resource])[resource].result(10)
        asked = ConfigResource(ResourceType.TOPIC, name)
        told = admin.describe_configs([asked])[asked].result(10)
        return {key: each.value for key, each in told.items() if not each.is_default}

    operation = AlterConfigOpType
    assert altered(
        True,
        cleanup_policy=(operation.APPEND, "compact"),
        retention_ms=(operation.SET, "9000"),
    ) == {"cleanup.policy": "delete,compact", "retention.ms": "9000"}
    assert altered(False, segment_ms=(operation.SET, "8000")) == {"segment.ms": "8000"}

    offset = TopicPartition(name, 0, 3)
    deleted = admin.delete_records([offset])[offset].result(10)
    assert deleted.low_watermark == 3


def test_confluent_admin_describes_alters_and_deletes_groups(
    broker: Broker, name: str, consumed: str
) -> None:
    from confluent_kafka import (
        ConsumerGroupState,
        ConsumerGroupTopicPartitions,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    cluster = admin.describe_cluster().result(10)
    assert [node.port for node in cluster.nodes] == [broker.port]
    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(10)
    assert consumed in [group.group_id for group in listed.valid]
    described = admin.describe_consumer_groups([consumed])[consumed].result(10)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])

    partition = TopicPartition(name, 0)
    ends = admin.list_offsets({partition: OffsetSpec.latest()})
    assert ends[partition].result(10).offset == 5

    wanted = ConsumerGroupTopicPartitions(consumed, [TopicPartition(name, 0, 2)])
    admin.alter_consumer_group_offsets([wanted])[consumed].result(10)
    asked = ConsumerGroupTopicPartitions(consumed)
    now = admin.list_consumer_group_offsets([asked])[consumed].result(10)
    assert {p.partition: p.offset for p in now.topic_partitions} == {0: 2, 1: 5}

    admin.delete_consumer_groups([consumed])[consumed].result(10)
    again = admin.delete_consumer_groups([consumed])[consumed]
    assert _failure(again) == "GROUP_ID_NOT_FOUND"


def test_kafka_python_admin_manages_topics_and_groups(
    broker: Broker, name: str, consumed: str
) -> None:
    from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
    from kafka.errors import GroupIdNotFoundError, NoError, TopicAlreadyExistsError

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    with contextlib.closing(admin):
        other = f"{name}-other"
        admin.create_topics({other: {"num_partitions": 3, "replication_factor": 1}})
        Cluster(broker.bootstrap).until_partitions(other, 3)
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics({other: {"num_partitions": 3, "replication_factor": 1}})
        assert other in admin.list_topics()
        admin.create_partitions({other: 4})
        Cluster(broker.bootstrap).until_partitions(other, 4)
        [described] = admin.describe_topics([other])
        assert len(described["partitions"]) == 4
        admin.delete_topics([other])
        Cluster(broker.bootstrap).until_partitions(other, 0)
        assert other not in admin.list_topics()

        assert consumed in [g["group_id"] for g in admin.list_groups(states_filter=["Empty"])]
        assert admin.describe_groups([consumed])[consumed]["group_state"] == "Empty"
        first, second = TopicPartition(name, 0), TopicPartition(name, 1)
        offsets = admin.list_group_offsets({consumed: None})[consumed]
        assert {key: value.offset for key, value in offsets.items()} == {first: 5, second: 5}
        altered = admin.alter_group_offsets(consumed, {first: OffsetAndMetadata(3, "by hand", -1)})
        assert altered == {first: NoError}
        assert admin.delete_group_offsets(consumed, [second]) == {second: NoError}
        offsets = admin.list_group_offsets({consumed: None})[consumed]
        assert {key: value[:2] for key, value in offsets.items()} == {first: (3, "by hand")}
        assert list(admin.delete_groups([consumed]).values()) in (["OK"], [NoError])
        again = admin.delete_groups([consumed])
        assert GroupIdNotFoundError.__name__ in str(again) or "GroupIdNotFound" in str(again)


def test_aiokafka_admin_manages_topics_and_groups(broker: Broker, name: str, consumed: str) -> None:
    asyncio.run(_by_aiokafka(broker, name, consumed))


async def _by_aiokafka(broker: Broker, name: str, consumed: str) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        other = f"{name}-other"
        made = await admin.create_topics([NewTopic(other, 3, 1)])
        assert [error[1] for error in made.topic_errors] == [0]
        again = await admin.create_topics([NewTopic(other, 3, 1)])
        assert [error[1] for error in again.topic_errors] == [36]
        await admin.create_partitions({other: NewPartitions(4)})
        Cluster(broker.bootstrap).until_partitions(other, 4)
        [described] = await admin.describe_topics([other])
        assert len(described["partitions"]) == 4
        await admin.delete_topics([other])
        Cluster(broker.bootstrap).until_partitions(other, 0)
        assert other not in await admin.list_topics()

        assert (consumed, "consumer") in [g[:2] for g in await admin.list_consumer_groups()]
        [answer] = await admin.describe_consumer_groups([consumed])
        assert answer.groups[0][1:3] == (consumed, "Empty")
        offsets = await admin.list_consumer_group_offsets(consumed)
        assert {key: value.offset for key, value in offsets.items()} == {
            TopicPartition(name, 0): 5,
            TopicPartition(name, 1): 5,
        }
    finally:
        await admin.close()


def test_deletion_of_a_group_with_members_or_of_its_offsets_is_refused(
    broker: Broker, name: str
) -> None:
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.errors import GroupSubscribedToTopicError

    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 2)
    feed = Feed(broker.bootstrap, name, 2)
    group_id = f"{name}-group"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    with (
        contextlib.closing(admin),
        Group("confluent", broker.bootstrap, group_id, topics=[name]) as group,
    ):
        member = group.start("a")
        group.until_seen(feed.send(10))
        member.commit()
        before = cluster.committed(group_id)
        assert "NonEmptyGroup" in str(admin.delete_groups([group_id]))
        partition = TopicPartition(name, 0)
        taken = admin.delete_group_offsets(group_id, [partition])
        assert taken == {partition: GroupSubscribedToTopicError}
        assert cluster.committed(group_id) == before
