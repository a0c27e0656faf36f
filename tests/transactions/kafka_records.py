"""Records that Apache Kafka 4.3.1 writes to ``__transaction_state`` for a list of requests.

tests/interop/test_transaction_records_as_kafka.py sends `STEPS` to a real Kafka. `core_records`
sends `STEPS` to the core of Muster, which uses the producer ids and times of Kafka's records. Both
must write records with the same bytes. The file `GOLDEN` contains Kafka's records for tests that
run without Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from protocol.errors import CONCURRENT_TRANSACTIONS
from protocol.now import Now
from transactions.calls import (
    TV1,
    TV2,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
)
from transactions.config import TransactionConfig
from transactions.outcome import EndReply, InitReply, SendMarkers
from transactions.producer_ids import ProducerIds
from transactions.record_codec import decode_value, encode_key, encode_value
from transactions.shard import TransactionShard

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "transaction_records.jsonl"
WIDE = {"wide": 200, "t": 30, "metrics": 60, "orders.v2": 60}
MANY = {f"topic-{number}": 3 for number in range(30)}
TOPICS = {**WIDE, **MANY}

StoredRecord = tuple[bytes, bytes | None]
"""Key and value of a record."""


@dataclass
class Step:
    """A request of the producer that owns a transactional id, or of a new producer."""

    verb: str
    transactional_id: str
    version: int
    partitions: dict[str, list[int]] = field(default_factory=dict)
    committed: bool = True
    goes_on: bool = False
    """True if InitProducerId contains the current producer id and epoch of the producer
    (KIP-360)."""
    timeout_ms: int = 60_000


def init(name: str, version: int = 5, *, goes_on: bool = False, timeout_ms: int = 60_000) -> Step:
    return Step("init", name, version, goes_on=goes_on, timeout_ms=timeout_ms)


def add(name: str, version: int, **partitions: list[int]) -> Step:
    return Step("add", name, version, partitions)


def end(name: str, version: int, *, committed: bool) -> Step:
    return Step("end", name, version, committed=committed)


def _one_by_one() -> list[Step]:
    """Returns requests that each add one partition to the transaction. The requests use three
    topics in turn, so that the record of the transaction gets many different sizes."""
    topics = ("wide", "metrics", "orders.v2")
    return [Step("add", "wide", 3, {topic: [p]}) for p in range(36) for topic in topics]


STEPS = [
    # Both transaction versions, committed and aborted, repeatedly.
    init("tv1", 4),
    add("tv1", 3, t=[0]),
    add("tv1", 3, t=[0, 1, 2]),
    add("tv1", 3, t=[2]),
    end("tv1", 4, committed=True),
    end("tv1", 4, committed=True),
    add("tv1", 3, t=[5, 3], wide=[1, 100]),
    end("tv1", 3, committed=False),
    init("tv1", 4, goes_on=True),
    init("tv1", 2),
    init("tv2"),
    add("tv2", 4, t=[0]),
    end("tv2", 5, committed=True),
    end("tv2", 5, committed=False),
    add("tv2", 4, t=list(range(30))),
    add("tv2", 4, wide=list(range(200))),
    end("tv2", 5, committed=False),
    init("tv2", goes_on=True, timeout_ms=30_000),
    end("tv2", 5, committed=False),
    # An open transaction is fenced.
    add("tv2", 4, t=[7]),
    init("tv2"),
    # Many partitions in one request and one by one, in many topics.
    init("wide"),
    *_one_by_one(),
    end("wide", 5, committed=True),
    init("many"),
    Step("add", "many", 4, {topic: [2, 0, 1] for topic in MANY}),
    Step("add", "many", 4, {"wide": [150, 3, 77], "t": [9]}),
    end("many", 5, committed=True),
    *[Step("add", "many", 3, {topic: [1]}) for topic in reversed(MANY)],
    end("many", 4, committed=True),
    init("grüße 🙂"),
    add("grüße 🙂", 4, t=[1]),
    end("grüße 🙂", 5, committed=True),
]
"""The requests that are sent to Kafka and to Muster's core, in order. Each request is repeated
until its error is no longer CONCURRENT_TRANSACTIONS."""


def read_golden() -> list[StoredRecord]:
    lines = map(json.loads, GOLDEN.read_text().splitlines())
    return [(bytes.fromhex(key), value and bytes.fromhex(value)) for key, value in lines]


def write_golden(records: Sequence[StoredRecord]) -> None:
    lines = [json.dumps([key.hex(), value and value.hex()]) for key, value in records]
    GOLDEN.write_text("".join(f"{line}\n" for line in lines))


def core_records(kafka: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Runs `STEPS` on the core with the times and producer ids of Kafka's records. Returns the
    core's records, sorted by transactional id.

    The sort is needed because Kafka completes a transaction while other transactions continue, so
    the order of records of different transactional ids varies.
    """
    values = [(key, decode_value(value)[0]) for key, value in kafka if value is not None]
    core = _Core(list(dict.fromkeys(value.producer_id for _, value in values)))
    for step in STEPS:
        key = encode_key(step.transactional_id)
        core.say(step, [value.last_update_ms for each, value in values if each == key])
    return by_id(core.records)


