"""A source whose rows the test provides, and a function that reads a table from the output of a
run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from pipeline.engines.engine import Part
from pipeline.model.events import COMMIT, EVENTS, STRETCHES
from pipeline.sources.source import TimesAsked
from tests.pipeline.conftest import at
from tests.pipeline.relations import rows_of


class GivenSource:
    """A source that returns the rows of the test and records how often it is read."""

    where = "given"
    cluster_id: str | None = None

    def __init__(
        self, events: Sequence[dict[str, Any]], stretches: Sequence[dict[str, Any]] | None = None
    ) -> None:
        self.events = events
        self.stretches = stretches
        self.asked: list[str] = []

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part]:
        self.asked.append("events")
        return [rows_of(EVENTS, self.events)]

    def event_files(self) -> None: ...

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        self.asked += [f"stretches of {topic}" for topic in sorted(asked.topics)]
        if self.stretches is None:
            return None
        return [
            rows_of(STRETCHES, [each for each in self.stretches if each["topic"] in asked.topics])
        ]

    def stretch_files(self) -> None: ...

    def topics(self) -> Collection[str]:
        return {each["topic"] for each in self.stretches or ()}

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        return ()

    def records_estimate(self) -> int:
        return len(self.events)

    def end_ms(self) -> int | None:
        return None

    def moved_bytes(self) -> int:
        return 77


def committed(number: int, group: str, offset: int, **columns: Any) -> dict[str, Any]:
    """Returns a commit for partition 0 of topic orders. Its record has log offset ``number`` and
    was written ``number`` seconds after the start."""
    place = {"log_partition": 0, "log_offset": number, "kind": COMMIT, "written_at": at(number)}
    what = {"group_id": group, "topic": "orders", "partition": 0, "committed_offset": offset}
    return {**place, **what, "metadata": "", **columns}


def table(folder: Path | str, name: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """Returns the rows of a table, read by pyarrow and sorted by their `str`."""
    place = Path(folder) / name
    found = pyarrow.dataset.dataset(place, pa.schema(list(schema)), partitioning="hive")
    return sorted(found.to_table().to_pylist(), key=str)
