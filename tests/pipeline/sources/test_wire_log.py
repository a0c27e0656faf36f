"""Tests that rows of `__consumer_offsets` are equal whether they are read with Fetch requests or
from files. The broker is a Muster or an Apache Kafka."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from pipeline.engines.engine import moved_by
from pipeline.errors import PipelineError, Unreachable
from pipeline.model.events import EVENTS
from pipeline.sources.open import open_source
from pipeline.sources.source import Source
from pipeline.sources.wire import log
from tests.brokers import KIND, Broker, free_port
from tests.interop.cluster import Cluster
from tests.pipeline.committing import commit

pytestmark = pytest.mark.proves("pipeline 2")

TOPIC = "wire-log"
GROUPS = [f"wire-{number}" for number in range(8)]


# the scope equals the broker's, because a worker can return to this module
@pytest.fixture(scope="session")
def committed(broker: Broker) -> dict[tuple[str, int], int]:
    """Commits offsets with real consumers. Returns the last committed offset by (group,
    partition)."""
    Cluster(broker.bootstrap).create_topic(TOPIC, 3)
    for group in GROUPS:
        places = [[(TOPIC, p, offset + p) for p in range(3)] for offset in (5, 3, 11)]
        commit({"bootstrap.servers": broker.bootstrap}, group, *places)
    return {(group, p): 11 + p for group in GROUPS for p in range(3)}


def rows_of(source: Source) -> pa.Table:
    parts = source.event_parts(None) or ()
    batches = [each for part in pickle.loads(pickle.dumps(parts)) for each in part.read()]
    return pa.Table.from_batches(batches, EVENTS).sort_by(
        [("log_partition", "ascending"), ("log_offset", "ascending")]
    )


def test_rows_read_from_a_broker_equal_rows_read_from_its_files(
    broker: Broker, committed: dict[tuple[str, int], int]
) -> None:
    wire, files = open_source(broker.bootstrap), open_source(str(broker.data))
    rows = rows_of(wire)

    assert rows.to_pylist() == rows_of(files).to_pylist()
    last = {
        (row["group_id"], row["partition"]): row["committed_offset"]
        for row in rows.to_pylist()
        if row["topic"] == TOPIC
    }
    assert last == committed
    if KIND == "muster":
        assert wire.cluster_id == files.cluster_id is not None
    assert TOPIC in wire.topics()
    assert (wire.records_estimate() or 0) >= 9 * len(GROUPS)


@pytest.mark.usefixtures("committed")
def test_offsets_topic_is_read_completely_when_responses_are_small(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows_of(open_source(broker.bootstrap))
    monkeypatch.setattr(log, "ANSWER_BYTES", 1)
    monkeypatch.setattr(log, "PARTITION_BYTES", 1)
    monkeypatch.setattr(log, "PARTITIONS_AT_ONCE", 3)

    source = open_source(broker.bootstrap)
    parts = list(source.event_parts(None) or ())
    batches = [each for part in parts for each in part.read()]

    rows = pa.Table.from_batches(batches, EVENTS)
    assert rows.num_rows == whole.num_rows
    keys = list(zip(rows["log_partition"].to_pylist(), rows["log_offset"].to_pylist(), strict=True))
    for number in set(rows["log_partition"].to_pylist()):
        offsets = [offset for partition, offset in keys if partition == number]
        assert offsets == sorted(offsets), "the log's order"
    assert sum(map(moved_by, parts)) > 0


@pytest.mark.usefixtures("committed")
def test_pipeline_rejects_a_partition_number_that_the_offsets_topic_does_not_have(
    broker: Broker,
) -> None:
    source = open_source(broker.bootstrap)
    some = rows_of(source)["log_partition"][0].as_py()
    batches = [each for part in source.event_parts([some]) or () for each in part.read()]

    assert set(pa.Table.from_batches(batches, EVENTS)["log_partition"].to_pylist()) == {some}
    with pytest.raises(PipelineError, match="has no partition 4711 of __consumer_offsets"):
        source.event_parts([4711])


def test_address_without_a_broker_is_reported_in_one_sentence() -> None:
    port = free_port()
    with pytest.raises(Unreachable, match=f"no broker answers at 127.0.0.1:{port}"):
        open_source(f"127.0.0.1:{port}")
    with pytest.raises(PipelineError, match="write kafka://HOST:PORT"):
        open_source("kafka://here")
