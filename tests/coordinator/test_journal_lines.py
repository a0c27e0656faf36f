"""The lines of a journal file: the example of the documentation page, entries of each kind, and
damaged lines."""

from __future__ import annotations

import random
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.classic.member_restarts import RestartingMember, SameClient
from coordinator.events import (
    AssignedMember,
    Cause,
    CommitRejected,
    JoinRefused,
    Loss,
    LostByAdmin,
    MovedOffset,
    OffsetsMovedBack,
)
from coordinator.journal import FORM
from coordinator.journal_entries import Flapping, Lost, MovedBack, Note, Rejections
from coordinator.journal_rebalance import LINE_BYTES_MAX, Change, Rebalance
from journal.entry import Entry
from journal.lines import NotALine, fields_of
from journal.lines import line_of as checked_line

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "journals.md"
NOON = 1_700_000_000_000


def rebalance() -> Rebalance:
    same = SameClient("app-0", "the same client came back")
    entry = Rebalance(7, NOON, 0, Cause.MEMBER_JOINED, "ä joined", "app-1", 4, ("x", "y"), NOON + 9)
    entry.phase, entry.outcome, entry.ended_ms = "ended", "assigned", NOON + 5
    entry.join_ms, entry.sync_ms, entry.join_ended_by = 3, 2, "all_joined"
    entry.generation_id, entry.protocol_name, entry.leader = 5, "range", "app-1"
    entry.protocol_type, entry.members, entry.from_empty = "consumer", 1, True
    entry.last_member, entry.last_wait_ms, entry.last_heard_ms = "app-1", 1, NOON - 4
    entry.changes = [
        Change(NOON, "app-1", None, "app", "/10.0.0.1", "joined", -1, same),
        Change(NOON, "i-1", "i", "app", "/10.0.0.1", "left", 8),
    ]
    entry.more_changes = 2
    entry.assigned = (AssignedMember("app-1", None, "app", "/10.0.0.1", b"\x00\xff"),)
    return entry


NEWER = {"streak", "ways", "instance", "first"}
"""Fields that lines of older Muster versions may lack."""

ENTRIES: list[Entry] = [
    rebalance(),
    Note(NOON, "group_removed", "line\nfeed and \udcff"),
    Note(NOON, "static_member_replaced", "a took over i", instance="i", times=7, since_ms=NOON - 9),
    MovedBack(
        NOON,
        OffsetsMovedBack("g", "", "reset", "/10.0.0.9", 2, (MovedOffset("t", 1, 2**62, 0),)),
        3,
    ),
    Lost(
        NOON,
        LostByAdmin("g", Loss.SKIPPED, "User:a", "cli", "/h", 1, (MovedOffset("t", 1, 5, 20),)),
        2,
        7,
    ),
    Rejections(NOON, CommitRejected("g", "app-1", 22, "app", "/10.0.0.1", "late"), count=9),
    Rejections(
        NOON,
        JoinRefused("g", "", 23, "app", "/10.0.0.1", "the client offers range"),
        since_ms=NOON - 5,
        times=3,
        is_over=True,
        count=9,
    ),
    Flapping("app-1", "app", "/10.0.0.1", 4, NOON, "other topics", True),
    RestartingMember(
        "app",
        "/10.0.0.1",
        2,
        NOON,
        "app-2",
        "app-1",
        40,
        [NOON - 9, NOON],
        ways={"left": 2},
        instance="i",
        first="app-0",
    ),
]


def test_group_example_on_the_journal_page_is_decoded_and_encoded() -> None:
    text = PAGE.read_text().split("\n## Groups\n")[1].split("```text\n")[1].split("```")[0].encode()
    first, second = text.splitlines(keepends=True)
    assert first == FORM.first_line
    assert FORM.version_of(first[:-1]) == FORM.version
    words = "app at /10.0.0.1 took over i-1 from app at /10.0.0.2"
    note = Note(NOON, "static_member_replaced", words)
    assert second == FORM.line_of("billing", note)
    assert FORM.entry_of(second[:-1]) == ("billing", note)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_journal_entry_of_each_kind_is_equal_after_it_is_written_and_read(entry: Entry) -> None:
    line = FORM.line_of("g", entry)
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert FORM.entry_of(line[:-1]) == ("g", entry)
    is_gone = isinstance(entry, Note) and entry.kind == "group_removed"
    assert FORM.name_of(line[:-1]) == ("g", is_gone)
    page = PAGE.read_text()
    assert f"| `{line.split(b'kind')[1].split(b',')[0].decode()[3:-1]}` |" in page


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_changed_or_truncated_journal_line_is_refused(entry: Entry) -> None:
    line = FORM.line_of("g", entry)[:-1]
    for position in range(len(line)):
        changed = bytearray(line)
        changed[position] ^= 0x01
        with pytest.raises(NotALine):
            FORM.entry_of(bytes(changed))
        with pytest.raises(NotALine):
            FORM.entry_of(line[:position])


def test_journal_line_with_missing_or_wrong_fields_is_refused() -> None:
    """One field is missing or has another type, as in a line of another Muster version."""
    chance = random.Random(7)
    for entry in ENTRIES:
        fields = fields_of(FORM.line_of("g", entry)[:-1])
        for name in fields:
            rest = {key: value for key, value in fields.items() if key != name}
            again = name in ("times", "since_ms") and isinstance(entry, Note)
            is_newer = name in NEWER or again  # older files may lack it
            with nullcontext() if is_newer else pytest.raises(NotALine):
                FORM.entry_of(checked_line(rest)[:-1])
            with suppress(NotALine):
                FORM.entry_of(
                    checked_line({**fields, name: chance.choice([None, 7, "x", [[]]])})[:-1]
                )
    for body in (b"[]", b"7", b"{", b"[" * 100_000):
        from protocol.records.crc import crc32c

        with pytest.raises(NotALine):
            FORM.entry_of(b"%08x %b" % (crc32c(body), body))


def test_journal_line_of_a_large_group_omits_assignments_that_do_not_fit() -> None:
    members = tuple(
        AssignedMember(f"app-{i}", None, "app", "/10.0.0.1", bytes(600)) for i in range(10_000)
    )
    entry = replace(rebalance(), assigned=members, members=10_000, awaited=("x" * 512,) * 10_000)
    line = FORM.line_of("g", entry)
    assert len(line) < LINE_BYTES_MAX
    _, read = FORM.entry_of(line[:-1])
    assert isinstance(read, Rebalance)
    assert 100 < len(read.assigned) < 10_000
    assert read.assigned == members[: len(read.assigned)]
    assert read.members == 10_000
