"""Producers of the topics that share groups read, with and without transactions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import NONE
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.share.world import ShareWorld

BATCH_RECORDS_MAX = 40
TRANSACTION_TIMEOUT_MS = 8_000


class Producer(Client):
    """Produces batches without transactions, and never retries a batch."""

    def __init__(
        self, world: ShareWorld, name: str, host: str, chance: Random, places: list[tuple[str, int]]
    ) -> None:
        super().__init__(world, name, host, chance)
        self.places = places
        self._made = 0

    def act(self) -> None:
        if self.calm:
            self.think_after(1 * S)
            return
        if self.chance.random() < 0.01:
            self.drop_connection()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
            return
        count = self.chance.choice((1, 1, 3, 10, BATCH_RECORDS_MAX))
        self.produce(*self.chance.choice(self.places), count)

    def produce(
        self,
        topic: str,
        index: int,
        count: int,
        transactional_id: str | None = None,
        sequence: tuple[int, int, int] = (-1, -1, -1),
    ) -> None:
        """Produces ``count`` records. ``sequence`` consists of producer id, epoch and base
        sequence."""
        self._made += count
        values = [b"%b %d" % (self.name.encode(), self._made - i) for i in range(count)]
        batch = encode_batch(
            [Record(i, 1_000, None, value) for i, value in enumerate(values)],
            base_offset=0,
            compression=self.chance.choice((0, 0, 1, 4)),
            producer_id=sequence[0],
            producer_epoch=sequence[1],
            base_sequence=sequence[2],
            is_transactional=transactional_id is not None,
        )
        value = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": index, "records": batch}]}],
        }
        self.send(WireRequest("Produce", 9, value))

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.think_after(self.chance.choice((5, 100, 400, 1_500)) * MS)


class TransactionalProducer(Producer):
    """Makes transactions one after another, and commits or aborts each.

    After an error it starts again with a new epoch, which aborts its open transaction.
    """

    def __init__(
        self, world: ShareWorld, name: str, host: str, chance: Random, places: list[tuple[str, int]]
    ) -> None:
        super().__init__(world, name, host, chance, places)
        self._producer = (-1, -1)
        self._sequences: dict[tuple[str, int], int] = {}
        self._steps: list[Callable[[], None]] = []

    def lost(self) -> None:
        self._begin_again()

    def _begin_again(self) -> None:
        self._producer = (-1, -1)
        self._steps = []

    def act(self) -> None:
        if not self.calm and self.chance.random() < 0.01:
            self.drop_connection()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
        elif self._producer[0] < 0:
            value = {
                "transactional_id": self.name,
                "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            }
            self.send(WireRequest("InitProducerId", 1, value))
        elif self._steps:
            self._steps.pop(0)()
        elif self.calm:
            self.think_after(1 * S)
        else:
            self._plan()

    def _plan(self) -> None:
        place = self.chance.choice(self.places)
        commits = self.chance.random() < 0.5
        self._steps = [
            lambda: self._add(place),
            *[lambda: self._produce(place) for _ in range(self.chance.randint(1, 3))],
            lambda: self._end(commits),
        ]
        self._steps.pop(0)()

    def _identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self._producer[0],
            "producer_epoch": self._producer[1],
        }

    def _add(self, place: tuple[str, int]) -> None:
        identity = {f"v3_and_below_{name}": value for name, value in self._identity().items()}
        topics = [{"name": place[0], "partitions": [place[1]]}]
        value = {**identity, "v3_and_below_topics": topics}
        self.send(WireRequest("AddPartitionsToTxn", 3, value))

    def _produce(self, place: tuple[str, int]) -> None:
        count = self.chance.choice((1, 3, 10))
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + count
        self.produce(*place, count, self.name, (*self._producer, sequence))

    def _end(self, commits: bool) -> None:
        self.world.happened["committed" if commits else "aborted"] += 1
        self.send(WireRequest("EndTxn", 3, {**self._identity(), "committed": commits}))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "InitProducerId":
            if answer["error_code"] == NONE:
                self._producer = answer["producer_id"], answer["producer_epoch"]
                self._sequences = {}
        elif _error_of(sent.request.name, answer) != NONE:
            self._begin_again()
        self.think_after(self.chance.choice((1, 20, 200, 1_000)) * MS)


def _error_of(api: str, answer: dict[str, Any]) -> int:
    if api == "EndTxn":
        return int(answer["error_code"])
    if api == "Produce":
        return int(answer["responses"][0]["partition_responses"][0]["error_code"])
    [topic] = answer["results_by_topic_v3_and_below"]
    return int(topic["results_by_partition"][0]["partition_error_code"])
