"""Finds the segment files of a topic's partitions in the folders of a broker, or in copies of them.

A broker repairs a folder when it starts. The listing shows the folder as if it were repaired, but
changes nothing on disk: it skips `.deleted` and `.cleaned` files, and a complete `.swap` file
replaces the segments from which it was made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pipeline.errors import PipelineError
from pipeline.sources.segment_ends import Indexed, LogEnd, cleaned_to, log_end, partitions_written
from pipeline.sources.segment_reader import Entry, SegmentFile

OFFSETS_TOPIC = "__consumer_offsets"
LOG = ".log"
DELETED = ".deleted"
_CLEANED = ".cleaned"
_SWAP = ".swap"
_FIRST = f"{0:020d}{LOG}"
_PARTITION_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")
_META = "meta.properties"
_PARTITION_META = "partition.metadata"


@dataclass(frozen=True)
class Segment:
    """A segment file. ``behind`` is the base offset of the next segment in the log; None for the
    log's last segment."""

    file: str
    topic: str
    partition: int
    base_offset: int
    behind: int | None
    due: LogEnd | None = None
    """The end offset that the segment should have according to another file, such as a checkpoint;
    None if no file says it. The last record may be earlier if compaction has removed records."""
    cleaned: bool | None = None
    """True if the cleaner may have processed the segment; None if no file shows whether it did."""


def is_local(where: str) -> bool:
    """Returns True if ``where`` is a folder on this machine: a path, or a `file:` URI."""
    return re.match(r"(?!file:)[a-z][a-z0-9+.-]+://", where) is None


def local_folder(where: str) -> str:
    """Returns the path of a folder from a path or a `file:` URI. Raises PipelineError for other
    URIs."""
    if where.startswith("file:"):
        where = "/" + where.removeprefix("file:").lstrip("/")
    elif not is_local(where):
        raise PipelineError(
            f"segments are read from folders of the machines that run the job, not from {where}:"
            " mount this folder on these machines"
        )
    return os.path.abspath(where)


def folders_of(path: str) -> list[str]:
    """Splits a comma-separated list of folders, such as Kafka's `log.dirs`."""
    return [local_folder(part.strip()) for part in path.split(",") if part.strip()]


def partition_folders(path: str) -> dict[tuple[str, int], str]:
    """Finds the folders of partitions, by topic and partition.

    Each folder in ``path`` is a data folder or the folder of one partition. Raises PipelineError if
    a folder is missing or unreadable, or if two folders belong to the same partition.
    """
    found: dict[tuple[str, int], str] = {}
    for folder in folders_of(path):
        own = _PARTITION_FOLDER.fullmatch(os.path.basename(folder))
        names = list_folder(folder)
        if own and any(name.endswith(LOG) for name in names):
            here = [((own["topic"], int(own["partition"])), folder)]
        else:
            here = [
                ((match["topic"], int(match["partition"])), os.path.join(folder, name))
                for name in names
                if (match := _PARTITION_FOLDER.fullmatch(name))
                and os.path.isdir(os.path.join(folder, name))
            ]
        for key, place in here:
            if key in found:
                raise PipelineError(
                    f"{found[key]} and {place} are both folders of {key[0]}-{key[1]}: name the"
                    " folders of only one broker, or only one copy of each partition"
                )
            found[key] = place
    return found


