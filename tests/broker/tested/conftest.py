"""One `muster serve --test` for a module's tests, reset before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tested import Tested, tested


@pytest.fixture(scope="module")
def process() -> Iterator[Tested]:
    with tested() as started:
        yield started


@pytest.fixture
def muster(process: Tested) -> Tested:
    process.post("/reset")
    return process
