"""Python's garbage collector skips the objects that pytest has created while it collected the
tests."""

from __future__ import annotations

import gc

import pytest


def test_garbage_collector_does_not_scan_the_test_items_of_pytest(
    request: pytest.FixtureRequest,
) -> None:
    of_this_test: list[int] = []
    looked_at = gc.get_objects()
    assert any(each is of_this_test for each in looked_at)
    assert not any(each is request.node for each in looked_at)
