"""The jobs of a cleaner process and its answers: values that travel as JSON lines.

The cleaner answers a `CleanJob` with a `CleanedGroup` for each group of segments, as soon as its
files are whole and on the disk, and then with `CleanDone` or `CleanFailed`. In between it sends
`CleanProgress` every second: a cleaner that sends nothing for long is stuck.
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
    """One cleaning of one partition."""

    directory: str
    segments: list[list[int]]
    """Per segment, the active one last, the fields of clean_plan.SegmentFacts."""
    first_dirty_offset: int
    end_offset: int
    """Nothing at or above it is touched; a segment begins there."""
    now_ms: int
    """Wall time, what delete horizons count from."""
    delete_retention_ms: int
    stable_offset: int = LONG_MAX
    """Where the first open transaction begins."""
    keep_tombstones_from: int = LONG_MAX
    """Tombstones at or above it stay: a snapshot made at this offset does not know of them."""
    late_go: bool = False
    """What came after the end of its transaction goes, since its owner leaves it out at a load."""
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    map_bytes: int = 128 * 1024 * 1024
    """Memory for the map of keys; what does not fit is left to the next cleaning."""
    bytes_per_second: float = 0.0
    """Read and written together; 0 for no limit."""
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Last data offset (-1: none) and epoch by producer id: these batches are kept, if empty.

    A process gets most of them behind the job, in lines of their own, since there may be many."""


@slotted
class CleanedGroup:
    """Segments that may now be replaced by one."""

    base_offset: int
    """Of the new segment, whose files end with ``.cleaned``."""
    sources: list[int]
    """Base offsets of the old ones."""
    size: int


@slotted
class CleanProgress:
    """The cleaning goes on."""

    bytes: int
    """Read and written so far."""


@slotted
class CleanDone:
    """A cleaning has ended well."""

    end_offset: int
    """The log is clean up to here."""
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    keys: int = 0
    milliseconds: int = 0
    """How long it took the process, waiting included."""


@slotted
class CleanFailed:
    """A cleaning has ended badly; what was cleaned before stays good."""

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
    """The job as one line."""
    return json.dumps(asdict(job)).encode() + b"\n"


def encode_producers(producers: Mapping[int, tuple[int, int]]) -> bytes:
    """Some of the producers as one line; none as the line behind the last."""
    return json.dumps(producers).encode() + b"\n"


def decode_job(line: bytes, following: Iterable[bytes] = ()) -> CleanJob:
    """The job of a line, and its producers of those behind it. Raises ValueError and TypeError."""
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
    """An answer as one line."""
    return json.dumps({_NAMES[type(answer)]: asdict(answer)}).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    """The answer of a line. Raises ValueError, KeyError and TypeError."""
    [(name, fields)] = json.loads(line).items()
    return _KINDS[name](**fields)
