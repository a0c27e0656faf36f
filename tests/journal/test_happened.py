"""Entries of the journal of a cluster: their lines, and the rings that keep them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal.happened import FORM, Happened, Kind
from journal.lines import NotALine, line_of
from journal.rings import Rings
from journal.texts import Source
from journal.unsaved import Unsaved

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster-journal.md"

MOVED = Happened(
    1_700_000_000_000,
    Kind.LEADER,
    "offline",
    "broker 3, which led, is gone from ZooKeeper; broker 1 is the first live member of the ISR",
    controller_epoch=2,
    leader=1,
    leader_before=3,
    leader_epoch=4,
    isr=(1, 2),
    isr_before=(3, 1, 2),
)


def test_the_example_of_the_page_is_what_we_write_and_read() -> None:
    [example] = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert example.encode() == FORM.first_line + FORM.line_of("orders-0", MOVED)
    line = example.encode().splitlines()[1]
    assert FORM.entry_of(line) == ("orders-0", MOVED._replace(source=Source.KEPT))
    assert FORM.name_of(line) == ("orders-0", False)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "t-0"},
        {"name": "t-0", "at_ms": 1, "kind": "weather", "cause": "rain", "why": "it rains"},
        {"name": "t-0", "at_ms": 1, "kind": "isr", "cause": "in", "why": 7},
        {"name": "t-0", "at_ms": "1", "kind": "isr", "cause": "in", "why": ""},
        {"name": "t-0", "at_ms": 1, "kind": "isr", "cause": "in", "why": "", "isr": ["1"]},
        {"name": "t-0", "at_ms": 1, "kind": "isr", "cause": "in", "why": "", "isr": 1},
        {"name": "t-0", "at_ms": 1, "kind": "isr", "cause": "in", "why": "", "weather": 1},
    ],
)
def test_a_line_that_is_no_entry_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(NotALine):
        FORM.entry_of(line_of(fields).rstrip(b"\n"))


def rings(kept: int = 2, bytes_kept: int = 1 << 20, **more: Unsaved) -> Rings[Happened]:
    return Rings(lambda each: each.ring, kept, bytes_kept, **more)


def at(at_ms: int, kind: Kind = Kind.LEADER, broker: int = -1) -> Happened:
    return Happened(at_ms, kind, "offline", "it is so", broker)


def test_a_ring_keeps_the_last_of_each_kind_and_of_each_replica() -> None:
    kept = rings()
    for at_ms in range(5):
        kept.add("t-0", at(at_ms))
        kept.add("t-0", at(at_ms, Kind.ISR, broker=3))
    kept.add("t-0", at(9, Kind.ISR, broker=2))

    assert [each.at_ms for each in kept.of("t-0")] == [3, 4, 3, 4, 9]
    assert kept.last("t-0", (Kind.ISR, 3)) == at(4, Kind.ISR, broker=3)
    assert kept.last("t-0", (Kind.MOVE, -1)) is None
    assert kept.of("t-1") == []


def test_the_name_that_was_quiet_for_longest_is_forgotten_first() -> None:
    size = at(0).size()
    kept = rings(bytes_kept=3 * (size + 600))
    for name in ("a-0", "b-0", "a-0", "c-0", "d-0"):
        kept.add(name, at(1))

    assert kept.of("b-0") == []
    assert [name for name, _ in kept.latest()] == ["d-0", "c-0"]
    assert kept.bytes <= 3 * (size + 600)
    for name in ("c-0", "d-0"):
        kept.forget(name)
    assert kept.bytes == 0


def test_what_is_new_is_to_be_written_down_and_what_was_read_is_not() -> None:
    unsaved = Unsaved()
    kept = rings(unsaved=unsaved)
    kept.restore("t-0", at(1))
    kept.add("t-0", at(2))
    kept.add("t-0", at(3))

    assert unsaved.take(10) == [("t-0", at(2)), ("t-0", at(3))]
