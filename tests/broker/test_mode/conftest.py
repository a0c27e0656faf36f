"""Runs one `muster serve --test` process per test module and resets it before each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.test_mode.clock import mock_time
from tests.tested import Tested, tested


@pytest.fixture(scope="module")
def process() -> Iterator[Tested]:
    with tested() as started:
        yield started


@pytest.fixture
def muster(process: Tested) -> Tested:
    process.post("/reset")
    return process


@pytest.fixture(autouse=True)
def exact_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each advance of the mock clock stop at every timer, even if the advance takes long on a
    slow machine."""
    monkeypatch.setattr(mock_time, "EXACT_S", 3600.0)
