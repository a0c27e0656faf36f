"""Transactional producers of each client, with the same interface."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from tests import java

PROGRAM = Path(__file__).parent / "programs" / "TransactionalProducers.java"
WITHIN_S = 30
JAVA = ("kafka-clients-0.11.0.3", "kafka-clients-2.8.2", java.KAFKA_NEW)


class ClientError(Exception):
    """An error that a client has raised or reported."""


class Transactional(Protocol):
    """The interface of a producer with a transactional id.

    Each method returns when the operation is complete, or raises ClientError. `init` initializes
    the producer. `offset` commits an offset of a group in the transaction.
    """

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: str) -> None: ...

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


Make = Callable[..., Transactional]
"""A function that creates a producer with a transactional id, and optionally a transaction timeout
in ms."""


@contextmanager
def producers(client: str, bootstrap: str) -> Iterator[Make]:
    """Yields a function that creates producers of ``client``. Closes all producers at the end."""
    made: list[Transactional] = []
    with _source(client, bootstrap) as source:

        def make(transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
            made.append(source(transactional_id, timeout_ms))
            return made[-1]

        try:
            yield make
        finally:
            for each in made:
                each.close()


@contextmanager
def _source(client: str, bootstrap: str) -> Iterator[Make]:
    match client:
        case "confluent":
            yield lambda *of: Confluent(bootstrap, *of)
        case "kafka-python":
            yield lambda *of: KafkaPython(bootstrap, *of)
        case "aiokafka":
            yield lambda *of: Aiokafka(bootstrap, *of)
        case _:
            with JavaProgram(client, bootstrap) as program:
                yield program.producer


class JavaProgram:
    """A process with Java producers of one Kafka version."""

    def __init__(self, version: str, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            java.source(version, PROGRAM, bootstrap),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._made = 0

    def __enter__(self) -> JavaProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills the process with SIGKILL, so that its producers are not closed."""
        self._process.kill()
        self._process.communicate()

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> JavaProducer:
        self._made += 1
        name = f"p{self._made}"
        self.ask(f"{name} new {transactional_id} {timeout_ms}")
        return JavaProducer(self, name)

    def ask(self, line: str) -> str:
        """Sends a line to the process and returns the line with which it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        word, _, rest = self._process.stdout.readline().rstrip("\n").partition(" ")
        if word != "ok":
            raise ClientError(rest or "the program has ended")
        return rest


class JavaProducer:
    """One producer in a `JavaProgram`."""

    def __init__(self, program: JavaProgram, name: str) -> None:
        self._program = program
        self._name = name

    def _ask(self, *words: object) -> str:
        return self._program.ask(" ".join(map(str, (self._name, *words))))

    def init(self) -> None:
        self._ask("init")

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._ask("send", topic, partition, value)

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask("offset", group, topic, partition, offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        """Does nothing. The producer ends with its process."""

    def state(self) -> tuple[int, int]:
        producer_id, epoch = self._ask("state").split()
        return int(producer_id), int(epoch)

    def resume(self, producer_id: int, epoch: int) -> None:
        """Continues a transaction that an earlier producer opened with this producer id and epoch.
        Sends no InitProducerId."""
        self._ask("resume", producer_id, epoch)


class Confluent:
    """A transactional producer of librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )

    def _call(self, what: Callable[..., Any], *arguments: Any) -> None:
        from confluent_kafka import KafkaException

        try:
            what(*arguments)
        except (KafkaException, SystemError) as error:
            # The Python binding raises SystemError when a fatal error occurs in a delivery
            # callback.
            raise ClientError(str(error)) from error

    def init(self) -> None:
        self._call(self._producer.init_transactions, WITHIN_S)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        failed: list[object] = []
        self._call(
            lambda: self._producer.produce(
                topic,
                value.encode(),
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        )
        self._call(self._producer.flush, WITHIN_S)
        if failed:
            raise ClientError(str(failed[0]))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        try:
            self._call(
                self._producer.send_offsets_to_transaction,
                [TopicPartition(topic, partition, offset)],
                consumer.consumer_group_metadata(),
                WITHIN_S,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, WITHIN_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, WITHIN_S)

    def close(self) -> None:
        """Does nothing. The producer is closed when its object is deleted."""


class KafkaPython:
    """A transactional producer of kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def _call(self, what: Callable[..., Any], *arguments: Any) -> Any:
        from kafka.errors import KafkaError

        try:
            return what(*arguments)
        except (KafkaError, AssertionError) as error:
            raise ClientError(repr(error)) from error

    def init(self) -> None:
        self._call(self._producer.init_transactions)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        def sent() -> None:
            self._producer.send(topic, value.encode(), partition=partition).get(WITHIN_S)

        self._call(sent)

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata
        from kafka.structs import TopicPartition as Partition

        offsets = {Partition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._call(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=1)


class Aiokafka:
    """A transactional producer of aiokafka with its own event loop."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        self._loop = asyncio.new_event_loop()

        async def made() -> Any:
            return AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )

        self._producer = self._loop.run_until_complete(made())

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        from aiokafka.errors import KafkaError

        try:
            self._loop.run_until_complete(asyncio.wait_for(work, WITHIN_S))
        except KafkaError as error:
            raise ClientError(repr(error)) from error

    def init(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._run(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from aiokafka.structs import TopicPartition as Partition

        offsets = {Partition(topic, partition): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Exception):  # a fenced producer raises the error again
            self._loop.run_until_complete(asyncio.wait_for(self._producer.stop(), 5))
        self._loop.close()
