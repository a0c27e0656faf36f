"""Clients of common libraries that record the results of their requests, such as commits and
generations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Producer as LibProducer
from kafka import KafkaConsumer
from kafka import OffsetAndMetadata as PyOffset
from kafka import TopicPartition as PyPartition

from tests import java, waiting
from tests.pipeline.truth.told import (
    ABORTED,
    COMMITTED,
    Commit,
    Generation,
    Person,
    Record,
    Told,
    Transaction,
    now_ms,
)
from tests.pipeline.truth.wire_clients import Asker, Offsets

WITHIN_S = 30.0
STABLE = "Stable"
VALUE = b"x" * 1000
"""The value of each record. It is large, so that a test sees in the transferred bytes whether a job
reads the records of a topic."""


def produce(told: Told, bootstrap: str, topic: str, timestamps: Mapping[int, list[list[int]]],
            ) -> None:  # fmt: skip
    """Produces records with the given timestamps, by partition. Each inner list becomes one
    batch."""
    sender = LibProducer({"bootstrap.servers": bootstrap, "linger.ms": 200})
    failed: list[object] = []
    before_ms = 0

    def delivered(error: Any, message: Any) -> None:
        if error:
            failed.append(error)
            return
        place = topic, message.partition(), message.offset()
        told.records.append(Record(*place, message.timestamp()[1], before_ms, now_ms()))

    for partition, batches in timestamps.items():
        for batch in batches:
            before_ms = now_ms()
            for at_ms in batch:
                sender.produce(
                    topic, VALUE, partition=partition, timestamp=at_ms, on_delivery=delivered
                )
            assert sender.flush(WITHIN_S) == 0
    assert not failed, failed


class Exactly:
    """A transactional producer of confluent-kafka that commits offsets of a consumer."""

    def __init__(self, told: Told, bootstrap: str, name: str) -> None:
        self.told, self.name = told, name
        self.asker = Asker(told, int(bootstrap.rpartition(":")[2]))
        self.producer = LibProducer({"bootstrap.servers": bootstrap, "transactional.id": name})
        self.producer.init_transactions(WITHIN_S)

    def transact(
        self, group: str, consumer: Any, offsets: Offsets, *, commit: bool, by: str | None = None,
        out: str | None = None,
    ) -> None:  # fmt: skip
        """Writes ``offsets`` in one transaction, and commits or aborts it. Also produces a record
        to the topic ``out`` if it is given."""
        made = Transaction(number=1 + len(self.told.of(Transaction)))
        commits = [
            Commit(group=group, topic=topic, partition=partition, offset=offset,
                   transaction=made.number, by=by)
            for (topic, partition), offset in offsets.items()
        ]  # fmt: skip
        self.producer.begin_transaction()
        if out is not None:
            self.producer.produce(out, b"y", partition=0)
        with self.told.span(*commits):
            self.producer.send_offsets_to_transaction(
                [TopicPartition(t, p, offset) for (t, p), offset in offsets.items()],
                consumer.consumer_group_metadata(), WITHIN_S,
            )  # fmt: skip
        made.outcome = COMMITTED if commit else ABORTED
        with self.told.span(made):
            if commit:
                self.producer.commit_transaction(WITHIN_S)
            else:
                self.producer.abort_transaction(WITHIN_S)
            self.asker.until_marked(self.name)


def by_itself(bootstrap: str, group: str) -> Any:
    """Returns a consumer that has the group id ``group``, but has not joined the group. A
    transaction can use the group metadata of this consumer."""
    made = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    made.assign([TopicPartition("orders", 0, 0)])
    return made


class Members:
    """confluent-kafka consumers of one group. The thread of the scenario polls them one after
    another."""

    def __init__(self, told: Told, bootstrap: str, group: str, topics: list[str]) -> None:
        self.told, self.bootstrap, self.group, self.topics = told, bootstrap, group, topics
        self.consumers: dict[str, Any] = {}
        self.asker = Asker(told, int(bootstrap.rpartition(":")[2]))

    def start(self, name: str, protocol: str = "consumer", instance: str | None = None) -> None:
        """Starts a member. ``protocol`` is the value of the client setting group.protocol."""
        options: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap, "group.id": self.group, "client.id": name,
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }  # fmt: skip
        if protocol == "classic":
            options |= {
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 100, "session.timeout.ms": 30000,
            }  # fmt: skip
        if instance is not None:
            options["group.instance.id"] = instance
        self.consumers[name] = Consumer(options)
        self.consumers[name].subscribe(self.topics)

    def pump(self, what: str, condition: Callable[[], Any]) -> None:

        def polled() -> Any:
            for consumer in self.consumers.values():
                message = consumer.poll(0.02)
                if message is not None and message.error():
                    raise KafkaException(message.error())
            return condition()

        waiting.until(what, polled, WITHIN_S, tolerate=())

    def settle(self, *names: str, meanwhile: Callable[[], object] = bool) -> Generation:
        """Waits until the broker describes exactly the members ``names``, all in one epoch. Records
        this generation.

        ``meanwhile`` is called repeatedly during the wait, so that members in other client
        libraries continue too.
        """
        made = Generation(group=self.group, kind="consumer")

        def settled() -> bool:
            meanwhile()
            return self._told(made, sorted(names))

        with self.told.span(made):
            self.pump(f"{self.group} has {names}", settled)
        return made

    def _told(self, made: Generation, names: list[str]) -> bool:
        asked = self.asker.ask("ConsumerGroupDescribe", 1, group_ids=[self.group])
        found = asked["groups"][0]
        members = found["members"]
        if found["error_code"] or sorted(m["client_id"] for m in members) != names:
            return False
        epoch = found["group_epoch"]
        ready = found["group_state"] == (STABLE if names else "Empty")
        if not ready or any(m["member_epoch"] != epoch for m in members):
            return False
        made.number, made.members = epoch, [_person(member) for member in members]
        return all(
            sorted((p.topic, p.partition) for p in self.consumers[m.client_id].assignment())
            == sorted((topic, p) for topic, ps in m.held.items() for p in ps)
            for m in made.members
            if m.client_id in self.consumers
        )

    def commit(self, name: str, offsets: Offsets) -> None:
        commits = [
            Commit(group=self.group, topic=topic, partition=partition, offset=offset, by=name)
            for (topic, partition), offset in offsets.items()
        ]
        with self.told.span(*commits):
            done = self.consumers[name].commit(
                offsets=[TopicPartition(t, p, offset) for (t, p), offset in offsets.items()],
                asynchronous=False,
            )
            assert not any(each.error for each in done), done

    def leave(self, name: str) -> None:
        self.consumers.pop(name).close()


def _person(member: Mapping[str, Any]) -> Person:
    held = {
        each["topic_name"]: sorted(each["partitions"])
        for each in member["assignment"]["topic_partitions"]
    }
    return Person(member["member_id"], member["client_id"], member["instance_id"], held)


def kafka_python_commits(told: Told, bootstrap: str, group: str, offsets: Offsets) -> None:
    """Commits offsets with a kafka-python consumer that uses manual partition assignment."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
        client_id="by-hand",
    )  # fmt: skip
    try:
        consumer.assign([PyPartition(topic, partition) for topic, partition in offsets])
        commits = [
            Commit(group=group, topic=topic, partition=partition, offset=offset, metadata="py")
            for (topic, partition), offset in offsets.items()
        ]
        with told.span(*commits):
            consumer.commit(
                {
                    PyPartition(topic, partition): PyOffset(offset, "py", -1)
                    for (topic, partition), offset in offsets.items()
                }
            )
    finally:
        consumer.close(autocommit=False)