def list_folder(folder: str) -> list[str]:
    """Returns the names in a folder. Raises PipelineError if the folder does not exist or can't be
    read."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        raise PipelineError(f"the folder {folder} does not exist: check --source") from None
    except NotADirectoryError:
        raise PipelineError(
            f"{folder} is a file: name a broker's data folder or a partition's folder in it, and"
            " unpack an archive first"
        ) from None
    except PermissionError:
        raise PipelineError(
            f"{folder} can't be read: run the job as a user who may read the broker's files"
        ) from None


def segments_of(topic: str, partition: int, folder: str) -> list[Segment]:
    """Returns the segments in a partition's folder, ordered by offset.

    For a folder without segments the list is empty. But if another file shows that the log had
    records, the list has the first segment, which is missing.
    """
    end = log_end(topic, partition, folder)  # read before the listing: a log grows
    first_dirty = cleaned_to(topic, partition, folder)
    names = list_folder(folder)
    bases = {int(name[:20]): name for name in names if _SEGMENT.fullmatch(name)}
    cleaned = [int(name[:20]) for name in names if name.endswith(LOG + _CLEANED)]
    for name in names:
        if not name.endswith(LOG + _SWAP):
            continue
        base = int(name[:20])
        if cleaned and base >= min(cleaned):
            continue  # other .swap files are incomplete: the sources count
        behind = _end_of(os.path.join(folder, name), base)
        bases = {other: file for other, file in bases.items() if not base <= other < behind}
        bases[base] = name
    if not bases and end is not None and end.offset > 0:
        bases = {0: _FIRST}
    ordered = sorted(bases)
    return [
        Segment(
            os.path.join(folder, bases[base]),
            topic,
            partition,
            base,
            behind,
            end if behind is None else LogEnd(behind, "the next segment's name"),
            None if first_dirty is None else base < first_dirty,
        )
        for base, behind in zip_longest(ordered, ordered[1:])
    ]


def lost_partitions(path: str, topic: str, there: Collection[int]) -> dict[int, Segment]:
    """Finds the partitions of a topic that a data folder in ``path`` once had, but no longer has.
    Returns for each of them a `Segment` that describes the missing first segment."""
    return {
        partition: Segment(
            os.path.join(folder, f"{topic}-{partition}", _FIRST),
            topic, partition, 0, None, end,
        )
        for folder in folders_of(path)
        for partition, end in partitions_written(topic, folder).items()
        if partition not in there
    }  # fmt: skip


def choose(segments: Sequence[Segment], start_offset: int, end_offset: int) -> list[Segment]:
    """Returns the segments that may contain offsets from ``start_offset`` up to, but not including,
    ``end_offset``."""
    return [
        segment
        for segment in segments
        if (segment.behind is None or segment.behind > start_offset)
        and segment.base_offset < end_offset
    ]


def cluster_id_of(path: str) -> str | None:
    """Reads the cluster id from `meta.properties`; None if it is unknown. Raises PipelineError if
    the folders belong to several clusters."""
    found: dict[str, str] = {}
    for folder in folders_of(path):
        for place in (folder, os.path.dirname(folder)):
            cluster = _value_of("cluster.id", os.path.join(place, _META), "=")
            if cluster:
                found[cluster] = place
                break
    if len(found) > 1:
        each = " and ".join(
            f"{place} belongs to cluster {cluster}" for cluster, place in found.items()
        )
        raise PipelineError(f"{each}: read one cluster at a time")
    return next(iter(found), None)


def topic_names(folders: Mapping[tuple[str, int], str]) -> dict[str, str]:
    """Returns topic names by topic id, from the files `partition.metadata`. ``folders`` is the
    result of `partition_folders`."""
    found: dict[str, str] = {}
    named: set[str] = set()
    for (topic, _), folder in folders.items():
        if topic in named:
            continue
        topic_id = _value_of("topic_id", os.path.join(folder, _PARTITION_META), ":")
        if topic_id:
            found[topic_id] = topic
            named.add(topic)
    return found


def open_segment(segment: Segment) -> int:
    """Opens a segment's file, even if Kafka deleted the segment since the listing. Raises OSError.

    Kafka renames a deleted segment to `.deleted` and keeps this file for `file.delete.delay.ms`.
    """
    try:
        return os.open(segment.file, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(segment.file + DELETED, os.O_RDONLY)


def missing_behind(segment: Segment, file: SegmentFile, indexed: Indexed | None) -> str | None:
    """Returns a sentence about records that are missing after the end of ``file``; None if no
    records are missing.

    The caller must read ``indexed`` before it opens the file. If later segments exist, compaction
    may have removed the last records of this segment. Then only the segment's index can prove that
    records are missing.
    """
    ends = []
    if indexed is not None and (segment.behind is None or indexed.last_offset < segment.behind):
        ends.append(LogEnd(indexed.last_offset + 1, "the segment's index"))
    cleaned = segment.cleaned if segment.cleaned is not None else not file.untouched
    if segment.due is not None and not (cleaned and segment.behind is not None):
        ends.append(segment.due)
    end = max(ends, default=None)
    if end is None or end.offset <= file.next_offset or not _still_stands(segment, file):
        return None
    last = end.offset - 1
    if last == file.next_offset:
        return f"The record at offset {last} is missing: according to {end.by} it was written."
    return (
        f"Offsets {file.next_offset} to {last} are missing: according to {end.by} they were"
        " written."
    )


def _still_stands(segment: Segment, file: SegmentFile) -> bool:
    """Returns True if the open ``file`` is still the segment that was listed. Returns False in two
    cases: a cleaning has replaced the segment since the listing, or the log has a new last segment
    although the listed segment was the last."""
    try:
        if not os.path.samestat(os.fstat(file.descriptor), os.stat(segment.file)):
            return False
        names = os.listdir(os.path.dirname(segment.file))
    except OSError:
        return False
    bases = [int(name[:20]) for name in names if _SEGMENT.fullmatch(name)]
    return segment.behind is not None or max(bases) <= segment.base_offset


def _end_of(file: str, base: int) -> int:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        end = base + 1
        for entry in SegmentFile(descriptor, base, None).entries():
            if isinstance(entry, Entry):
                end = max(end, entry.header.last_offset + 1)
        return end
    finally:
        os.close(descriptor)


def _value_of(wanted: str, file: str, between: str) -> str | None:
    """Returns the value of the name ``wanted`` in a properties file; None if the file or the name
    does not exist."""
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(between)
                if name.strip() == wanted and value.strip():
                    return value.strip()
    except OSError:
        return None
    return None
