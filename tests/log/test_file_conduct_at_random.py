"""Tests that random calls have the same results in the real file system and in the file system in
memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import DirectoryLocked
from log.files.filesystem import File, FileSystem, Lock, OsFileSystem
from tests.log.file_systems import in_memory

NAMES = ["f", "g", "d", "d/f", "d/g", "d/e", "d/e/f", "f/x", ""]
SIZES = st.integers(0, 40)

CALLS = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(
        st.sampled_from(
            ["exists", "list", "remove", "make_directory", "remove_directory", "fsync_directory",
             "lock", "release"]
        ),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("write"), SIZES, SIZES, st.binary(max_size=30)),
    st.tuples(st.just("read"), SIZES, SIZES, SIZES),
    st.tuples(st.just("truncate"), SIZES, SIZES),
    st.tuples(st.just("reserve"), SIZES, st.integers(1, 10_000)),
    st.tuples(st.just("size"), SIZES),
)  # fmt: skip


class Caller:
    """Calls methods of a file system by name. Returns open files as numbers and errors as values,
    so that the results of two file systems can be compared."""

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self.fs = fs
        self.root = str(root)
        self.files: list[File] = []
        self.locks: dict[str, Lock] = {}

    def path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    def call(self, what: str, *given: Any) -> object:
        method: Callable[..., object] = getattr(self, f"_{what}", None) or getattr(self.fs, what)
        if isinstance(given[0], str):
            given = tuple(self.path(each) if isinstance(each, str) else each for each in given)
        try:
            return method(*given)
        except OSError as error:
            named = [str(each) for each in (error.filename, error.filename2) if each is not None]
            return type(error), error.errno, [each.removeprefix(self.root) for each in named]
        except DirectoryLocked:
            return "locked"

    def _open(self, path: str, create: bool) -> object:
        file = self.fs.open(path, create)
        file.keep()
        self.files.append(file)
        return None

    def _rename(self, old: str, new: str) -> object:
        named = next((each for each in self.files if each.path == old), None)
        self.fs.rename(old, new, named)
        return [each.path.removeprefix(self.root) for each in self.files]

    def _remove_directory(self, path: str) -> object:
        return None if path == self.root else self.fs.remove_directory(path)

    def _lock(self, path: str) -> object:
        self.locks[path] = self.fs.lock(path)
        return None

    def _release(self, path: str) -> object:
        lock = self.locks.pop(path, None)
        return None if lock is None else lock.release()

    def _file(self, number: int) -> File | None:
        return self.files[number % len(self.files)] if self.files else None

    def _write(self, number: int, position: int, data: bytes) -> object:
        file = self._file(number)
        return file and file.write(position, data)

    def _read(self, number: int, position: int, length: int) -> object:
        file = self._file(number)
        return file and (file.read(position, length), file.read_cached(position, length))

    def _truncate(self, number: int, size: int) -> object:
        file = self._file(number)
        return file and file.truncate(size)

    def _reserve(self, number: int, size: int) -> object:
        file = self._file(number)
        return file and file.reserve(size)

    def _size(self, number: int) -> object:
        file = self._file(number)
        return file and file.size()

    def all_of(self, name: str = "") -> object:
        """Returns the content of the file ``name``, or a dict of all names below the directory
        ``name``."""
        path = self.path(name)
        try:
            below = [each if not name else f"{name}/{each}" for each in self.fs.list(path)]
            return {each: self.all_of(each) for each in below}
        except NotADirectoryError:
            return self.fs.open(path).read(0, 1000)


@pytest.mark.campaign
@given(st.lists(CALLS, max_size=60))
@settings(max_examples=300, deadline=None)
def test_files_in_memory_behave_as_real_files(calls: list[tuple[Any, ...]]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        real, memory = Caller(OsFileSystem(), root), Caller(in_memory(root), root)
        for call in calls:
            assert memory.call(*call) == real.call(*call), call
        assert memory.all_of() == real.all_of()
        for lock in real.locks.values():
            lock.release()
    finally:
        shutil.rmtree(root)