def aiokafka_commits(told: Told, bootstrap: str, group: str, offsets: Offsets) -> None:
    """Commits offsets with an aiokafka consumer that uses manual partition assignment."""

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([AioPartition(topic, partition) for topic, partition in offsets])
            commits = [
                Commit(group=group, topic=topic, partition=partition, offset=offset)
                for (topic, partition), offset in offsets.items()
            ]
            with told.span(*commits):
                await consumer.commit(
                    {AioPartition(topic, p): offset for (topic, p), offset in offsets.items()}
                )
        finally:
            await consumer.stop()

    asyncio.run(run())


def reset_by_tool(told: Told, bootstrap: str, group: str, topic: str, partition: int,
                  offset: int) -> None:  # fmt: skip
    """Runs Apache's kafka-consumer-groups, which resets one offset of an empty group."""
    with told.span(Commit(group=group, topic=topic, partition=partition, offset=offset)):
        done = java.run(
            java.KAFKA_NEW, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", bootstrap, "--group", group,
            "--topic", f"{topic}:{partition}", "--reset-offsets", "--to-offset", str(offset),
            "--execute",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stdout, done.stdout


def lag_by_tool(bootstrap: str) -> dict[tuple[str, str, int], int]:
    """Returns the column LAG of Apache's kafka-consumer-groups, by group, topic and partition."""
    done = java.run(
        java.KAFKA_NEW, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", bootstrap, "--all-groups", "--describe",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) > 5 and words[2].isdigit() and words[5].lstrip("-").isdigit():
            found[words[0], words[1], int(words[2])] = int(words[5])
    return found
