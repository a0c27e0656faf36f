"""A ring keeps only its last entries, each with a key, and knows the sum of the entry sizes."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from journal.pages import Bytes, Ring


@dataclass
class Thing:
    text: str

    def size(self) -> int:
        return len(self.text)


class Counted(Ring[Thing]):
    def __init__(self, most: int) -> None:
        self.counted = Bytes()
        super().__init__(most, self.counted)


def of(ring: Ring[Thing]) -> list[str]:
    return [each.text for each in ring]


def test_ring_keeps_the_last_entries_and_drops_the_oldest() -> None:
    ring = Counted(3)
    for number in range(1, 6):
        ring.put(number, Thing("x" * number))
    assert (of(ring), ring.number, ring.counted.count) == (["xxx", "xxxx", "xxxxx"], 5, 12)
    assert ring.last is ring.get(5)


def test_method_put_with_an_existing_key_removes_the_old_entry_and_appends_the_new_entry() -> None:
    ring = Counted(2)
    ring.put("a", Thing("a"))
    ring.put("b", Thing("b"))
    ring.put("a", Thing("aaa"))
    assert (of(ring), ring.counted.count) == (["b", "aaa"], 4)
    ring.put("c", Thing("c"))
    assert of(ring) == ["aaa", "c"]


def test_empty_ring_has_no_last_entry() -> None:
    ring = Counted(2)
    assert ring.last is None
    assert not ring.drop_oldest()
    assert ring.take("a") is None


def test_size_of_a_changed_ring_entry_is_updated_only_when_measure_or_grow_is_called() -> None:
    ring = Counted(2)
    thing = Thing("a")
    ring.put("a", thing)
    thing.text = "aaaa"
    assert ring.counted.count == 1
    ring.measure("a")
    assert ring.counted.count == 4
    thing.text += "aa"
    ring.grow("a", 2)
    assert ring.counted.count == 6
    thing.text = ""
    assert ring.take("a") is thing
    assert ring.counted.count == 0
    ring.measure("a")
    ring.grow("a", 9)
    assert ring.counted.count == 0, "it is not kept any more"


@pytest.mark.parametrize("seed", range(20))
def test_size_of_a_ring_is_the_sum_of_its_entry_sizes_after_random_steps(seed: int) -> None:
    chance = random.Random(seed)
    ring = Counted(5)
    kept: dict[int, Thing] = {}
    for _ in range(500):
        key, thing = chance.randrange(9), Thing("x" * chance.randrange(50))
        match chance.randrange(5):
            case 0 | 1:
                ring.put(key, thing)
                assert ring.number == key
                kept.pop(key, None)
                kept[key] = thing
                while len(kept) > 5:
                    del kept[next(iter(kept))]
            case 2:
                assert ring.take(key) is kept.pop(key, None)
            case 3 if key in kept:
                kept[key].text += "yy"
                ring.measure(key)
            case 4 if chance.random() < 0.1:
                assert ring.take_all() == list(kept.values())
                kept.clear()
            case _:
                assert ring.get(key) is kept.get(key)
        assert list(ring) == list(kept.values())
        assert ring.counted.count == sum(each.size() for each in kept.values())
