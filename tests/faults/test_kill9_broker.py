"""Kill -9 of the broker during concurrent appends, segment rolls, deletions and cleanings loses no
acknowledged record.

One connection pipelines Produce and DeleteRecords for topics of each cleanup policy and codec, with
small segments. Retention and the cleaner run all the time. The broker is killed at a random moment
and restarted on the same directory.

Then a client reads all topics. An acknowledged record must be at its offset, or its key must have a
later value. An unacknowledged batch must be complete or absent. Records may be missing only after a
deletion.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests import waiting
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce_request
from tests.brokers import KIND, Broker
from tests.wire import Wire

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(KIND != "muster", reason="Kafka's smallest segment is 1 MiB"),
    pytest.mark.proves("faults 9"),
]

ROUNDS = int(os.environ.get("MUSTER_BROKER_KILL_ROUNDS", "6"))
IN_FLIGHT = 8
EARLIEST = -2
KEYS = 7
CLEANS_WITHIN_S = 10.0
KEPT_BYTES = 12_000
RECORD_BYTES_MAX = 200
"""The maximum size of a record in the log in bytes, including the batch header."""
SETTINGS = {
    "log.retention.ms": "-1",
    "log.index.interval.bytes": "300",
    "log.retention.check.interval.ms": "20",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}
_SMALL = {"segment.bytes": "3000", "file.delete.delay.ms": "0"}
TOPICS = {
    "plain": _SMALL,
    "bounded": {**_SMALL, "retention.bytes": str(KEPT_BYTES)},
    "deleted": {**_SMALL, "compression.type": "lz4"},
    "compacted": {**_SMALL, "cleanup.policy": "compact"},
    "rewritten": {**_SMALL, "cleanup.policy": "compact", "compression.type": "zstd"},
    "both": {
        **_SMALL, "cleanup.policy": "compact,delete", "retention.bytes": str(KEPT_BYTES),
    },
}  # fmt: skip
CODECS = (0, 0, 1, 2, 3, 4)


def record(topic: str, number: int) -> Record:
    """Returns record ``number`` of a topic. Its content contains the number."""
    value = f"{topic} {number} ".encode() * (number % 4 + 1)
    return Record(0, 1_700_000_000_000 + number, b"key-%d" % (number % KEYS), value)


@dataclass
class Sent:
    """The record numbers of a batch that was sent and has no response yet."""

    topic: str
    numbers: range


@dataclass
class History:
    """The records that were sent to one topic, also before kills of the broker."""

    numbers: dict[int, int] = field(default_factory=dict)
    """The number of the record at each offset."""
    end: int = 0
    """The log end offset, as far as the responses show it."""
    unacknowledged: deque[range] = field(default_factory=deque)
    """The sent batches without a response, in order."""
    next_number: int = 0
    start_least: int = 0
    """The lowest log start offset that the log can have: the offset in the last acknowledged
    DeleteRecords."""
    start_most: int = 0
    """The highest log start offset that the log can have: the offset in the last DeleteRecords that
    was sent, even if it was not acknowledged."""

    def place(self, numbers: range, offset: int) -> None:
        """Notes that the records with the numbers ``numbers`` are in the log, in this order, from
        ``offset`` on."""
        assert offset == self.end
        self.numbers.update(enumerate(numbers, offset))
        self.end += len(numbers)


class Campaign:
    """A broker that is killed repeatedly, and the requests that it acknowledged."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self.histories = {topic: History() for topic in TOPICS}
        self.lives = 0
        self.seen: Counter[str] = Counter()
        """The number of times that each kind of log line or response has occurred, in all lives of
        the broker together."""
        with Wire(broker.port) as wire:
            for topic, configs in TOPICS.items():
                assert create_topic(wire, topic, configs=configs)["error_code"] == 0

    # -- one run of the broker

    def live_and_die(self) -> None:
        """Sends requests until the broker is killed at a random moment."""
        self.lives += 1
        patience_s = CLEANS_WITHIN_S if self.lives % 2 else 0.0
        killing = threading.Thread(
            target=self.kill, args=(patience_s, self.chance.uniform(0.02, 0.5))
        )
        with Wire(self.broker.port) as wire:
            killing.start()
            waiting_for: deque[Sent | str] = deque()
            try:
                while True:
                    while len(waiting_for) < IN_FLIGHT:
                        waiting_for.append(self.send(wire))
                    _, answer = wire.receive()
                    self.note(waiting_for.popleft(), answer)
            except OSError:
                pass
            finally:
                killing.join()
        for sent in waiting_for:
            if isinstance(sent, Sent):
                self.histories[sent.topic].unacknowledged.append(sent.numbers)
        for kind in ("log cleaned", "segments deleted", "can't be"):
            self.seen[kind] += self.count(kind)
        assert not self.seen["can't be"], self.broker.tail()

    def kill(self, patience_s: float, after_s: float) -> None:
        """Waits until a log is cleaned, but at most ``patience_s`` seconds. Then waits ``after_s``
        seconds, and kills the broker."""
        with suppress(AssertionError):
            waiting.until("a log is cleaned", lambda: self.count("log cleaned"), patience_s)
        time.sleep(after_s)  # a random moment
        self.broker.kill()

    def count(self, kind: str) -> int:
        """Returns the number of log lines of one kind since the last start of the broker."""
        return sum(kind in line for line in self.broker.lines())

    def send(self, wire: Wire) -> Sent | str:
        topic = self.chance.choice(list(TOPICS))
        history = self.histories[topic]
        if topic == "deleted" and self.chance.random() < 0.1:
            offset = self.chance.randint(history.start_most, max(history.end, history.start_most))
            history.start_most = offset
            asked = {"partition_index": 0, "offset": offset}
            wire.send(
                "DeleteRecords", 1,
                {"topics": [{"name": topic, "partitions": [asked]}], "timeout_ms": 10_000},
            )  # fmt: skip
            return topic
        first = history.next_number
        numbers = range(first, first + self.chance.randint(1, 6))
        history.next_number = numbers.stop
        made = [record(topic, n)._replace(offset=i) for i, n in enumerate(numbers)]
        batch = encode_batch(made, compression=self.chance.choice(CODECS))
        wire.send("Produce", 9, produce_request(topic, batch, acks=self.chance.choice((1, -1))))
        return Sent(topic, numbers)

    def note(self, sent: Sent | str, answer: dict[str, object]) -> None:
        text = repr(answer)
        if isinstance(sent, Sent):
            found = re.search(r"'error_code': (\d+), 'base_offset': (\d+)", text)
            assert found, text
            assert found[1] == "0", text
            self.histories[sent.topic].place(sent.numbers, int(found[2]))
            self.seen["appends"] += 1
        else:
            found = re.search(r"'low_watermark': (\d+), 'error_code': 0", text)
            assert found, text
            history = self.histories[sent]
            history.start_least = max(history.start_least, int(found[1]))
            self.seen["deletions"] += 1

    # -- comparison after a restart

    def read_back(self) -> None:
        self.broker.log.clear()
        self.broker.start()
        with Wire(self.broker.port) as wire:
            for topic in TOPICS:
                self.check(wire, topic)

    def check(self, wire: Wire, topic: str) -> None:
        history = self.histories[topic]
        start, end, found = self.read(wire, topic)
        assert end >= history.end, f"{topic} ends at {end}: acknowledged records are missing"
        while history.unacknowledged:  # in order; each is complete or absent
            numbers = history.unacknowledged.popleft()
            if end > history.end:
                history.place(numbers, history.end)
                self.seen["unacknowledged, but there"] += 1
        assert end == history.end, f"{topic}: a batch is there in part"
        due = {offset: n for offset, n in history.numbers.items() if offset >= start}
        for offset, got in found.items():
            expected = record(topic, due[offset])._replace(offset=offset)
            assert got == expected, f"{topic}: another record at {offset}"
        if "compact" in TOPICS[topic].get("cleanup.policy", ""):
            last = {number % KEYS: offset for offset, number in sorted(due.items())}
            assert set(last.values()) <= found.keys(), f"{topic}: a key lost its last value"
        else:
            assert found.keys() == due.keys(), f"{topic}: not whole"
        self.check_start(topic, history, start, end)

    def check_start(self, topic: str, history: History, start: int, end: int) -> None:
        if topic == "deleted":
            assert history.start_least <= start <= history.start_most
        elif "retention.bytes" in TOPICS[topic]:
            assert start == 0 or (end - start) * RECORD_BYTES_MAX >= KEPT_BYTES
        else:
            assert start == 0, f"{topic}: nobody deleted its first records"
        history.start_least = max(history.start_least, start if topic == "deleted" else 0)

    def read(self, wire: Wire, topic: str) -> tuple[int, int, dict[int, Record]]:
        """Returns the log start offset, the log end offset, and the records by offset."""
        while True:
            start = offset = list_offset(wire, topic, EARLIEST)["offset"]
            found: dict[int, Record] = {}
            while True:
                answer = fetch(wire, topic, offset=offset)
                if answer["error_code"] == 1:  # retention has deleted the offset
                    break
                assert answer["error_code"] == 0, answer
                data = answer["records"] or b""
                for header, _ in iter_stored(data, partial=True):
                    found.update((r.offset, r) for r in records_of(data, header))
                    offset = header.last_offset + 1
                start = max(start, answer["log_start_offset"])
                if offset >= answer["high_watermark"]:
                    kept = {at: r for at, r in found.items() if at >= start}
                    return start, answer["high_watermark"], kept


