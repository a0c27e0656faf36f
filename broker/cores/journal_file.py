"""The file that keeps a journal when the broker restarts; docs/formats/groups-journal.md describes
its format.

A journal has two files in the data directory: a current file and an old file. Entries are appended
to the current file. When the current file is full, it replaces the old file, and a new current file
begins. If a group or transactional id has lines only in the old file that is replaced, its last few
lines are copied to the new file, unless the group or id was removed. Thus a group that rebalances
without end overwrites its own history, but not the history of other groups. Apache Kafka ignores
both files, because it reads only directories there.

A thread writes entries some time after their events, so that the journal delays no request. Entries
that can't be written are dropped, and entries that can't be read are skipped. Both are logged, and
neither makes a start or other work fail (ARCHITECTURE.md, law 10).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import structlog

from journal.entry import Entry
from journal.lines import Form, NotALine
from log.files.filesystem import File, FileSystem

logger = structlog.get_logger(__name__)

OLD, _NEW = ".old", ".new"
"""The suffix of the old file, and the suffix of a new file until it is complete."""
HALF_BYTES_MIN = 32 << 10
_FIRST_LINE_BYTES_MAX = 64
CARRIED_LINES = 8
"""The maximum number of lines of one group or transactional id that a rotation copies to the new
journal file."""
_CARRIED_SHARE = 4
"""A rotation copies some lines of the old journal file to the new file. The total size of these
lines is at most half of the journal's maximum size, divided by this number."""


class _OtherVersion(Exception):
    """The file has the format of another version of Muster."""


class JournalFile:
    """The two files of a journal. After the start, only the journal's thread may use this
    object."""

    def __init__(self, form: Form, fs: FileSystem, directory: str, bytes_max: int) -> None:
        self.name = form.file
        self._form = form
        self._fs = fs
        self._half = max(bytes_max // 2, HALF_BYTES_MIN)
        self._path = os.path.join(directory, form.file)
        self._old_path = os.path.join(directory, form.file + OLD)
        self._new_path = os.path.join(directory, form.file + _NEW)
        self._file: File | None = None
        self._end = 0

    def read(self) -> Iterator[tuple[str, Entry]]:
        """Yields the entries that earlier processes have written, the oldest first. Raises no
        exception."""
        for path in (self._old_path, self._path):
            unread, why = 0, ""
            try:
                lines = self._lines(path)
            except (OSError, _OtherVersion) as error:
                logger.warning("journal file can't be read", file=path, why=str(error))
                continue
            for line in lines:
                try:
                    yield self._form.entry_of(line)
                except NotALine as error:
                    unread, why = unread + 1, str(error)
            if unread:
                logger.warning("unreadable journal lines skipped", file=path, lines=unread, why=why)

    def append(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Appends entries. Raises OSError, possibly after some of the entries have been written."""
        lines = [self._form.line_of(name, entry) for name, entry in entries]
        lines = [line for line in lines if len(line) <= self._half // 2]
        while lines:
            if self._file is None:
                self._open()
            room, fitting = self._half - self._end, 0
            for line in lines:
                room -= len(line)
                if room < 0:
                    break
                fitting += 1
            if not fitting:
                self._rotate()
                continue
            data = b"".join(lines[:fitting])
            del lines[:fitting]
            self._write(data)

    # -- the files

    def _lines(self, path: str) -> list[bytes]:
        """Returns the last lines of a file, at most half of ``bytes_max``. Omits the first line,
        which has the version.

        Raises _OtherVersion and OSError.
        """
        if not self._fs.exists(path):
            return []
        file = self._fs.open(path)
        self._check_version(file)
        begin = max(0, file.size() - self._half)  # larger if the limit was reduced
        _, *lines = file.read(begin, self._half).split(b"\n")
        return [line for line in lines if line]

    def _open(self) -> None:
        """Opens the current file. If its last line is incomplete, ends the line."""
        try:
            if self._fs.exists(self._path):
                self._check_version(self._fs.open(self._path))
        except _OtherVersion:
            self._fs.rename(self._path, self._old_path)
        file = self._fs.open(self._path, create=True)
        self._end = file.size()
        self._file = file
        if not self._end:
            self._write(self._form.first_line)
        elif file.read(self._end - 1, 1) != b"\n":
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(self._end, data)
        except OSError:
            self._file = None  # the next write opens the file again and checks it
            raise
        self._end += len(data)

    def _rotate(self) -> None:
        """Renames the current file to the old file, and begins a new current file with the lines
        that must be kept longer (`CARRIED_LINES`)."""
        carried = self._carried()
        self._fs.remove(self._new_path)
        file = self._fs.open(self._new_path, create=True)
        file.write(0, self._form.first_line + carried)
        self._file = None
        self._fs.rename(self._path, self._old_path)
        self._fs.rename(self._new_path, self._path)

    def _carried(self) -> bytes:
        """Returns the lines that are copied from the old journal file: the last lines of each group
        or transactional id that does not occur in the new file.

        The total size is limited. The groups and ids whose last lines are the newest take
        precedence.
        """
        there = {name for name, _, _ in self._named(self._path)}
        found: dict[str, list[bytes]] = {}
        for name, is_gone, line in self._named(self._old_path):
            if name in there:
                continue
            lines = found.pop(name, [])
            if not is_gone:
                found[name] = [*lines[1 - CARRIED_LINES :], line + b"\n"]
        room = self._half // _CARRIED_SHARE
        kept: list[bytes] = []
        for lines in reversed(found.values()):
            size = sum(map(len, lines))
            if size <= room:
                room -= size
                kept[:0] = lines
        return b"".join(kept)

    def _named(self, path: str) -> Iterator[tuple[str, bool, bytes]]:
        """Yields each line of a file, with the name of its group or transactional id. The bool is
        True if the line reports that this group or id was removed."""
        with suppress(OSError, _OtherVersion):
            for line in self._lines(path):
                with suppress(NotALine):
                    yield (*self._form.name_of(line), line)

    def _check_version(self, file: File) -> None:
        """Raises _OtherVersion if the first line has another version. Ignores a first line that is
        damaged."""
        form = self._form
        with suppress(NotALine):
            first = file.read(0, _FIRST_LINE_BYTES_MAX).partition(b"\n")[0]
            version = form.version_of(first)
            if version != form.version:
                raise _OtherVersion(
                    f"the file has version {version}, but this Muster reads version {form.version}"
                )
