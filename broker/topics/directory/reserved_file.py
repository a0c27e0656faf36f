"""A small file that can be replaced on a full disk.

Next to it is a spare file whose blocks are already allocated. A change is written into the spare,
padded with spaces to its size, fsynced, and renamed over the file: whole or not at all, without a
new block. The replaced file becomes the next spare. This is for formats that ignore blanks at the
end, such as JSON. A file system that copies on write (btrfs, ZFS) may need a block all the same;
the change then fails, and the file is unchanged.
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
    """The directory could not be fsynced: after a power loss either file may be there, the old or
    the new one. Nothing may be acknowledged any more."""


class ReservedFile:
    """One such file; used by one thread at a time. ``keep_spare`` makes or finds its spare."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self._fs = fs
        self._spare = path + SPARE
        self._spare_bytes = 0
        """Bytes of the spare, all of them written once; 0 without a reliable one."""
        self._unsettled: NotSettled | None = None

    def read(self) -> bytes | None:
        """The file's contents, None if it does not exist."""
        return read_whole(self._fs, self.path) if self._fs.exists(self.path) else None

    def keep_spare(self) -> None:
        """Find the spare of the process before, or make one of twice the room that is used."""
        fs = self._fs
        # After a crash in the middle of `replace` this is the file itself by another name.
        fs.remove(self.path + _BEFORE)
        self._spare_bytes = fs.open(self._spare).size() if fs.exists(self._spare) else 0
        self._make_spare(len((self.read() or b"").rstrip()))

    def replace(self, data: bytes, *, has_secrets: bool = False) -> None:
        """Replaces the contents by ``data``; durable when this returns.

        Secrets are written to a file that other users can't read, whatever an older Muster left.
        Raises OSError: the file is unchanged. NotSettled is final: every later call raises it too.
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
        with suppress(OSError):  # the next change will need it, not this one
            self._make_spare(len(data))

    def _create(self, data: bytes) -> None:
        """Writes the first file. The spare is made after it, so that no spare exists without a
        file."""
        self._write_new(data + b" " * (_room_for(len(data)) - len(data) - 1) + b"\n", self.path)
        self._settle(None)
        with suppress(OSError):  # the next change will need it, not this one
            self._make_spare(len(data))

    def _write_spare(self, data: bytes) -> None:
        blanks = self._spare_bytes - len(data)
        try:
            file = self._fs.open(self._spare)
            file.write(0, data + b" " * (blanks - 1) + b"\n" if blanks else data)
            file.fsync()
        except OSError:
            self._spare_bytes = 0  # its contents are unknown now, and it may accept no writes
            raise

    def _keep_name(self) -> str | None:
        """Makes a second name for the file, so that its blocks stay ours; None if that fails."""
        before = self.path + _BEFORE
        try:
            self._fs.remove(before)
            self._fs.link(self.path, before)
        except OSError:  # no such file yet, or a disk that has no second names
            return None
        return before

    def _settle(self, before: str | None) -> None:
        """Have the new name on the disk; else take it back, and do nothing any more."""
        try:
            self._fs.fsync_directory(os.path.dirname(self.path))
        except OSError as error:
            with suppress(OSError):
                if before is None:
                    self._fs.remove(self.path)
                else:
                    self._fs.rename(before, self.path)
            self._unsettled = NotSettled(
                error.errno, f"{error.strerror}; the contents of the disk are unknown", self.path
            )
            raise self._unsettled from error

    def _make_spare(self, used: int) -> None:
        """Have a spare with room for twice ``used`` bytes. Raises OSError."""
        size = _room_for(used)
        if self._spare_bytes >= size:
            return
        # A reserve without bytes may want blocks when it gets them.
        self._write_new(b" " * size, self._spare)
        self._spare_bytes = size

    def _write_new(self, data: bytes, path: str) -> None:
        """Have a file with ``data`` at ``path``. Raises OSError, and nothing is left."""
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
    """Twice as many bytes, in whole blocks."""
    return -(-2 * used // _BLOCK_BYTES) * _BLOCK_BYTES
