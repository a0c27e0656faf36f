"""A file of the operating system. Its descriptor is open while the object is referenced."""

from __future__ import annotations

import errno
import os

from protocol.buffer import Buffer

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of Linux
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)


class OsFile:
    """A file of the operating system. Its descriptor is closed when the object is no longer
    referenced."""

    __slots__ = ("_descriptor", "_no_wait", "path")

    def __init__(self, path: str, create: bool) -> None:
        self._descriptor = -1
        self._no_wait = _NO_WAIT
        """The flag for reads that do not wait; 0 if the system or the file system can't report
        whether data is in memory."""
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, 0o644)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # a signal, or Linux's limit of 2 GiB for one call
        got = len(data)
        while got < length:
            data = os.pread(self._descriptor, length - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Implements File.read_cached. If the file system, for example tmpfs, can't report whether
        data is in memory, all data counts as in memory. ext4, XFS, Btrfs and overlayfs on top of
        them can report it."""
        if not self._no_wait:
            return self.read(position, length)
        data = bytearray(length)
        try:
            got = os.preadv(self._descriptor, (data,), position, self._no_wait)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self._no_wait = 0
            return self.read(position, length)
        if got < length:
            del data[got:]
        return data

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_rest(position, memoryview(data), written)

    def _write_rest(self, position: int, data: memoryview, written: int) -> None:
        while written < len(data):
            count = os.pwrite(self._descriptor, data[written:], position + written)
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        """Implements File.reserve. Has no effect if the system or the disk does not support it."""
        import ctypes  # takes 3 ms, and is rarely needed

        allocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
        if allocate is None:
            return
        if allocate(self._descriptor, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size)):
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise OSError(code, os.strerror(code), self.path)

    def fsync(self) -> None:
        os.fdatasync(self._descriptor)

    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def opened(self) -> OsFile:
        return self

    def keep(self) -> None:
        """Implements File.keep. Has no effect, because the descriptor always stays open."""
