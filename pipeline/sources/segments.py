"""`spark.read.format("kafka_segments")`: the rows of any topic's segment files.

Each segment is a task; small segments share a task. The options are:

- ``path``: a data folder, several data folders with commas, or a partition's folder;
- ``topic``: `__consumer_offsets` by default; several topics with commas, or `*` for all topics that
  are not Kafka's own;
- ``partitions``: such as `0,3`;
- ``start_offset`` and ``end_offset``: rows from the first to before the second;
- ``as``: `records` (`SEGMENT_RECORDS`, the default), `offsets` (`EVENTS`), or `batches`
  (`STRETCHES`, one row for each batch, from the headers alone).

Spark 4.0.0 passes no filters to a Python data source, so only these options limit the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS, SEGMENT_RECORDS, STRETCHES
from pipeline.sources.decode import ALL_OFFSETS
from pipeline.sources.folder import in_parts
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
_SCHEMAS = {"records": SEGMENT_RECORDS, "offsets": EVENTS, "batches": STRETCHES}
_ROWS: dict[str, type[RecordRows] | type[OffsetRows] | type[StretchRows]] = {
    "records": RecordRows,
    "offsets": OffsetRows,
    "batches": StretchRows,
}


class SegmentsTask(InputPartition):
    """The segments that one task reads one after the other, and the requested range of offsets."""

    def __init__(self, segments: Sequence[Segment], offsets: Offsets) -> None:
        super().__init__((segments, offsets))
        self.segments = segments
        self.offsets = offsets


class KafkaSegments(DataSource):
    """The Spark data source `kafka_segments`. `open_session` registers it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Returns the schema that the option `as` selects."""
        return from_arrow_schema(_SCHEMAS[_what(self.options)])

    def reader(self, schema: StructType) -> SegmentsReader:  # noqa: ARG002
        return SegmentsReader(dict(self.options))


class SegmentsReader(DataSourceReader):
    """Plans tasks on the driver, and reads the segments of a task on an executor."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.what = _what(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks that read the segments. Each segment that may contain requested offsets
        is read by one task, and one task may read several small segments."""
        segments, offsets = plan(self.options)
        return [SegmentsTask(part, offsets) for part in in_parts(segments)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task as Arrow batches; nothing for a task without segments."""
        if not isinstance(partition, SegmentsTask):
            return
        for segment in partition.segments:
            yield from read_segment(segment, _ROWS[self.what](segment), partition.offsets)


def plan(options: Mapping[str, str]) -> tuple[list[Segment], Offsets]:
    """Parses the options. Returns the segments to read and the requested range of offsets. Raises
    PipelineError for an invalid option."""
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
    segments = [
        segment
        for (topic, partition), folder in sorted(folders.items())
        if wanted is None or partition in wanted
        for segment in choose(segments_of(topic, partition, folder), start, end)
    ]
    return segments, (start, end)


def _what(options: Mapping[str, str]) -> str:
    what = options.get("as") or "records"
    if what not in _SCHEMAS:
        raise PipelineError(f"as={what} is unknown: choose from {', '.join(_SCHEMAS)}")
    return what


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None or text == "":
        return default
    if not text.isdecimal():
        raise PipelineError(f"{name}={text}: an offset must be a number, 0 or more")
    return int(text)


def _numbers(text: str | None) -> set[int] | None:
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise PipelineError(
            f"partitions={text} is invalid: write numbers separated by commas, such as 0,3"
        )
    return {int(part) for part in parts}
