"""Follows a running cluster: reads new records of `__consumer_offsets`, and the growth of topics.

The feed repeatedly reads the log end offsets of topics; such a read is called a look. The records
between the end offsets of two consecutive looks were written in the time between these looks. The
feed also requests the timestamp of the first of these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from pipeline import clock
from pipeline.model.events import STRETCHES
from pipeline.sources.feed import Growth, Held
from pipeline.sources.log_times import time_or_none
from pipeline.sources.segment_files import OFFSETS_TOPIC
from pipeline.sources.source import TimesAsked
from pipeline.sources.wire.brokers import Brokers, Partition, Reach
from pipeline.sources.wire.listing import (
    EARLIEST,
    LATEST,
    list_known,
    list_offsets,
    log_partitions,
)
from pipeline.sources.wire.log import LogReader, Stretch
from pipeline.sources.wire.times import ask_times
from pipeline.storage.manifest import TopicEnds

TIMES_BYTES: Final = 8 << 20
"""The maximum number of bytes that requests for past record times may transfer. The feed sends such
requests for topics that it reads for the first time."""


class BrokerFeed:
    """Implements `Feed` for a running cluster. The connections stay open between two reads of end
    offsets."""

    said: tuple[str, ...] = ()
    """Empty, because a broker feed reads no files. In other feeds these are sentences about damaged
    files."""

    def __init__(self, where: str, reach: Reach) -> None:
        self.where = where
        self._brokers = Brokers(reach)

    def look(self) -> BrokerNews:
        brokers = self._brokers
        at_ms = clock.now_ms()
        view = brokers.look(None)
        numbers = log_partitions(brokers, view, self.where)
        logs = [(OFFSETS_TOPIC, number) for number in numbers]
        ends = list_offsets(brokers, [(log, LATEST) for log in logs])
        starts = list_offsets(brokers, [(log, EARLIEST) for log in logs])
        return BrokerNews(
            brokers,
            view.cluster_id,
            view.topic_ids,
            at_ms,
            {log[1]: start.offset for log, start in zip(logs, starts, strict=True)},
            {log[1]: end.offset for log, end in zip(logs, ends, strict=True)},
        )

    @property
    def moved_bytes(self) -> int:
        return self._brokers.moved_bytes

    def close(self) -> None:
        self._brokers.close()


@dataclass
class BrokerNews:
    """Implements `News` for a running cluster."""

    brokers: Brokers
    cluster_id: str | None
    names: Mapping[str, str]
    """Topic names by topic id. Empty if the cluster is older than Kafka 2.8."""
    at_ms: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {name: topic_id for topic_id, name in self.names.items()}

    @property
    def log_id(self) -> str | None:
        return self._ids.get(OFFSETS_TOPIC)

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        todo = [
            Stretch(number, max(positions.get(number, 0), self.starts[number]), end)
            for number, end in self.ends.items()
        ]
        yield from LogReader(self.brokers, todo, self.names).rows()

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        view = self.brokers.look(None)  # the read of the log requested only its own topic
        there = {name for name, _ in view.leaders if not name.startswith("__")}
        seen: dict[Partition, TopicEnds] = {
            (topic, number): ends
            for topic, ends in known.items()
            if topic in there
            for number in ends.ends
        }
        now = self._ends([*seen])
        forgotten = {
            topic
            for (topic, number), ends in seen.items()
            if self._is_another(topic, ends) or now.get((topic, number), 0) < ends.ends[number]
            if (topic, number) in now or self._is_another(topic, ends)
        }
        new = {key: set(offsets) for key, offsets in held.items() if key[0] in there}
        for key in [key for key in seen if key[0] in forgotten]:
            del seen[key]
            new.setdefault(key, set())
        new = {key: offsets for key, offsets in new.items() if key not in seen}
        past = self._past(new)
        topics: dict[str, TopicEnds] = {}
        for (topic, number), end in chain(
            ((key, now.get(key, seen[key].ends[key[1]])) for key in seen), _ends_of(past).items()
        ):
            ends = topics.setdefault(topic, TopicEnds(self._ids.get(topic), {}, self.at_ms))
            ends.ends[number] = end
        rows = self._grown(seen, now)
        return Growth(
            [past, pa.Table.from_pylist(rows, STRETCHES)], topics, tuple(sorted(forgotten))
        )

    def _is_another(self, topic: str, known: TopicEnds) -> bool:
        """Returns True if the topic has another topic id than at the previous read of the end
        offsets."""
        ids = known.topic_id, self._ids.get(topic)
        return None not in ids and ids[0] != ids[1]

    def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        found = list_known(self.brokers, [(each, LATEST) for each in partitions])
        return {
            partition: end.offset
            for partition, end in zip(partitions, found, strict=True)
            if end is not None
        }

    def _past(self, held: Mapping[Partition, set[int]]) -> pa.Table:
        """Returns stretches of the partitions that `--follow` reads for the first time. Requests
        them from the brokers."""
        if not held:
            return STRETCHES.empty_table()
        asked = TimesAsked(
            {topic for topic, _ in held},
            self.at_ms,
            offsets={key: sorted(offsets) for key, offsets in held.items()},
            moved_bytes=TIMES_BYTES,
        )
        return ask_times(self.brokers, asked, lambda: self.at_ms)

    def _grown(
        self, seen: Mapping[Partition, TopicEnds], now: Mapping[Partition, int]
    ) -> list[dict[str, Any]]:
        """Returns rows of STRETCHES for partitions that have grown since the previous read: rows of
        the new records, and rows with the log end offsets at the previous and the present read."""
        grown = [key for key, end in now.items() if key in seen and end > seen[key].ends[key[1]]]
        looked_ms = {key: seen[key].at_ms or 0 for key in grown}
        firsts = list_known(self.brokers, list(looked_ms.items()))
        rows = []
        for key, first in zip(grown, firsts, strict=True):
            base, before_ms = seen[key].ends[key[1]], looked_ms[key]
            at_ms = first.time_ms if first is not None and first.offset == base else None
            rows.append(_row(key, base, base - 1, None, before_ms))
            if at_ms is not None and at_ms > self.at_ms:  # a future timestamp
                rows.append(_row(key, base, base, at_ms, at_ms))
                base, at_ms = base + 1, None
            if base < now[key]:
                rows.append(_row(key, base, now[key] - 1, at_ms, self.at_ms))
            rows.append(_row(key, now[key], now[key] - 1, None, self.at_ms))
        return rows


def _row(
    key: Partition, base: int, last: int, first_ms: int | None, last_ms: int
) -> dict[str, Any]:
    return {
        "topic": key[0],
        "partition": key[1],
        "base_offset": base,
        "last_offset": last,
        "first_at": None if first_ms is None else time_or_none(first_ms),
        "last_at": time_or_none(last_ms),
    }


def _ends_of(stretches: pa.Table) -> dict[Partition, int]:
    """Reads the rows of STRETCHES that contain no records. In such a row, the base offset is the
    end offset of the partition. Returns these end offsets by partition."""
    columns = [stretches[name].to_pylist() for name in STRETCHES.names[:4]]
    return {
        (topic, partition): base
        for topic, partition, base, last in zip(*columns, strict=True)
        if last < base
    }
