"""The jobs of a cleaner process and its answers, sent as JSON lines.

The cleaner answers a `CleanJob` with a `CleanedGroup` for each group of segments, as soon as the
files of the group are complete and on the disk. The last answer is `CleanDone` or `CleanFailed`. In
between the cleaner sends `CleanProgress` every second, so that the broker can detect a stuck
cleaner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from log.config import LONG_MAX
from protocol.slotted import slotted


@slotted
class CleanJob:
    """The instructions for one cleaning of one partition."""

    directory: str
    segments: list[list[int]]
    """The fields of clean_plan.SegmentFacts for each segment, with the active segment last."""
    first_dirty_offset: int
    end_offset: int
    """Records at or above this offset are not cleaned. A segment begins at this offset."""
    now_ms: int
    """Wall time in milliseconds, from which delete horizons are computed."""
    delete_retention_ms: int
    stable_offset: int = LONG_MAX
    """The first offset of the earliest open transaction; LONG_MAX without an open transaction."""
    keep_tombstones_from: int = LONG_MAX
    """The offset from which on the cleaner keeps all tombstones. A load may begin with a snapshot
    of the state at this offset. Later tombstones then delete entries of the snapshot."""
    late_go: bool = False
    """True if the cleaning must remove batches of a transaction that were written after its marker.
    The coordinator whose records are in the log ignores such batches when it loads the log."""
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    map_bytes: int = 128 * 1024 * 1024
    """The maximum memory in bytes of the map from keys to last offsets. When the map is full, the
    next cleaning handles the remaining records."""
    bytes_per_second: float = 0.0
    """The maximum number of bytes that are read and written per second; 0 for no limit."""
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The last data offset (-1 if none) and the epoch of each producer, by producer id.

    The batches at these offsets are kept, if necessary without records. Because there may be many
    producers, most of them are sent to the cleaner process in lines of their own, after the line
    with the job.
    """


@slotted
class CleanedGroup:
    """The cleaner has completed a cleaned segment, which may now replace the old segments."""

    base_offset: int
    """The base offset of the new segment. The names of its files end with ``.cleaned``."""
    sources: list[int]
    size: int


@slotted
class CleanProgress:
    """The progress of a cleaning that is not done yet."""

    bytes: int


@slotted
class CleanDone:
    """A cleaning succeeded."""

    end_offset: int
    """The new first dirty offset: the log is clean below it."""
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    keys: int = 0
    milliseconds: int = 0
    """The duration in the cleaner process in ms, including waits for the throttle."""


@slotted
class CleanFailed:
    """A cleaning failed. Each `CleanedGroup` that the cleaner sent before the failure remains
    valid."""

    reason: str


Answer = CleanedGroup | CleanProgress | CleanDone | CleanFailed
_KINDS: dict[str, type[Answer]] = {
    "group": CleanedGroup,
    "progress": CleanProgress,
    "done": CleanDone,
    "failed": CleanFailed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_job(job: CleanJob) -> bytes:
    return json.dumps(asdict(job)).encode() + b"\n"


def encode_producers(producers: Mapping[int, tuple[int, int]]) -> bytes:
    """Encodes some producers of a cleaning job as one line. A job may have several such lines. The
    last of them has no producers."""
    return json.dumps(producers).encode() + b"\n"


def decode_job(line: bytes, following: Iterable[bytes] = ()) -> CleanJob:
    """Decodes the job in ``line``, with the producers of the following lines. Raises ValueError and
    TypeError."""
    fields: dict[str, Any] = json.loads(line)
    job = CleanJob(**(fields | {"producers": _producers(fields["producers"])}))
    for some in map(json.loads, following):
        if not some:
            break
        job.producers.update(_producers(some))
    return job


def _producers(fields: dict[str, list[int]]) -> dict[int, tuple[int, int]]:
    return {int(number): (last, epoch) for number, (last, epoch) in fields.items()}


def encode_answer(answer: Answer) -> bytes:
    return json.dumps({_NAMES[type(answer)]: asdict(answer)}).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    """Decodes the answer in a line. Raises ValueError, KeyError and TypeError."""
    [(name, fields)] = json.loads(line).items()
    return _KINDS[name](**fields)
