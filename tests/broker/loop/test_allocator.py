"""Tests that a broker sets the thresholds of glibc's malloc once, unless an environment variable
sets them."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

from broker.loop import allocator
from broker.loop.allocator import keep_large_buffers
from cli import serve


class Library:
    """A fake C library that records the calls of mallopt."""

    def __init__(self, *, is_glibc: bool = True, result: int = 1) -> None:
        self.calls: list[tuple[int, int]] = []
        self._result = result
        if is_glibc:
            self.gnu_get_libc_version = lambda: b"2.36"

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return self._result


def loads(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)


def test_malloc_thresholds_of_glibc_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    loads(monkeypatch, library)
    assert keep_large_buffers({})
    # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
    assert library.calls == [
        (-3, allocator.MMAP_THRESHOLD_BYTES),
        (-1, allocator.TRIM_THRESHOLD_BYTES),
    ]


def test_malloc_threshold_that_glibc_rejects_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, Library(result=0))
    assert not keep_large_buffers({})


@pytest.mark.parametrize("name", allocator.ENVIRONMENT)
def test_malloc_thresholds_are_not_set_when_a_variable_of_glibc_sets_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    loads(monkeypatch, library)
    assert not keep_large_buffers({name: "1"})
    assert library.calls == []


def test_malloc_thresholds_are_not_set_in_a_c_library_other_than_glibc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library(is_glibc=False)
    loads(monkeypatch, library)
    assert not keep_large_buffers({})
    assert library.calls == []


def test_malloc_thresholds_are_skipped_when_no_c_library_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: Any) -> Any:
        raise OSError("no library")

    monkeypatch.setattr(ctypes, "CDLL", fails)
    assert not keep_large_buffers({})


def test_muster_serve_sets_the_malloc_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(gc, "disable", lambda: None)  # it would last beyond this test
    monkeypatch.setattr(allocator, "keep_large_buffers", lambda: calls.append(1))
    assert serve.serve(["--with-stdin"]) == serve.USAGE
    assert calls == [1]
