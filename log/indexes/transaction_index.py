"""The aborted transactions whose markers are in one segment: Kafka's ``.txnindex`` file.

An entry has 34 bytes: version, producer id, first offset, offset of the marker, and the last stable
offset when the marker was written. Entries are in the order of their markers, so the offsets of the
markers ascend. A segment without aborted transactions has no file. The bytes of the file are also
kept in memory: a Fetch needs the aborted transactions in the range that it reads, and must not wait
for the disk.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from log.files.filesystem import File, FileSystem, read_whole, write_whole

TXN_INDEX = ".txnindex"
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
_UNVERSIONED = struct.Struct(">2xqqqq")
_MARKER = struct.Struct(">18xq")
_FAN_BITS = 3


class Aborted(NamedTuple):
    """An aborted transaction. ``first_offset`` is its first offset, and ``last_offset`` the offset
    of its marker. ``stable_offset`` is the last stable offset after the marker was written: no
    transaction that began below this offset was still open."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment, ordered by the offsets of their markers."""

    __slots__ = ("_data", "_file", "_fs", "_least", "path", "unsynced")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self.unsynced = False
        self._fs = fs
        self._file: File | None = None
        self._data = bytearray()
        self._least: list[array[int]] = []
        """A search index. The first array has, for each 8 consecutive entries, the smallest first
        offset of their transactions. The next array has the smallest first offset of each 64
        entries, and so on."""

    def __len__(self) -> int:
        return len(self._data) // _ENTRY.size

    def __iter__(self) -> Iterator[Aborted]:
        return map(Aborted._make, _UNVERSIONED.iter_unpack(bytes(self._data)))

    def load(self) -> bool:
        """Loads the file, which must exist. Returns False if a part of the file is invalid; then
        only the entries before this part are loaded."""
        data = read_whole(self._fs, self.path)
        whole = len(data) // _ENTRY.size * _ENTRY.size
        good = last = 0
        for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(data[:whole]):
            if version < 0 or not 0 <= first_offset < last_offset or last_offset <= last:
                break
            last = last_offset
            good += _ENTRY.size
        self._take(bytearray(data[:good]))
        return good == len(data)

    def append(self, aborted: Sequence[Aborted]) -> None:
        """Appends entries to the file. Raises OSError; after an error no entry was added."""
        if self._file is None:
            self._file = self._fs.open(self.path, create=True)
        data = _packed(aborted)
        try:
            self._file.write(len(self._data), data)
        except OSError:
            self._cut_back()
            raise
        self.unsynced = True
        for entry in aborted:
            self._note(entry.first_offset)
            self._data += _ENTRY.pack(_VERSION, *entry)

    def cut(self, count: int) -> None:
        """Drops all entries except the first ``count``. If the file can't be truncated, later
        entries overwrite the dropped entries."""
        if count < len(self):
            self._take(self._data[: count * _ENTRY.size])
            self._cut_back()

    def truncate_to(self, offset: int) -> None:
        """Drops the entries whose markers are at or above ``offset``."""
        self.cut(self._count_below(offset))

    def settle(self, from_offset: int, aborted: Sequence[Aborted]) -> None:
        """Replaces all entries from ``from_offset`` on by ``aborted``, the aborted transactions
        that were found in the log. Ignores write errors: if the file is then missing or outdated,
        the next start reads the log instead."""
        kept = self._count_below(from_offset) * _ENTRY.size
        data = _packed(aborted)
        if self._data[kept:] == data:
            return
        self._take(self._data[:kept] + data)
        self._file = None
        with suppress(OSError):
            if self._data:
                write_whole(self._fs, self.path, bytes(self._data), durable=False)
                self.unsynced = True
            else:
                self._fs.remove(self.path)

    def fsync(self) -> None:
        if self.unsynced:
            self.unsynced = False
            try:
                (self._file or self._fs.open(self.path)).fsync()
            except BaseException:
                self.unsynced = True
                raise

    def rename(self, suffix: str) -> None:
        self.move(self.path + suffix)

    def move(self, path: str) -> None:
        """Renames the file to ``path``, replacing an existing file."""
        self._fs.rename(self.path, path, self._file)
        self.path = path

    def overlapping(self, offset: int, end: int) -> list[Aborted]:
        """Returns the transactions that end at or above ``offset`` and begin below ``end``."""
        found: list[Aborted] = []
        data, count, unpack_from = self._data, len(self), _UNVERSIONED.unpack_from
        index = self._count_below(offset)
        while index < count:
            entry = unpack_from(data, index * _ENTRY.size)
            if entry[1] < end:
                found.append(Aborted._make(entry))
                index += 1
            else:
                index += self._pass_over(index, end) or 1
        return found

    def _pass_over(self, index: int, end: int) -> int:
        """Returns the number of entries, from entry ``index`` on, that a search can skip because
        their transactions begin at or above offset ``end``."""
        passed_to = index
        bits = _FAN_BITS
        for least in self._least:
            block = index >> bits
            if least[block] < end:
                break
            passed_to = block + 1 << bits
            bits += _FAN_BITS
        return passed_to - index

    def _count_below(self, offset: int) -> int:
        data, unpack_from, size = self._data, _MARKER.unpack_from, _ENTRY.size
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if unpack_from(data, middle * size)[0] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _take(self, data: bytearray) -> None:
        self._data = data
        self._least = []
        below = array("q", [entry[2] for entry in _ENTRY.iter_unpack(data)])
        while below and (len(below) > 1 << _FAN_BITS or not self._least):
            fan = 1 << _FAN_BITS
            below = array("q", [min(below[at : at + fan]) for at in range(0, len(below), fan)])
            self._least.append(below)

    def _note(self, first_offset: int) -> None:
        """Adds the first offset of a new entry to the search index ``_least``."""
        index = len(self)
        for least in self._least:
            index >>= _FAN_BITS
            if index == len(least):
                least.append(first_offset)
            elif first_offset < least[index]:
                least[index] = first_offset
        top = self._least[-1] if self._least else None
        if top is None:
            self._least.append(array("q", [first_offset]))
        elif len(top) > 1 << _FAN_BITS:
            self._least.append(array("q", [min(top[:-1]), top[-1]]))

    def _cut_back(self) -> None:
        with suppress(OSError):
            if self._file is None:
                self._file = self._fs.open(self.path)
            self._file.truncate(len(self._data))
            self.unsynced = True


def _packed(aborted: Sequence[Aborted]) -> bytes:
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in aborted])


def aborted_in(fs: FileSystem, directory: str, base_offset: int) -> TransactionIndex:
    """Reads the index file of a segment: the aborted transactions whose markers are in the
    segment."""
    index = TransactionIndex(fs, os.path.join(directory, f"{base_offset:020d}{TXN_INDEX}"))
    if fs.exists(index.path):
        index.load()
    return index
