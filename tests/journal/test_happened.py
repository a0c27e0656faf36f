"""Entries of the cluster's journal: their form as lines, and the bounded number of entries on each
page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal.happened import FORM, KEPT, Happened, HappenedPage, Kind
from journal.lines import NotALine, line_of
from journal.texts import Source
from journal.unsaved import Unsaved

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "journals.md"

MOVED = Happened(
    1_700_000_000_000,
    Kind.LEADER,
    "offline",
    "the leader, broker 3, is no longer registered in ZooKeeper; broker 1 is the first live member"
    " of the ISR",
    controller_epoch=2,
    leader=1,
    leader_before=3,
    leader_epoch=4,
    isr=(1, 2),
    isr_before=(3, 1, 2),
)


def test_cluster_example_on_the_journal_page_is_decoded_and_encoded() -> None:
    section = PAGE.read_text().split("\n## Cluster\n")[1]
    [example] = re.findall(r"```text\n(.*?)```", section, re.DOTALL)

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
def test_journal_line_with_a_wrong_field_is_rejected(fields: dict[str, object]) -> None:
    with pytest.raises(NotALine):
        FORM.entry_of(line_of(fields).rstrip(b"\n"))


def at(at_ms: int, kind: Kind = Kind.LEADER, broker: int = -1) -> Happened:
    return Happened(at_ms, kind, "offline", "it is so", broker)


def test_journal_page_keeps_the_last_entries_of_each_kind_from_each_broker() -> None:
    page = HappenedPage("t-0")
    for at_ms in range(KEPT + 3):
        page.add(at(at_ms))
        page.add(at(at_ms, Kind.ISR, broker=3))
    page.add(at(99, Kind.ISR, broker=2))

    assert [each.at_ms for each in page.entries()] == [
        *[at_ms for at_ms in range(3, KEPT + 3) for _ in range(2)],
        99,
    ]
    assert page.last(Kind.ISR, 3) == at(KEPT + 2, Kind.ISR, broker=3)
    assert page.last(Kind.MOVE) is None


def test_unsaved_entries_include_added_entries_but_no_restored_entries() -> None:
    unsaved = Unsaved()
    page = HappenedPage("t-0", unsaved)
    page.restore(at(1))
    page.add(at(2))
    page.add(at(3))

    assert unsaved.take(10) == [("t-0", at(2)), ("t-0", at(3))]
