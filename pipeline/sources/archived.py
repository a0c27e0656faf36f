"""An archive as a source: the files that its manifest named when it was opened."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.engines.engine import Part, Rows
from pipeline.errors import PipelineError
from pipeline.model.events import STRETCHES
from pipeline.sources.segment_files import OFFSETS_TOPIC, local_folder
from pipeline.sources.source import TimesAsked
from pipeline.storage.archive import READERS
from pipeline.storage.day_files import batches_of
from pipeline.storage.lock import Lock
from pipeline.storage.manifest import Manifest, load
from pipeline.storage.s3_parquet import fetch_archive


@dataclass(frozen=True)
class StretchFile:
    """A part: STRETCHES of some topics in one file."""

    file: Path
    topics: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """See Part."""
        wanted = pa.array(self.topics, pa.string())
        for rows in batches_of(self.file, STRETCHES):
            yield from rows.filter(pc.is_in(rows["topic"], wanted)).to_batches()


class ArchiveSource:
    """A folder that an archive fills. Its files stay while this is open, whoever writes there."""

    def __init__(self, where: str) -> None:
        """PipelineError where its manifest can't be read."""
        self.where = where
        self._folder = Path(local_folder(where))
        self._lock = Lock.shared(self._folder / READERS)
        manifest = load(self._folder)
        if manifest is None:
            raise PipelineError(f"{where} is no archive any more")
        self._manifest: Manifest = manifest
        self.cluster_id = manifest.cluster_id
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        """What goes with this source."""

    @classmethod
    def fetched(cls, url: str) -> ArchiveSource:
        """That of an archive in object storage, of which this machine gets a copy."""
        copy = tempfile.TemporaryDirectory(prefix="muster-archive-")
        fetch_archive(url.rstrip("/"), copy.name)
        source = cls(copy.name)
        source.where, source._copy = url, copy
        return source

    def event_parts(self, partitions: Collection[int] | None) -> None:
        """They are files."""
        known = {*self._manifest.next_offsets, *self._manifest.damaged_at}
        absent = sorted(set(partitions or ()) - known)
        if absent:
            raise PipelineError(
                f"{self.where} has no partition {', '.join(map(str, absent))} of {OFFSETS_TOPIC}"
            )

    def event_files(self) -> Sequence[str]:
        """See Source."""
        return self._files("events")

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part]:
        """See Source. Where topics ended at the last look is known beside the files."""
        topics = tuple(sorted(asked.topics))
        parts: list[Part] = [StretchFile(Path(file), topics) for file in self._files("stretches")]
        return [*parts, Rows(self._ends(topics))]

    def stretch_files(self) -> None:
        """They come with what the manifest knows."""

    def topics(self) -> Collection[str]:
        """See Source."""
        return self._manifest.topics

    def hidden(self, topics: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Files hide nothing."""
        return ()

    def records_estimate(self) -> int:
        """See Source."""
        return self._manifest.rows("events")

    def end_ms(self) -> int | None:
        """See Source."""
        return self._manifest.read_until_ms

    def moved_bytes(self) -> int:
        """Nothing comes over the wire."""
        return 0

    def close(self) -> None:
        """Let its files go."""
        if self._lock is not None:
            self._lock.release()

    def _files(self, table: str) -> list[str]:
        return [str(self._folder / file.path) for file in self._manifest.files.get(table, ())]

    def _ends(self, topics: Sequence[str]) -> pa.Table:
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "base_offset": end,
                "last_offset": end - 1,
                "last_at": known.at_ms * 1000,
            }
            for topic, known in self._manifest.topics.items()
            if topic in topics and known.at_ms is not None
            for partition, end in known.ends.items()
        ]
        return pa.Table.from_pylist(rows, STRETCHES)
