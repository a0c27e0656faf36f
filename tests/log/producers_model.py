"""A model of the producers and transactions of a log. It keeps the list of all appended batches,
and computes each answer from the whole list. The model uses no code of `log/`."""

from __future__ import annotations

from typing import NamedTuple

SEQUENCES = 1 << 31
UNKNOWN = -1
NO_EPOCH_LEFT = 32767

GAP, FENCED, STATE, OLD_COORDINATOR = 45, 47, 48, 52


class Batch(NamedTuple):
    """A data batch, or a marker that ends a transaction."""

    offset: int
    count: int
    producer: int
    epoch: int
    sequence: int = UNKNOWN
    transactional: bool = True
    outcome: bool | None = None
    """True for a COMMIT marker, False for an ABORT marker, None for a data batch."""
    coordinator_epoch: int = UNKNOWN

    @property
    def last(self) -> int:
        return self.offset + self.count - 1

    @property
    def last_sequence(self) -> int:
        return (self.sequence + self.count - 1) % SEQUENCES


class Model:
    """A model of the producers and transactions of one partition. Its answer to an append is "+"
    for accepted, an offset for a duplicate, or an error code."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.forgotten = 0
        """A log offset. After a restart, the broker need not know batches before this offset,
        except the last batch of each producer."""

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def cut(self, end: int) -> None:
        """Removes all batches that end at or after the offset ``end``."""
        self.batches = [batch for batch in self.batches if batch.last < end]

    # -- state of a producer

    def of(self, producer: int) -> list[Batch]:
        return [batch for batch in self.batches if batch.producer == producer]

    def epoch(self, producer: int) -> int:
        own = self.of(producer)
        return own[-1].epoch if own else UNKNOWN

    def recent(self, producer: int) -> list[Batch]:
        """Returns the data batches of the producer in its current epoch."""
        found: list[Batch] = []
        epoch = UNKNOWN
        for batch in self.of(producer):
            if batch.epoch != epoch:
                epoch, found = batch.epoch, []
            if batch.outcome is None:
                found.append(batch)
        return found

    def open_since(self, producer: int, before: int | None = None) -> int | None:
        """Returns the first offset of the producer's open transaction, or None. Ignores batches
        from offset ``before`` on."""
        since: int | None = None
        for batch in self.of(producer):
            if before is not None and batch.offset >= before:
                break
            if batch.outcome is not None:
                since = None
            elif batch.transactional and since is None:
                since = batch.offset
        return since

    def coordinator_epoch(self, producer: int) -> int:
        markers = [batch for batch in self.of(producer) if batch.outcome is not None]
        return markers[-1].coordinator_epoch if markers else UNKNOWN

    @property
    def producers(self) -> list[int]:
        return sorted({batch.producer for batch in self.batches})

    # -- appends

    def send(self, batch: Batch) -> str | int:
        """Returns the answer to an append of a data batch."""
        own, epoch, recent = self.of(batch.producer), *self._known(batch.producer)
        if epoch == batch.epoch:
            for known in recent[-5:]:
                if (known.sequence, known.count) == (batch.sequence, batch.count):
                    return known.offset
        if own and batch.epoch < epoch:
            return FENCED
        if own:
            same = batch.epoch == epoch and recent
            due = (recent[-1].last_sequence + 1) % SEQUENCES if same else 0
            if batch.sequence != due:
                return GAP
        if not batch.transactional and self.open_since(batch.producer) is not None:
            return STATE
        return "+"

    def _known(self, producer: int) -> tuple[int, list[Batch]]:
        return self.epoch(producer), self.recent(producer)

    def end_of(self, marker: Batch, rules: int) -> str | int:
        """Returns the expected result of appending ``marker``: "+" if the log accepts it, otherwise
        the error. ``rules`` is the transaction version."""
        if self.of(marker.producer):
            epoch = self.epoch(marker.producer)
            is_newer = self.open_since(marker.producer) is not None and epoch != NO_EPOCH_LEFT
            if marker.epoch < epoch or (rules == 2 and marker.epoch == epoch and is_newer):
                return FENCED
            if marker.coordinator_epoch < self.coordinator_epoch(marker.producer):
                return OLD_COORDINATOR
        return "+"

    # -- visible to read_committed consumers

    def first_open(self, before: int | None = None) -> int | None:
        """Returns the first offset of the oldest open transaction, or None. Ignores batches from
        offset ``before`` on."""
        began = [self.open_since(producer, before) for producer in self.producers]
        return min([since for since in began if since is not None], default=None)

    def aborted(self) -> list[tuple[int, int, int, int]]:
        """Returns producer id, first offset, marker offset and last stable offset of each aborted
        transaction."""
        found = []
        for batch in self.batches:
            if batch.outcome is False:
                since = self.open_since(batch.producer, batch.offset)
                if since is not None:
                    stable = self.first_open(batch.offset + 1)
                    still = batch.offset + 1 if stable is None else stable
                    found.append((batch.producer, since, batch.offset, still))
        return found
