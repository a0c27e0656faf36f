"""The Spark data source `muster_history`, which returns the history of offsets with the columns of
EVENTS.

`spark.read.format("muster_history")` reads a broker up to its present end; `spark.readStream` reads
it continuously. Folders of segments can only be read with `spark.read`. The options are ``path``
(`HOST:PORT`, or folders that contain partitions), ``partitions`` of `__consumer_offsets` (such as
`0-3,7`), ``command_config`` (a file of Kafka client properties on the machine that plans the query)
and ``timeout`` in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from client.security import PLAINTEXT, Security
from client.settings import read_settings
from client.spelling import partition_numbers
from pipeline.engines.engine import Part
from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS
from pipeline.sources.addresses import addresses_of
from pipeline.sources.open import open_source
from pipeline.sources.wire.brokers import TIMEOUT_S, Reach
from pipeline.sources.wire.feed import BrokerFeed, BrokerNews
from pipeline.sources.wire.source import log_parts

FORMAT: Final = "muster_history"
Offsets = dict[str, int]
"""The offset of the next record to read, by partition of `__consumer_offsets`. Spark stores these
offsets as JSON."""


class HistoryTask(InputPartition):
    """A Spark task: it reads one part of the history."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class MusterHistory(DataSource):
    """The Spark data source `muster_history`. `open_session` registers it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(EVENTS)

    def reader(self, schema: StructType) -> HistoryReader:  # noqa: ARG002
        """Returns a reader of the history that exists now, without later records."""
        return HistoryReader(dict(self.options))

    def streamReader(self, schema: StructType) -> HistoryStream:  # noqa: ARG002
        """Returns a reader that follows the growing history of a broker."""
        return HistoryStream(dict(self.options))


class HistoryReader(DataSourceReader):
    """Plans tasks on the driver, and reads the part of a task on an executor."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        where = _path(self.options)
        reach = _reach(self.options)
        source = open_source(where, reach.security, reach.timeout_s)
        parts = source.event_parts(_numbers(self.options))
        if parts is None:
            raise PipelineError(
                f"{where} is already Parquet: read its events with spark.read.parquet"
            )
        return [HistoryTask(part) for part in parts]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task; nothing for an empty history."""
        if isinstance(partition, HistoryTask):
            yield from partition.part.read()


class HistoryStream(DataSourceStreamReader):
    """Reads a growing history. Each micro-batch opens its own connections and closes them at its
    end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.reach = _reach(options)
        if not self.reach.addresses:
            raise PipelineError(
                f"{_path(options)} is not a broker: a stream reads from HOST:PORT only"
            )

    def initialOffset(self) -> Offsets:
        return self._wanted(self._look().starts)

    def latestOffset(self) -> Offsets:  # type: ignore[override]
        """Returns the present log end offsets. Spark 4.2 passes an optional start offset and limit,
        Spark 4.0 passes no arguments."""
        return self._wanted(self._look().ends)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Returns the tasks that read the offsets from ``start`` up to, but not including,
        ``end``."""
        grown = {int(n): (start.get(n, 0), end[n]) for n in end if end[n] > start.get(n, 0)}
        if not grown:
            return []
        news = self._look()
        offsets = {
            n: (max(first, news.starts.get(n, 0)), last) for n, (first, last) in grown.items()
        }
        return [HistoryTask(part) for part in log_parts(self.reach, offsets, news.names)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, HistoryTask):
            yield from partition.part.read()

    def _look(self) -> BrokerNews:
        with closing(BrokerFeed(_path(self.options), self.reach)) as feed:
            return feed.look()

    def _wanted(self, offsets: Mapping[int, int]) -> Offsets:
        wanted = _numbers(self.options)
        return {str(n): at for n, at in offsets.items() if wanted is None or n in wanted}


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise PipelineError(f"{FORMAT} needs a path, such as .load('127.0.0.1:9092')")
    return path


def _reach(options: Mapping[str, str]) -> Reach:
    """Parses the addresses and settings of brokers from the options. The addresses are empty if the
    options name folders."""
    file = options.get("command_config")
    security: Security = read_settings(Path(file)).security if file else PLAINTEXT
    addresses = addresses_of(_path(options)) or ()
    return Reach(tuple(addresses), security, float(options.get("timeout") or TIMEOUT_S))


def _numbers(options: Mapping[str, str]) -> set[int] | None:
    text = options.get("partitions")
    return set(partition_numbers(text)) if text else None
