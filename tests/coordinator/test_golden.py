"""Each file in tests/golden has calls to a shard of groups with their expected outcomes. The
current outcomes must equal the expected outcomes.

After a change of behavior, run ``make golden`` and review the diff.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.coordinator.conversation import run_text

GOLDEN = Path(__file__).parent.parent / "golden"
CONVERSATIONS = sorted(path.name for path in GOLDEN.glob("*.txt"))

DOCS = Path(__file__).parent.parent.parent / "docs" / "internals" / "coordinator.md"


@cache
def ran(name: str) -> tuple[str, str, tuple[tuple[str, str, str], ...]]:
    """Executes the calls of a golden file. Returns three things: the text of the file, the text
    that the calls produce now, and a list with the request, the group state and the answer of each
    call."""
    text = (GOLDEN / name).read_text()
    again, conversation = run_text(text)
    seen = tuple((each.request, each.state, each.answer) for each in conversation.seen)
    return text, again, seen


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_calls_of_a_golden_file_have_their_recorded_outcomes(name: str) -> None:
    text, again, _ = ran(name)
    assert again == text


def cells() -> list[tuple[str, str, set[str]]]:
    """Returns request, group state and possible answers of each cell in the table of
    docs/internals/coordinator.md."""
    section = DOCS.read_text().split("## What each request gets")[1].split("\n## ")[0]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [
        (row[0], state, set(cell.split()))
        for row in rows
        for state, cell in zip(header[1:], row[1:], strict=True)
    ]


@cache
def shown() -> dict[tuple[str, str], set[str]]:
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name in CONVERSATIONS:
        for request, state, answer in ran(name)[2]:
            top, colon, each = answer.partition(": ")
            parts = [f"{top}:{code}" for code in each.split()] if colon else [answer]
            answers[request, state].update(parts)
    return answers


@pytest.mark.parametrize(("request_name", "state", "expected"), cells())
def test_golden_files_cover_each_request_in_each_group_state(
    request_name: str, state: str, expected: set[str]
) -> None:
    assert expected, "a cell says what it expects"
    assert expected <= shown()[request_name, state]


def test_table_of_the_coordinator_page_has_every_request_and_state() -> None:
    rows = {(request, state) for request, state, _ in cells()}
    assert len(rows) == 15 * 8
    assert set(shown()) == rows


def test_calls_in_the_example_of_the_coordinator_page_have_the_printed_outcomes() -> None:
    example = DOCS.read_text().split("```text\n")[1].split("```")[0]
    assert run_text(example)[0] == example
