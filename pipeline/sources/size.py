"""Whether there is little to read, as far as that is known before Spark starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pipeline.errors import PipelineError
from pipeline.sources.broker import addresses_of, end_offsets, look_at
from pipeline.sources.segment_files import folders_of

SMALL_RECORDS = 100_000
SMALL_BYTES = 8 << 20
"""Of segments; some 130,000 commits uncompressed."""
_PARQUET_PACKS = 8
"""A table's rows into so much less than a log's."""


def is_small(where: str) -> bool:
    """Whether a source, as `open_source` takes it, has less than that; False when it can't say."""
    try:
        addresses = addresses_of(where)
        if addresses is None:
            return _less(_file_sizes(where), SMALL_BYTES)
        view = look_at(addresses)
        ends = end_offsets(view, list(view.leaders))
    except (PipelineError, OSError):
        return False
    return _less((end for found in ends.values() for end in found.values()), SMALL_RECORDS)


def _less(sizes: Iterator[int], bound: int) -> bool:
    """Whether they are less in all; no more of them are taken than say so."""
    total = 0
    for size in sizes:
        total += size
        if total >= bound:
            return False
    return True


def _file_sizes(where: str) -> Iterator[int]:
    for folder in folders_of(where):
        for parent, _, names in os.walk(folder):
            for name in names:
                size = os.stat(os.path.join(parent, name)).st_size
                yield size * _PARQUET_PACKS if name.endswith(".parquet") else size
