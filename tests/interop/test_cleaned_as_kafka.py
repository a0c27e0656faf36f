"""Log cleaning leaves the same segments and batches as Apache Kafka 4.3.1 does for the same log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from protocol.errors import NONE
from protocol.records.batch import encode_batch, iter_batches
from protocol.records.section import Record
from tests import java
from tests.broker.config_calls import SET, alter
from tests.broker.topic_calls import create_topic, list_offset, produce
from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.waiting import until
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
NOW = int(time.time() * 1000) - 60_000
TOPIC = "cleaned"
DIRTY_RATIO = "min.cleanable.dirty.ratio"


class Written(NamedTuple):
    """A batch with one record for each key. A batch with a sequence number also has a producer
    id."""

    keys: tuple[bytes | None, ...]
    sequence: int = -1


FIRST = [
    *[Written((b"a",))] * 3,
    Written((b"b",), 0),
    Written((b"b",), 1),
    Written((b"b", b"c")),
    Written((b"c",)),
    *[Written((b"d",))] * 2,
    Written((None,)),  # the last batch that is cleaned
]
SECOND = [*[Written((b"d",))] * 2, Written((b"e",))]
ACTIVE = Written((b"f",))
"""A batch that starts a new active segment, so that the previous segment can be cleaned."""


class Left(NamedTuple):
    """A segment after a cleaning, with offsets, number of records and producer of each batch."""

    base_offset: int
    batches: list[tuple[int, int, int, int]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Yields Muster and Apache Kafka 4.3.1."""
    folder = tmp_path_factory.mktemp("cleaned")
    settings = {"log.cleaner.backoff.ms": "50"}
    muster, kafka = Broker(folder / "muster", settings), KafkaBroker(folder / "kafka", settings)
    with running(muster, kafka):
        yield muster, kafka


def append(wire: Wire, batches: list[Written]) -> None:
    for written in batches:
        records = [Record(i, NOW, key, b"v") for i, key in enumerate(written.keys)]
        producer = (5, 0) if written.sequence >= 0 else (-1, -1)
        encoded = encode_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=written.sequence,
        )
        assert produce(wire, TOPIC, encoded)["error_code"] == NONE


def left(broker: Broker) -> list[Left]:
    """Waits until the cleaner's checkpoint covers all closed segments. Returns these segments."""
    active = max(broker.partition_folder(TOPIC, 0).glob("*.log"))
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    expected = f"{TOPIC} 0 {int(active.stem)}"
    until("it is cleaned", lambda: expected in checkpoint.read_text().splitlines(), 30, OSError)
    return [
        Left(
            int(file.stem),
            [
                (header.base_offset, header.last_offset, header.record_count, header.producer_id)
                for header, _ in iter_batches(file.read_bytes())
            ],
        )
        for file in sorted(broker.partition_folder(TOPIC, 0).glob("*.log"))[:-1]
    ]


def without_empty_last(first: list[Left], second: list[Left]) -> list[list[Left]]:
    """Returns the segments after two cleanings, as Kafka 4.4.0 would have them. The arguments are
    the segments after the first and after the second cleaning by Kafka 4.3.1 or Muster.

    If a cleaning removes all records of the last batch, 4.4.0 also removes the batch, but 4.3.1
    keeps an empty batch. In 4.4.0, the second cleaning then merges the segment without batches into
    another segment.
    """
    offset = len(FIRST)  # one batch of FIRST has two records
    without = [*first[:-1], first[-1]._replace(batches=[])]
    assert first[-1] == Left(offset, [(offset, offset, 0, -1)])
    return [without, [each for each in second if each != Left(offset, [])]]


def cleaned_twice(wire: Wire, broker: Broker, segment_bytes: str) -> list[list[Left]]:
    """Returns the segments after the first and after the second cleaning. ``segment_bytes`` is the
    name of the topic setting for the segment size."""
    # One batch per segment. No segment is cleaned before all are written; a key may be null.
    settings = {segment_bytes: "100", "cleanup.policy": "delete"}
    assert create_topic(wire, TOPIC, configs=settings)["error_code"] == NONE
    until("it is served", lambda: list_offset(wire, TOPIC, -1)["error_code"] == NONE)
    append(wire, [*FIRST, ACTIVE])
    alter(wire, TOPIC, ("cleanup.policy", SET, "compact"), (DIRTY_RATIO, SET, "0"))
    first = left(broker)
    alter(wire, TOPIC, (DIRTY_RATIO, SET, "1"))
    append(wire, [*SECOND, ACTIVE])
    alter(wire, TOPIC, (DIRTY_RATIO, SET, "0"))
    return [first, left(broker)]


def test_segments_and_empty_batches_after_each_cleaning_equal_those_of_kafka(
    both: tuple[Wire, Wire], pair: tuple[Broker, Broker]
) -> None:
    kafka = cleaned_twice(both[1], pair[1], "internal.segment.bytes")
    muster = cleaned_twice(both[0], pair[0], "segment.bytes")
    assert kafka == (without_empty_last(*muster) if java.RELEASE == "4.4.0" else muster)
    first, second = (dict(each) for each in muster)
    assert first[0] == [], "a segment without live records has no batch"
    assert first[4] == [(4, 4, 0, 5)], "the last batch of a producer keeps its header"
    assert first[10] == [(10, 10, 0, -1)], "so does the last that was cleaned"
    assert second[10] == [], "until the next cleaning"
