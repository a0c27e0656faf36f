"""`spark.read.format("kafka_segments")`: segment files of any topic as rows, one task a segment.

Small segments share a task.

Options: ``path`` (a data folder, several with commas between them, or a partition's folder),
``topic`` (`__consumer_offsets`; several with commas, `*` for all but Kafka's own), ``partitions``
(such as `0,3`), ``start_offset`` (from it on), ``end_offset`` (before it) and ``as``: `records`
(`SEGMENT_RECORDS`, the default), `offsets` (`EVENTS`), `stretches` (`STRETCHES`, from batch
headers alone) or `chained` (`CHAINED`: each commit with the one before it, found without a sort by
reading a partition's segments in one task; small partitions share one). Spark 4.0.0 hands no
filters to a Python data source, so what is not to be read is said by options.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.contract import CHAINED, EVENTS, SEGMENT_RECORDS
from pipeline.errors import PipelineError
from pipeline.model.events import STRETCHES
from pipeline.sources.chain import Chain
from pipeline.sources.decode import ALL_OFFSETS
from pipeline.sources.segment_files import (
    OFFSETS_TOPIC,
    Segment,
    choose,
    partition_folders,
    segments_of,
)
from pipeline.sources.segment_rows import (
    OffsetRows,
    Offsets,
    RecordRows,
    StretchRows,
    read_segment,
)

FORMAT = "kafka_segments"
ANY_TOPIC = "*"
SHARED_BYTES = 4 << 20
"""Small segments share a task up to so many bytes: a task costs more than a few of them."""
CHAIN_BYTES = 32 << 20
"""Partitions that are read as chains share a task up to so many bytes."""
_CHAINED = "chained"
_SCHEMAS = {
    "records": SEGMENT_RECORDS,
    "offsets": EVENTS,
    "stretches": from_arrow_schema(STRETCHES),
    _CHAINED: CHAINED,
}
_ROWS: dict[str, type[RecordRows] | type[OffsetRows] | type[StretchRows]] = {
    "records": RecordRows,
    "offsets": OffsetRows,
    "stretches": StretchRows,
}


class ChainedRows(OffsetRows):
    """Rows of `CHAINED`, of a partition whose segments come one after the other."""

    def __init__(self, segment: Segment, chain: Chain) -> None:
        super().__init__(segment)
        self._chain = chain

    def take(self) -> pa.RecordBatch:
        """A batch of `CHAINED`."""
        return self._rows.take(self._chain)


class SegmentTask(InputPartition):
    """What one task reads: a segment, and which of its offsets."""

    def __init__(self, segment: Segment, offsets: Offsets) -> None:
        super().__init__((segment, offsets))
        self.segment = segment
        self.offsets = offsets


class SharedTask(InputPartition):
    """What one task reads one after the other: lists of segments, of one partition each."""

    def __init__(self, parts: Sequence[Sequence[SegmentTask]]) -> None:
        super().__init__(parts)
        self.parts = parts


class KafkaSegments(DataSource):
    """The data source; `open_session` registers it."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """That of what `as` asks for."""
        return _SCHEMAS[_what(self.options)]

    def reader(self, schema: StructType) -> SegmentsReader:  # noqa: ARG002
        """Plans and reads."""
        return SegmentsReader(dict(self.options))


class SegmentsReader(DataSourceReader):
    """Plans one task a segment on the driver, reads it on an executor."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.what = _what(options)

    def partitions(self) -> Sequence[InputPartition]:
        """One for each segment that can hold what is wanted, or for whole partitions.

        Small ones share one.
        """
        if self.what == _CHAINED:
            return list(chain_tasks(self.options))
        return list(shared([[segment] for segment in plan(self.options)], SHARED_BYTES))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a task in Arrow batches; none without a segment."""
        if not isinstance(partition, SharedTask):
            return
        for segments in partition.parts:
            if self.what == _CHAINED:
                yield from read_chain(segments)
            else:
                for task in segments:
                    rows = _ROWS[self.what](task.segment)
                    yield from read_segment(task.segment, rows, task.offsets)


def plan(options: Mapping[str, str]) -> list[SegmentTask]:
    """The tasks that the options ask for; PipelineError says what is wrong with them."""
    path = options.get("path")
    if not path:
        raise PipelineError("kafka_segments needs a path, such as .load('/var/lib/kafka')")
    topics = (options.get("topic") or OFFSETS_TOPIC).split(",")
    folders = {
        key: folder
        for key, folder in partition_folders(path).items()
        if key[0] in topics or (topics == [ANY_TOPIC] and not key[0].startswith("__"))
    }
    if not folders and topics != [ANY_TOPIC]:
        raise PipelineError(
            f"{path} has no partition of {', '.join(topics)}: name a broker's data folder, or a"
            f" partition's folder such as {topics[0]}-0"
        )
    wanted = _numbers(options.get("partitions"))
    start = _number(options, "start_offset", ALL_OFFSETS[0])
    end = _number(options, "end_offset", ALL_OFFSETS[1])
    return [
        SegmentTask(segment, (start, end))
        for (topic, partition), folder in sorted(folders.items())
        if wanted is None or partition in wanted
        for segment in choose(segments_of(topic, partition, folder), start, end)
    ]


def chain_tasks(options: Mapping[str, str]) -> list[SharedTask]:
    """Tasks of whole partitions; see `plan`."""
    return shared(chains_of(plan(options)), CHAIN_BYTES)


def chains_of(segments: Sequence[SegmentTask]) -> list[list[SegmentTask]]:
    """Segments in order as those of each partition."""
    by_partition = groupby(segments, lambda task: (task.segment.topic, task.segment.partition))
    return [list(chain) for _, chain in by_partition]


def shared(parts: Sequence[Sequence[SegmentTask]], size_bytes: int) -> list[SharedTask]:
    """Tasks of one part each, or of neighbours that are no larger together; no empty files."""
    tasks: list[list[Sequence[SegmentTask]]] = []
    room = 0
    for part in parts:
        sizes = [_size_of(task.segment) for task in part]
        size = sum(each for each in sizes if each is not None)
        if size == 0 and None not in sizes:
            continue
        if size > room or not tasks:
            tasks.append([])
            room = size_bytes
        tasks[-1].append(part)
        room -= size
    return [SharedTask(each) for each in tasks]


def read_chain(segments: Sequence[SegmentTask]) -> Iterator[pa.RecordBatch]:
    """The rows of one partition, its segments in order, as `CHAINED`."""
    chain = Chain()
    for task in segments:
        yield from read_segment(task.segment, ChainedRows(task.segment, chain), task.offsets)


def _size_of(segment: Segment) -> int | None:
    """Its bytes; None when it can't be looked at, which its reader reports."""
    try:
        return os.stat(segment.file).st_size
    except OSError:
        return None


def _what(options: Mapping[str, str]) -> str:
    what = options.get("as") or "records"
    if what not in _SCHEMAS:
        raise PipelineError(f"as={what}: kafka_segments gives {', '.join(_SCHEMAS)}")
    return what


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None or text == "":
        return default
    if not text.isdecimal():
        raise PipelineError(f"{name}={text}: an offset is a number of at least 0")
    return int(text)


def _numbers(text: str | None) -> set[int] | None:
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise PipelineError(f"partitions={text}: write numbers with commas, such as 0,3")
    return {int(part) for part in parts}
