"""A small file that can be replaced even on a full disk.

The file has a spare: a second file whose blocks are already allocated. New contents are padded with
spaces to the size of the spare, written into the spare, and fsynced. Then the spare is renamed over
the file, atomically and without a new block. The replaced file becomes the next spare.

The contents must have a format that ignores trailing blanks, such as JSON. On a copy-on-write file
system (btrfs, ZFS) a change may need a new block. If none is free, the change fails, and the file
is unchanged.
"""

from __future__ import annotations

import os
from contextlib import suppress

from log.files.filesystem import FileSystem, read_whole

SPARE = ".spare"
_BEFORE = ".before"
_NEW = ".new"
_BLOCK_BYTES = 4096


class NotSettled(OSError):
    """Raised if the directory could not be fsynced. After a power loss either the old or the new
    file may exist. The broker must not acknowledge anything any more."""


class ReservedFile:
    """A file whose replacement succeeds even on a full disk, because it uses a spare file.
    `keep_spare` creates or finds the spare file. Only one thread at a time may use this object."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self._fs = fs
        self._spare = path + SPARE
        self._spare_bytes = 0
        """The size of the spare file in bytes; 0 if no usable spare file exists. All bytes of a
        usable spare file were written before, so the disk has space for them."""
        self._unsettled: NotSettled | None = None

    def read(self) -> bytes | None:
        """Returns the contents of the file; None if the file does not exist."""
        return read_whole(self._fs, self.path) if self._fs.exists(self.path) else None

    def keep_spare(self) -> None:
        """Uses the spare file that the previous process left, or creates a spare file with twice
        the size of the file's contents."""
        fs = self._fs
        # A crash during `replace` may have left this second name of the file.
        fs.remove(self.path + _BEFORE)
        self._spare_bytes = fs.open(self._spare).size() if fs.exists(self._spare) else 0
        self._make_spare(len((self.read() or b"").rstrip()))

    def replace(self, data: bytes, *, has_secrets: bool = False) -> None:
        """Replaces the contents with ``data``, durably.

        If ``has_secrets`` is True, other users can't read the new file, even if they could read the
        old file. After an OSError the file is unchanged. After NotSettled every later call raises
        NotSettled too.
        """
        if self._unsettled is not None:
            raise self._unsettled
        if not self._fs.exists(self.path):
            self._create(data)
            return
        if has_secrets:
            self._spare_bytes = 0
        if self._spare_bytes < len(data):
            self._make_spare(len(data))
        self._write_spare(data)
        before = self._keep_name()
        size = self._bytes_of(self.path) if before else 0
        written, self._spare_bytes = self._spare_bytes, 0
        try:
            self._fs.rename(self._spare, self.path)
        except OSError:
            self._spare_bytes = written
            raise
        self._settle(before)
        with suppress(OSError):
            if before:
                self._fs.rename(before, self._spare)
                self._spare_bytes = size
        with suppress(OSError):  # only the next change will need the spare
            self._make_spare(len(data))

    def _create(self, data: bytes) -> None:
        """Writes the file, and then the spare file, because a spare file must not exist alone."""
        self._write_new(data + b" " * (_room_for(len(data)) - len(data) - 1) + b"\n", self.path)
        self._settle(None)
        with suppress(OSError):  # only the next change will need the spare
            self._make_spare(len(data))

    def _write_spare(self, data: bytes) -> None:
        blanks = self._spare_bytes - len(data)
        try:
            file = self._fs.open(self._spare)
            file.write(0, data + b" " * (blanks - 1) + b"\n" if blanks else data)
            file.fsync()
        except OSError:
            self._spare_bytes = 0  # the spare's contents are unknown, and later writes may fail
            raise

    def _keep_name(self) -> str | None:
        """Gives the present file a second name, as a hard link. If another file then replaces the
        file at its first name, the content stays on the disk under the second name. Returns the
        second name, or None if the link failed."""
        before = self.path + _BEFORE
        try:
            self._fs.remove(before)
            self._fs.link(self.path, before)
        except OSError:  # the file does not exist, or the file system has no hard links
            return None
        return before

    def _settle(self, before: str | None) -> None:
        """Fsyncs the directory after the new file was renamed to `path`. If the fsync fails,
        renames the old file from ``before`` back to `path`, or removes the new file if ``before``
        is None. Then raises NotSettled."""
        try:
            self._fs.fsync_directory(os.path.dirname(self.path))
        except OSError as error:
            with suppress(OSError):
                if before is None:
                    self._fs.remove(self.path)
                else:
                    self._fs.rename(before, self.path)
            self._unsettled = NotSettled(
                error.errno, f"{error.strerror}; the change may not be on the disk", self.path
            )
            raise self._unsettled from error

    def _make_spare(self, used: int) -> None:
        """Creates a spare file of at least 2 * ``used`` bytes, unless such a spare file exists.
        Raises OSError."""
        size = _room_for(used)
        if self._spare_bytes >= size:
            return
        # The bytes are written: a file that is only reserved may need new blocks for its data.
        self._write_new(b" " * size, self._spare)
        self._spare_bytes = size

    def _write_new(self, data: bytes, path: str) -> None:
        """Writes ``data`` to a new file, and renames it to ``path``. Removes the new file on
        OSError."""
        new = self.path + _NEW
        try:
            self._fs.remove(new)
            file = self._fs.create_private(new)
            file.write(0, data)
            file.fsync()
            self._fs.rename(new, path)
        except OSError:
            with suppress(OSError):
                self._fs.remove(new)
            raise

    def _bytes_of(self, path: str) -> int:
        return self._fs.open(path).size() if self._fs.exists(path) else 0


def _room_for(used: int) -> int:
    """Returns the size of a spare file: 2 * ``used``, rounded up to whole blocks."""
    return -(-2 * used // _BLOCK_BYTES) * _BLOCK_BYTES
