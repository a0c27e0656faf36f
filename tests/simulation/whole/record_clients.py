"""Producers and consumers of ordinary topics, and the guarantees that they check.

Records of topic ``ledger`` are fsynced before they are acknowledged, and records of topic
``stream`` are not. An idempotent producer repeats a batch until it is acknowledged. The log must
then contain its records once. A consumer reads from the start of the log. Offsets must be
contiguous, and each record that was read must be readable again.

`Records` stores the records that the broker has acknowledged or returned to a client. It is
compared with the bytes of the log after each start of the broker and at the end.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
)
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent, WireRequest
from tests.simulation.whole.disk_log import LogOnDisk, batches_of

if TYPE_CHECKING:
    from tests.simulation.whole.world import World

LEDGER, STREAM = "ledger", "stream"
RECORD_PARTITIONS = 2
_BEGIN_ANEW = (OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID)


class Records:
    """The known records of one partition. A record is known if its produce was acknowledged, or if
    a consumer has read it."""

    def __init__(self, world: World, topic: str, partition: int) -> None:
        self.world = world
        self.topic = topic
        self.partition = partition
        self.flushes = topic == LEDGER
        self.known: dict[int, bytes] = {}
        """Values of known records, by offset."""
        self.once: dict[bytes, int] = {}
        """The offset of each value of an idempotent producer. Each value must occur only once in
        the log."""
        self._power_failures: list[tuple[int, int]] = []
        """The time of each power failure, and the fsynced log end offset at this time."""
        self._end = self._on_disk()

    def _on_disk(self) -> LogOnDisk:
        return LogOnDisk(self.world.files, self.topic, self.partition, synced=self.flushes)

    def leaves(self, end: int) -> None:
        """Called when a response is sent that depends on the records below ``end``. Asserts that
        all these records would survive a crash."""
        stable = self._end.end()
        assert end <= stable, (
            f"{self.topic}-{self.partition}: an answer says what is below {end},"
            f" and what is stable ends at {stable}"
        )

    def heard(self, offset: int, value: bytes, asked_ns: int) -> None:
        """Notes that a response contained the record ``value`` at ``offset``. The client sent the
        request at ``asked_ns``.

        Ignores the record if three conditions are met: the topic does not flush, the power failed
        after ``asked_ns``, and the record was not fsynced before. The broker may then have lost the
        record after it sent the response.
        """
        if not self.flushes:
            for failed_ns, end in self._power_failures:
                if asked_ns <= failed_ns and offset >= end:
                    return
        self.learn(offset, value)

    def learn(self, offset: int, value: bytes) -> None:
        """Notes that the record at ``offset`` has ``value``. This record must never change."""
        known = self.known.setdefault(offset, value)
        assert known == value, f"{self.topic}-{self.partition} {offset}: {known!r}, then {value!r}"
        if value.startswith(b"once "):
            first = self.once.setdefault(value, offset)
            assert first == offset, f"{value!r} is at {first} and at {offset}"

    def power_fails(self) -> None:
        """Called before a power failure. Forgets the unflushed records, because the power failure
        will remove them."""
        end = LogOnDisk(self.world.files, self.topic, self.partition, synced=True).end()
        self._power_failures.append((self.world.agenda.now_ns, end))
        self.known = {offset: value for offset, value in self.known.items() if offset < end}
        self.once = {value: offset for value, offset in self.once.items() if offset < end}

    def check(self) -> None:
        self._end = self._on_disk()
        found = {
            record.offset: record.value
            for _, _, data in batches_of(self.world.files, self.topic, self.partition, synced=False)
            for header, _ in iter_stored(data)
            for record in records_of(data, header)
        }
        for offset, value in self.known.items():
            assert found.get(offset) == value, f"{value!r} at {offset} is {found.get(offset)!r}"
        for offset, found_value in found.items():
            assert found_value is not None
            self.learn(offset, found_value)


class Producer(Client):
    """A client that produces to one partition. If ``once`` is True, the producer is idempotent.
    Otherwise it uses random values of acks."""

    def __init__(
        self, world: World, name: str, host: str, chance: Random, records: Records, once: bool
    ) -> None:
        super().__init__(world, name, host, chance)
        self.records = records
        self.once = once
        self.may_be_closed = not once  # after a failed Produce with acks=0
        self._producer = (-1, -1)
        self._sequence = 0
        self._values: list[bytes] = []
        """The values of the batch in flight, which are kept for a retry."""
        self._made = 0

    def act(self) -> None:
        if self.once and self._producer[0] < 0:
            value = {"transactional_id": None, "transaction_timeout_ms": 60_000}
            self.send(WireRequest("InitProducerId", self.chance.randint(0, 4), value))
            return
        if not self._values:
            if not self.calm and self.chance.random() < 0.01:
                self.drop_connection()
                self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
                return
            kind = b"once" if self.once else b"some"
            for _ in range(self.chance.choice((1, 1, 3, 20))):
                self._made += 1
                self._values.append(b"%b %b %d" % (kind, self.name.encode(), self._made))
        acks = -1 if self.once else self.chance.choice((-1, 1, 0))
        records = [Record(i, 1_000, None, value) for i, value in enumerate(self._values)]
        batch = encode_batch(
            records,
            base_offset=0,
            compression=self.chance.choice((0, 0, 1, 2, 3, 4)),
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequence if self.once else -1,
        )
        partition = {"index": self.records.partition, "records": batch}
        topic = {"name": self.records.topic, "partition_data": [partition]}
        value = {"acks": acks, "timeout_ms": 30_000, "topic_data": [topic]}
        request = WireRequest("Produce", self.chance.randint(3, 9), value)
        self.send(request, list(self._values), expects_answer=acks != 0)
        if not self.once:
            self._values.clear()
        if acks == 0:
            self.think_after(self.chance.choice((10, 500)) * MS)

    def leaves(self, sent: Sent, frame: bytes) -> None:
        if sent.request.name == "Produce":
            answer = _produced(sent.answer_in(frame))
            if answer["error_code"] == NONE:
                self.records.leaves(answer["base_offset"] + len(sent.about))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "InitProducerId":
            if answer["error_code"] == NONE:
                self._producer, self._sequence = (
                    (answer["producer_id"], answer["producer_epoch"]),
                    0,
                )
            self.think_after(100 * MS)
            return
        produced = _produced(answer)
        code = produced["error_code"]
        if code == NONE:
            for i, value in enumerate(sent.about):
                self.records.heard(produced["base_offset"] + i, value, sent.at_ns)
            self.world.happened["records acknowledged"] += len(sent.about)
            self._sequence += len(sent.about)
            self._values.clear()
        elif code in _BEGIN_ANEW:
            # Its earlier records were lost in a power failure, or had been written already.
            self._producer = (-1, -1)
            self._values.clear()
        self.think_after(self.chance.choice((1, 100, 800, 2_000)) * MS)


def _produced(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return found


class Consumer(Client):
    """Reads a partition from its start, repeatedly. Sometimes it reads slowly."""

    def __init__(
        self, world: World, name: str, host: str, chance: Random, records: Records
    ) -> None:
        super().__init__(world, name, host, chance)
        self.records = records
        self._position = 0

    def act(self) -> None:
        dice = 1.0 if self.calm else self.chance.random()
        if dice < 0.01:
            self.drop_connection()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
            return
        if dice < 0.05:
            self._position = 0
        partition = {
            "partition": self.records.partition,
            "fetch_offset": self._position,
            "partition_max_bytes": self.chance.choice((1, 500, 1 << 20)),
        }
        value = {
            "max_wait_ms": self.chance.choice((0, 500, 5_000)),
            "min_bytes": self.chance.choice((1, 1, 2_000)),
            "max_bytes": 1 << 22,
            "isolation_level": self.chance.randint(0, 1),
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.records.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        self.send(WireRequest("Fetch", self.chance.randint(4, 12), value), self._position)
        if dice < 0.1 and self.wire is not None:
            self.world.happened["slow reader"] += 1
            wire = self.wire
            wire.read(False)
            self.world.agenda.after(self.chance.choice((1, 10)) * S, wire.read, True)

    def leaves(self, sent: Sent, frame: bytes) -> None:
        fetched = _fetched(sent.answer_in(frame))
        if fetched is not None and fetched["error_code"] == NONE:
            end = max(fetched["high_watermark"], fetched["last_stable_offset"])
            self.records.leaves(max([end, *(offset + 1 for offset, _ in _records(fetched))]))

    def hear(self, sent: Sent, frame: bytes) -> None:
        fetched = _fetched(sent.answer_in(frame))
        if fetched is not None and fetched["error_code"] == NONE:
            position = sent.about
            for offset, value in _records(fetched):
                if offset >= position:
                    assert offset == position, f"{self.name} misses {position}: next is {offset}"
                    position += 1
                self.records.heard(offset, value, sent.at_ns)
            assert position <= max(fetched["high_watermark"], sent.about)
            self.world.happened["records read"] += position - sent.about
            self._position = position
        elif fetched is not None and fetched["error_code"] == OFFSET_OUT_OF_RANGE:
            assert not self.records.flushes, f"{self.name} was told of {self._position}"
            self._position = 0
        self.think_after(self.chance.choice((1, 100, 1_000)) * MS)


def _fetched(answer: dict[str, Any]) -> dict[str, Any] | None:
    topics = answer["responses"]
    return topics[0]["partitions"][0] if topics else None


def _records(fetched: dict[str, Any]) -> list[tuple[int, bytes]]:
    data = fetched["records"] or b""
    return [
        (record.offset, record.value or b"")
        for header, _ in iter_stored(data, partial=True)
        for record in records_of(data, header)
    ]