@pytest.fixture
def campaign(brokers: Callable[..., Broker]) -> Campaign:
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"MUSTER_SEED={seed}")
    return Campaign(brokers(SETTINGS), seed)


def run(campaign: Campaign, rounds: int) -> None:
    for _ in range(rounds):
        campaign.live_and_die()
        campaign.read_back()
    print(dict(campaign.seen))
    for kind in ("appends", "deletions", "log cleaned", "segments deleted"):
        assert campaign.seen[kind], f"no life came to {kind}"


@pytest.mark.timeout(300)
def test_broker_kills_lose_no_acknowledged_record(campaign: Campaign) -> None:
    run(campaign, ROUNDS)


@pytest.mark.smoke
@pytest.mark.planted("kill -9 of the broker")
def test_check_after_broker_kills_detects_a_deleted_segment(campaign: Campaign) -> None:
    while not campaign.histories["plain"].end > 100:
        campaign.live_and_die()
        campaign.read_back()
    campaign.broker.kill()
    last_acknowledged = campaign.histories["plain"].end - 1
    folder = campaign.broker.partition_folder("plain", 0)
    bases = [int(each.stem) for each in folder.glob("*.log")]
    lost = max(base for base in bases if base <= last_acknowledged)
    for file in folder.glob("[0-9]*.*"):  # an index file without its segment would be reported
        if int(file.stem) >= lost:  # a newer segment may be empty or unacknowledged
            file.unlink()
    with pytest.raises(AssertionError, match="acknowledged records are missing"):
        campaign.read_back()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_long_campaign_of_broker_kills_loses_no_acknowledged_record(campaign: Campaign) -> None:
    run(campaign, 34 * ROUNDS)
