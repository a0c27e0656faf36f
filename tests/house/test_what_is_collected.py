"""What pytest collected is nothing to Python's garbage collector."""

from __future__ import annotations

import gc

import pytest


def test_no_collection_looks_at_the_tests_themselves(request: pytest.FixtureRequest) -> None:
    of_this_test: list[int] = []
    looked_at = gc.get_objects()
    assert any(each is of_this_test for each in looked_at)
    assert not any(each is request.node for each in looked_at)
