"""The leader epochs of a partition and their start offsets (``leader-epoch-checkpoint``).

The file is text: version 0, the number of entries, then one line ``epoch start_offset`` per entry.
Epochs and start offsets ascend. A standalone broker stays in epoch 0, or in the last epoch of the
data directory that it opened.

In a cluster a new leader begins an epoch in many partitions simultaneously, and acts as leader only
after the epochs are written. A small existing file is therefore overwritten in place. Replacing the
file would take ten times as long (180 us, including 80 us of CPU). On ext4 it would also wait for
the disk, which takes milliseconds if the disk is busy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from log.files.filesystem import FileSystem, read_whole, write_whole

FILE = "leader-epoch-checkpoint"
SECTOR_BYTES = 512
"""The bytes of a disk sector. A disk writes a sector either completely or not at all."""


class LeaderEpochs:
    """The leader epochs of a partition as (epoch, start offset), ascending, and the file that
    stores them."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._path = os.path.join(directory, FILE)
        self.entries: list[tuple[int, int]] = []
        self.latest = -1
        """The newest epoch; -1 without entries."""
        self._is_saved = False
        """True if the file contains exactly the entries in memory."""

    def load(self) -> bool:
        """Reads the file. Returns False, and has no entries, if the file is missing or invalid.

        The file is written without fsync when a batch begins an epoch, so a power failure may
        damage it. The epochs can be restored, because the batches contain them too.
        """
        self._set([])
        self._is_saved = False
        if not self._fs.exists(self._path):
            return False
        text = read_whole(self._fs, self._path).decode("ascii", "replace")
        try:
            version, count, *numbers = (int(word) for word in text.split())
        except ValueError:
            return False
        if version != 0 or len(numbers) != 2 * count or not text.endswith("\n"):
            return False
        self._set(list(zip(numbers[::2], numbers[1::2], strict=True)))
        self._is_saved = text.encode() == _text(self.entries)
        return True

    def save(self, *, durable: bool = True) -> None:
        self._is_saved = False
        write_whole(self._fs, self._path, _text(self.entries), durable=durable)
        self._is_saved = True

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self.latest = entries[-1][0] if entries else -1

    def note(self, epoch: int, start_offset: int) -> bool:
        """Adds ``epoch`` in memory, unless this or a newer epoch is known. Returns whether the
        epoch was added."""
        if epoch <= self.latest:
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        self.latest = epoch
        self._is_saved = False
        return True

    def assign(self, epoch: int, start_offset: int, *, durable: bool = False) -> None:
        """Adds ``epoch``, which begins at ``start_offset``, and writes the file. Without
        ``durable``, a power failure may undo the write, unless the log already has a batch of this
        epoch."""
        before, was_saved = list(self.entries), self._is_saved
        if not self.note(epoch, start_offset):
            return
        old, new = _text(before), _text(self.entries)
        if was_saved and not durable and len(old) <= len(new) <= SECTOR_BYTES:
            self._write_over(old, new, before)
        else:
            self._replace(self.entries, before, durable=durable)

    def _write_over(self, old: bytes, new: bytes, before: list[tuple[int, int]]) -> None:
        """Overwrites the file in place. After an error, restores the entries and the file, and
        raises OSError.

        The content fits into one sector: if the process is killed, the file has either the old or
        the new content. After a power failure the file may have the bytes of one content and the
        length of the other. `load` detects this case, because either the last line is incomplete or
        the count is wrong.
        """
        try:
            self._fs.open(self._path).write(0, new)
        except OSError:
            self._set(before)
            self._restore(old)
            raise
        self._is_saved = True

    def _restore(self, text: bytes) -> None:
        """Writes the old ``text`` again after a failed write. This needs no additional disk
        space."""
        with suppress(OSError):
            file = self._fs.open(self._path)
            file.truncate(len(text))
            file.write(0, text)
            self._is_saved = True

    def take_back(self, entries: list[tuple[int, int]]) -> None:
        """Restores ``entries``, a copy that was made before an append that has failed.

        The file is not written, because the disk may be full. The file may therefore still have the
        entries of the failed batches. These entries begin at or after the log end offset, so a load
        drops them.
        """
        self._set(entries)
        self._is_saved = False

    def truncate_from_end(self, end_offset: int, *, durable: bool = True) -> bool:
        """Drops the epochs that began at or above ``end_offset``. Returns whether an epoch was
        dropped. Without ``durable`` a power failure may restore the dropped epochs, until `sync`
        has run."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) == len(self.entries):
            return False
        self._replace(kept, self.entries, durable=durable)
        return True

    def sync(self) -> None:
        """Fsyncs the file. The function may run in any thread. The caller fsyncs the directory, to
        make the file's name durable."""
        self._fs.open(self._path).fsync()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops the epochs that ended at or below ``start_offset``. The first remaining epoch then
        begins at ``start_offset``."""
        below = [entry for entry in self.entries if entry[1] <= start_offset]
        if below and below != [(below[-1][0], start_offset)]:
            rest = self.entries[len(below) :]
            self._replace([(below[-1][0], start_offset), *rest], self.entries)

    def _replace(
        self, entries: list[tuple[int, int]], before: list[tuple[int, int]], *, durable: bool = True
    ) -> None:
        """Replaces the entries by ``entries`` and writes the file. After an error, restores
        ``before`` in memory and raises OSError."""
        self._set(entries)
        try:
            self.save(durable=durable)
        except OSError:
            self._set(before)
            raise

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Returns the response to OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch at or
        below ``epoch``, and the end offset of this epoch; (-1, -1) if unknown.

        ``end_offset`` is the end of the log for the requester, such as the high watermark for a
        consumer. No returned end offset is above it.
        """
        if epoch < 0 or epoch > self.latest:
            return -1, -1
        if epoch == self.latest:
            return epoch, end_offset
        end = next(start for later, start in self.entries if later > epoch)
        found = max((known for known, _ in self.entries if known <= epoch), default=None)
        if found is None:
            return epoch, min(self.entries[0][1], end_offset)
        return found, min(end, end_offset)

    def epoch_of(self, offset: int) -> int:
        """Returns the leader epoch of the record at ``offset``; -1 if unknown."""
        return max((epoch for epoch, start in self.entries if start <= offset), default=-1)


def _text(entries: Sequence[tuple[int, int]]) -> bytes:
    lines = [f"0\n{len(entries)}\n"]
    lines += (f"{epoch} {start_offset}\n" for epoch, start_offset in entries)
    return "".join(lines).encode()
