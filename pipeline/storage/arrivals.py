"""Selects the rows that one append adds to an archive: rows that the archive does not contain yet,
and rows that report damaged records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model.events import DAMAGED, EVENTS, TORN
from pipeline.model.tables import QUARANTINE
from pipeline.storage.day_files import NewFiles, fitted
from pipeline.storage.manifest import Manifest

_UNREADABLE: Final = (DAMAGED, TORN)


class Arrivals:
    """The rows that an append adds to an archive, and the offset from which the next append reads
    each partition.

    Damage at the end of a partition is recorded once. If it was only the incomplete end of a file
    that still grows, a later append adds the records that can be read there.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.next = dict(manifest.next_offsets)
        self.damaged_at = dict(manifest.damaged_at)
        self.events = self.damaged = 0
        self._known = manifest.damaged_at

    def take(self, batch: pa.RecordBatch, new: NewFiles) -> None:
        """Adds those rows of a batch that are not in the archive yet."""
        rows = fitted(batch, EVENTS)
        partitions = rows.column("log_partition").to_numpy()
        for partition in np.unique(partitions).tolist():
            here = partitions == partition
            self._take(partition, rows if here.all() else rows.filter(pa.array(here)), new)

    def end(self, next_offsets: Mapping[int, int]) -> None:
        """Stores the next offsets to read. The caller must have added all rows before."""
        for partition, offset in next_offsets.items():
            self.next[partition] = max(self.next.get(partition, 0), offset)

    def noted(self, manifest: Manifest) -> Manifest:
        return replace(
            manifest,
            next_offsets=dict(self.next),
            damaged_at=dict(self.damaged_at),
            topics_asked=False,
        )

    def _take(self, partition: int, rows: pa.Table, new: NewFiles) -> None:
        offsets = rows.column("log_offset").to_numpy()
        damaged = pc.is_in(rows["kind"], pa.array(_UNREADABLE)).to_numpy()
        fresh = offsets >= self.next.get(partition, 0)
        fresh &= ~damaged | (offsets > self._known.get(partition, -1))
        if not fresh.all():
            rows, offsets, damaged = rows.filter(pa.array(fresh)), offsets[fresh], damaged[fresh]
        new.add("events", rows)
        self.events += len(offsets)
        if damaged.any():
            new.add("quarantine", _quarantined(rows.filter(pa.array(damaged))))
            self.damaged += int(damaged.sum())
            self.damaged_at[partition] = int(offsets[damaged].max())
        if not damaged.all():
            self.next[partition] = int(offsets[~damaged].max()) + 1


def _quarantined(bad: pa.Table) -> pa.Table:
    damage = pc.struct_field
    columns = {
        "log_partition": bad["log_partition"],
        "log_offset": bad["log_offset"],
        **{name: damage(bad["damage"], name) for name in ("file", "position", "reason")},
    }
    return pa.Table.from_arrays([columns[name] for name in QUARANTINE.names], schema=QUARANTINE)