def by_id(records: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Sorts records by transactional id. Records of the same id keep their order."""
    return sorted(records, key=itemgetter(0))


_Call = InitProducerId | AddPartitions | EndTransaction | MarkersWritten


class _Core:
    """Executes steps with the core of Muster, as the runtime does. Reports all requested markers as
    written, although no partition exists."""

    def __init__(self, producer_ids: Sequence[int]) -> None:
        ids = ProducerIds()
        for producer_id in producer_ids:
            ids.add(range(producer_id, producer_id + 1))
        self.shard = TransactionShard(TransactionConfig("markers", ids))
        self.shard.loaded(Now(0, 0))
        self.records: list[StoredRecord] = []
        self._has: dict[str, tuple[int, int]] = {}

    def say(self, step: Step, times_ms: Sequence[int]) -> None:
        producer_id, epoch = self._has.get(step.transactional_id, (-1, -1))
        rules = TV2 if step.version >= (4 if step.verb == "add" else 5) else TV1
        name = step.transactional_id
        call: _Call
        match step.verb:
            case "init":
                given = (producer_id, epoch) if step.goes_on else (-1, -1)
                call = InitProducerId("init", name, step.timeout_ms, *given)
            case "add":
                partitions = list(step.partitions.items())
                call = AddPartitions("add", name, producer_id, epoch, partitions, rules)
            case _:
                call = EndTransaction("end", name, producer_id, epoch, step.committed, rules)
        while self._handle(call, times_ms) == CONCURRENT_TRANSACTIONS:
            pass

    def _handle(self, call: _Call, times_ms: Sequence[int]) -> int:
        key = encode_key(call.transactional_id)
        at = sum(each == key for each, _ in self.records)
        now_ms = times_ms[at] if at < len(times_ms) else 0
        outcome = self.shard.handle(call, Now(0, now_ms))
        for run in outcome.records:
            self.shard.replay(run, at)
            assert run.value is not None
            self.records.append((key, encode_value(run.value, run.version)))
        for _, reply in outcome.replies:
            if isinstance(reply, SendMarkers):
                written = (reply.transactional_id, reply.producer_id, reply.producer_epoch)
                self._handle(MarkersWritten("written", *written), times_ms)
            elif isinstance(reply, InitReply | EndReply) and reply.producer_id >= 0:
                assert not isinstance(call, MarkersWritten)
                has = (reply.producer_id, reply.producer_epoch)
                self._has[call.transactional_id] = has
        [first, *_] = [reply for _, reply in outcome.replies]
        if isinstance(first, int):
            return first
        assert isinstance(first, InitReply | EndReply)
        return first.error_code
