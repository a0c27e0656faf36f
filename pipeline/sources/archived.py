"""Reads an archive as a source: the files that its manifest listed when the source was opened."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.engines.engine import Part, Rows
from pipeline.errors import PipelineError
from pipeline.model.events import STRETCHES
from pipeline.sources.segment_files import OFFSETS_TOPIC, local_folder
from pipeline.sources.source import OfFiles, TimesAsked
from pipeline.storage.archive import READERS, WRITER
from pipeline.storage.day_files import TABLES, NewFiles, batches_of
from pipeline.storage.lock import Lock
from pipeline.storage.manifest import Manifest, load
from pipeline.storage.s3_parquet import fetch_archive
from pipeline.storage.set_aside import (
    Damaged,
    FileGone,
    Settled,
    counted_again,
    damaged_files,
    in_place,
    left_behind,
    settle,
    stand_ins,
    without,
)

_TRIES = 3
"""The maximum number of attempts to load the manifest. A writer may replace files after a process
has read the manifest."""


@dataclass(frozen=True)
class StretchFile:
    """A part of a source: the rows of some topics in one file with the columns of STRETCHES."""

    file: Path
    topics: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        wanted = pa.array(self.topics, pa.string())
        for rows in batches_of(self.file, STRETCHES):
            yield from rows.filter(pc.is_in(rows["topic"], wanted)).to_batches()


class ArchiveSource(OfFiles):
    """A folder with an archive.

    No writer deletes the files of the archive while this source is open. The source moves damaged
    files to the archive's folder `quarantine/` if this process may write there and no other process
    writes to the archive. Otherwise the source only ignores the damaged files.
    """

    def __init__(self, where: str, copy: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """``copy`` is the local copy of an archive in object storage; `close` deletes this copy.
        Raises PipelineError if the manifest can't be read."""
        self.where = where
        self.said: list[str] = []
        """One sentence for each damaged file, and for each file that is intact again."""
        self._copy = copy
        self._folder = Path(local_folder(where) if copy is None else copy.name)
        self._lock = Lock.shared(self._folder / READERS)
        self._left_out: set[str] = set()
        """The paths of damaged files that were not moved. The source does not read them."""
        self._beside: tempfile.TemporaryDirectory[str] | None = None
        self._stand_ins: dict[str, list[str]] = {}
        """By table, the paths of temporary files outside of the archive. Their rows replace damaged
        files of the archive."""
        self._manifest = self._whole(())
        self.cluster_id = self._manifest.cluster_id

    @classmethod
    def fetched(cls, url: str) -> ArchiveSource:
        """Copies an archive from object storage to a temporary folder, and returns the copy as a
        source."""
        copy = tempfile.TemporaryDirectory(prefix="muster-archive-")
        fetch_archive(url.rstrip("/"), copy.name)
        return cls(url, copy)

    def set_aside(self) -> bool:
        """Reads every file completely, and leaves out damaged files afterwards. Returns True if it
        found damaged files that were not known before."""
        before = self._lost()
        self._manifest = self._whole(TABLES)
        return self._lost() > before

    def event_parts(self, partitions: Collection[int] | None) -> None:
        """Returns None, because the events of an archive are files."""
        known = {*self._manifest.next_offsets, *self._manifest.damaged_at}
        absent = sorted(set(partitions or ()) - known)
        if absent:
            raise PipelineError(
                f"{self.where} has no partition {', '.join(map(str, absent))} of {OFFSETS_TOPIC}:"
                " check --partitions"
            )

    def event_files(self) -> Sequence[str]:
        return self._files("events")

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part]:
        """Implements `Source.stretch_parts`. In addition to the files with stretches, returns a
        part with the last end offsets of the topics, from the manifest."""
        topics = tuple(sorted(asked.topics))
        parts: list[Part] = [StretchFile(Path(file), topics) for file in self._files("stretches")]
        return [*parts, Rows(self._ends(topics))]

    def stretch_files(self) -> None:
        """Returns None, because only some of the stretches are in files; the others are in the
        manifest of the archive. Callers read the stretches as parts instead."""

    def topics(self) -> Collection[str]:
        return self._manifest.topics

    def records_estimate(self) -> int:
        return self._manifest.rows("events")

    def end_ms(self) -> int | None:
        return self._manifest.read_until_ms

    def close(self) -> None:
        """Releases the readers' lock, so that a writer may delete files again."""
        if self._lock is not None:
            self._lock.release()

    def _files(self, table: str) -> list[str]:
        here = [str(self._folder / path) for path in self._manifest.read(table)]
        return [*here, *self._stand_ins.get(table, ())]

    def _lost(self) -> set[str]:
        """Returns the paths of the damaged files, which are not read."""
        return {gone.file.path for gone in self._manifest.set_aside} | self._left_out

    def _loaded(self) -> Manifest:
        manifest = load(self._folder)
        if manifest is None:
            raise PipelineError(f"{self.where} is no longer an archive: its manifest was deleted")
        return manifest

    def _whole(self, deep: Collection[str]) -> Manifest:
        """Loads the manifest, and returns it without damaged files."""
        for tries in range(_TRIES):
            manifest = self._loaded()
            try:
                damaged = damaged_files(self._folder, manifest, deep)
                back = [gone for gone in manifest.set_aside if in_place(self._folder, gone)]
                bad = left_behind(self._folder, manifest)
                if not (damaged or back or bad):
                    return manifest
                settled = self._settled(deep)
            except FileGone:
                if tries + 1 == _TRIES or self._loaded() == manifest:
                    raise
                continue
            if isinstance(settled, Settled):
                self._say(settled.said)
                return settled.manifest
            return self._without(counted_again(manifest, back), damaged, bad, settled)
        raise AssertionError("the last try returns or raises")

    def _settled(self, deep: Collection[str]) -> Settled | str:
        """Sets the damaged files of the archive aside, and returns the result. If this process
        can't become the only writer of the archive, returns the reason as text."""
        if self._copy is not None:
            return "the source is a copy"
        try:
            lock = Lock.alone(self._folder / WRITER)
        except PipelineError as error:
            return str(error).partition(": ")[0]
        except OSError as error:
            return f"{self._folder} can't be written ({error.strerror})"
        try:
            manifest = self._loaded()
            return settle(self._folder, manifest, deep) or Settled(manifest, ())
        except OSError as error:
            return f"{self._folder} can't be written ({error.strerror or error})"
        finally:
            lock.release()

    def _without(
        self, manifest: Manifest, damaged: Sequence[Damaged], bad: Sequence[Damaged], why: str
    ) -> Manifest:
        """Returns ``manifest`` without the files in ``damaged``, so that this source does not read
        them. The manifest on disk does not change.

        Reports the damage of the files in ``damaged``, and of the files in ``bad``, which the
        manifest does not contain. ``why`` is the reason why the source does not move all these
        files to `quarantine/`.
        """
        manifest = without(manifest, damaged)
        self._left_out = {each.file.path for each in damaged}
        self._beside = tempfile.TemporaryDirectory(prefix="muster-archive-")
        new = NewFiles(Path(self._beside.name), 1)
        for each in damaged:
            for table, rows in stand_ins(self._folder, manifest, each).items():
                new.add_to(each.file.folder if table == each.table else table, rows)
        self._stand_ins = {
            table: [f"{self._beside.name}/{file.path}" for file in files]
            for table, files in new.finish().items()
        }
        self._say(
            f"{each.lost(self.where)}: the file was not moved, because {why}, and {each.missing}"
            for each in (*damaged, *bad)
        )
        return manifest

    def _say(self, sentences: Iterable[str]) -> None:
        self.said += [sentence for sentence in sentences if sentence not in self.said]

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
