"""A file of the operating system, and which parts of it are in the page cache. The descriptor of a
file is open while the object is referenced."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from functools import cache

from protocol.buffer import Buffer

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of Linux
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""The errors of system calls that the system or the file system does not support."""
_CACHESTAT = 451
"""The number of the system call cachestat on every architecture. Source: Linux 6.5."""
_PAGE_BITS = mmap.PAGESIZE.bit_length() - 1

Pages = Callable[[int, int, int], int]
"""A function that returns how many pages of a part of a file are in memory. Its arguments are the
file's descriptor, and the position and length of the part. Raises OSError."""


@cache
def _pages() -> Pages:
    import ctypes  # takes 3 ms; only a consumer of large responses needs it

    call = ctypes.CDLL(None, use_errno=True).syscall
    numbers = ctypes.c_uint64 * 5
    reference, get_errno = ctypes.byref, ctypes.get_errno

    def pages(descriptor: int, position: int, length: int) -> int:
        found = numbers()
        asked = numbers(position, length)
        if call(_CACHESTAT, descriptor, reference(asked), reference(found), 0):
            raise OSError(get_errno(), "cachestat failed")
        return found[0]

    return pages


class PageCache:
    """Checks whether parts of files are in the page cache."""

    __slots__ = ("_is_asked",)

    def __init__(self) -> None:
        self._is_asked = True

    def holds(self, descriptor: int, position: int, length: int) -> bool:
        """Returns True if all of ``length`` bytes from ``position`` are in memory. Returns False
        also if the system or the file system can't report it, or if the file is shorter."""
        if not self._is_asked or length <= 0:
            return False
        try:
            found = _pages()(descriptor, position, length)
        except OSError:
            self._is_asked = False
            return False
        last = position + length - 1
        return found >= (last >> _PAGE_BITS) - (position >> _PAGE_BITS) + 1


PAGE_CACHE = PageCache()


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
        """Implements File.read_cached. ext4, XFS, Btrfs, and overlayfs on top of them, can report
        whether data is in memory. On other file systems, such as tmpfs, all data counts as in
        memory."""
        if not self._no_wait:
            return self.read(position, length)
        data = bytearray(length)
        try:
            got = os.preadv(self._descriptor, (data,), position, self._no_wait)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._no_wait = 0
            return self.read(position, length)
        if got < length:
            del data[got:]
        return data

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:
        if not PAGE_CACHE.holds(self._descriptor, position, length):
            return 0
        try:
            return os.sendfile(socket_descriptor, self._descriptor, position, length)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return 0  # the file system does not support it

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
