"""Known sequences of transactions for tests of metrics, the web page and the journal. The calls
reach the coordinator without a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.topics.partition import Partition
from tests.broker.edge import Taker, eventually
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen
from tests.broker.transactions import served, told
from tests.wire import batch
from transactions.calls import TV1, AddPartitions, Client, EndTransaction, InitProducerId

APP = Client("billing", "10.0.0.7")
NEWER = Client("billing", "10.0.0.8")


async def ask(seen: Seen, call: Callable[[Taker], Any]) -> Any:
    """Waits until the coordinator is loaded, sends one call and returns the reply."""
    await served(seen.broker)
    return await told(seen.broker, call)


class Producer:
    def __init__(
        self, seen: Seen, name: str, client: Client = APP, timeout_ms: int = 60_000
    ) -> None:
        self.seen = seen
        self.name = name
        self.client = client
        self.timeout_ms = timeout_ms
        self.id = self.epoch = -1
        self._sequences: dict[tuple[Partition, int], int] = {}

    async def init(self) -> int:
        """Sends InitProducerId and returns the error code. Stores the returned producer id and
        epoch."""
        reply = await ask(
            self.seen,
            lambda ticket: InitProducerId(ticket, self.name, self.timeout_ms, -1, -1, self.client),
        )
        self.id, self.epoch = reply.producer_id, reply.producer_epoch
        error: int = reply.error_code
        return error

    async def add(self, topic: str, *partitions: int, group: str = "") -> int:
        whose = self.name, self.id, self.epoch
        error: int = await ask(
            self.seen,
            lambda ticket: AddPartitions(
                ticket, *whose, [(topic, partitions)], TV1, self.client, group
            ),
        )
        return error

    async def write(self, topic: str, partition: int = 0, records: int = 3) -> None:
        assert await self.add(topic, partition) == 0
        await self.hang(topic, partition, records)

    async def hang(self, topic: str, partition: int = 0, records: int = 3) -> None:
        """Appends records to a partition that is not in the transaction, as a late batch could
        before KIP-890."""
        there = partition_of(self.seen.broker, topic, partition)
        sequence = self._sequences.get((there, self.epoch), 0)
        self._sequences[there, self.epoch] = sequence + records
        data = batch(
            *[b"v"] * records,
            timestamp=self.seen.time.wall_ms - records + 1,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        there.append(data, self.seen.time.wall_ms)

    async def end(self, committed: bool = True) -> int:
        """Ends the transaction, waits until its markers are written, and returns the error code."""
        whose = self.name, self.id, self.epoch
        reply = await ask(
            self.seen,
            lambda ticket: EndTransaction(ticket, *whose, committed, TV1, self.client),
        )
        error: int = reply.error_code
        view = self.seen.broker.transactions.view_of(self.name)
        assert view is not None
        await eventually(lambda: self.name not in view.open())
        return error


async def opened(seen: Seen, name: str = "billing-1", topic: str = "orders") -> Producer:
    """Returns a producer whose open transaction has three records."""
    producer = Producer(seen, name)
    assert await producer.init() == 0
    await producer.write(topic)
    return producer
