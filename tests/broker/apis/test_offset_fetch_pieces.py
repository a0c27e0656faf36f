"""Tests that OffsetFetch splits a large request into calls with a bounded number of offsets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.offset_fetch import OFFSETS_AT_ONCE, _are_few, _pieces


class Offsets:
    """A fake offset cache with the methods that OffsetFetch uses. Each of its topics has
    ``partitions`` partitions."""

    def __init__(self, topics: int, partitions: int) -> None:
        self.kept = {f"topic-{number}": list(range(partitions)) for number in range(topics)}

    def topics(self, _: str) -> Any:
        return self.kept.keys()

    def partitions(self, _: str, topic: str) -> list[int]:
        return self.kept[topic]

    def has_more_than(self, _: str, count: int) -> bool:
        return sum(map(len, self.kept.values())) > count


def services_of(offsets: Offsets) -> Any:
    view = SimpleNamespace(offsets=offsets)
    return SimpleNamespace(groups=SimpleNamespace(view_of=lambda _: view))


def size_of(piece: Any) -> int:
    return sum(1 + len(partitions) for _, partitions in piece)


@pytest.mark.parametrize("is_named", [False, True], ids=["all", "named"])
def test_offset_fetch_of_many_partitions_is_split_into_bounded_calls(is_named: bool) -> None:
    offsets = Offsets(topics=400, partitions=500)
    services, named = services_of(offsets), list(offsets.kept.items()) if is_named else None
    assert not _are_few(services, "group", named)
    pieces = list(_pieces(services, "group", named))
    assert max(map(size_of, pieces)) <= OFFSETS_AT_ONCE
    assert len(pieces) < 120
    assert [topic for piece in pieces for topic in piece or ()] == list(offsets.kept.items())


def test_offset_fetch_of_few_offsets_is_not_divided_into_slices() -> None:
    offsets = Offsets(topics=2, partitions=500)
    services, named = services_of(offsets), list(offsets.kept.items())
    assert _are_few(services, "group", None)
    assert list(_pieces(services, "group", None)) == [None]
    assert list(_pieces(services, "group", named)) == [named]
    assert list(_pieces(services, "group", [])) == [[]]


def test_offset_fetch_makes_one_call_per_topic_when_each_topic_exceeds_the_bound_of_a_call() -> (
    None
):
    offsets = Offsets(topics=2, partitions=2 * OFFSETS_AT_ONCE)
    named = list(offsets.kept.items())
    assert list(_pieces(services_of(offsets), "group", None)) == [[each] for each in named]
