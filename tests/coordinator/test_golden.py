"""The golden conversations say what they said when they were last reviewed.

After a change of behaviour: ``make golden``, and review the diff.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.coordinator.conversation import run_text

GOLDEN = Path(__file__).parent.parent / "golden"
CONVERSATIONS = sorted(path.name for path in GOLDEN.glob("*.txt"))

# Which request gets what in which state. A column is a state as it is on the wire, a cell what the
# golden conversations must have shown there: error codes, "park" for a request that waits, and
# for LeaveGroup and OffsetDelete "top: each". Every cell of the table that Kafka's behaviour fixes
# is here, save the rows of transactional commits, which this coordinator does not serve.
MATRIX = """
request             | no group | Empty     | PreparingRebalance      | CompletingRebalance | Stable                  | Dead | loading | not owner
JoinGroup known     | 25       | 25        | park 25                 | 0 park 25           | 0 park 25               | 15   | 14      | 16
JoinGroup new       | 0 79     | 0 79      | park 79                 | park 23             | park 79 23              | 15   | 14      | 16
SyncGroup           | 25       | 25        | 27 25                   | park 0 22 23 25     | 0 22 23 25              | 15   | 27      | 16
Heartbeat           | 25       | 25        | 27 22 25                | 0 22 25             | 0 22 25                 | 15   | 0       | 16
LeaveGroup          | 0:25     | 0:25      | 0:0 0:25                | 0:0 0:25            | 0:0 0:25                | 15   | 14      | 16
OffsetCommit        | 22       | 25        | 0 22                    | 27 22 25            | 0 22 25                 | 15   | 14      | 16
OffsetCommit simple | 0        | 0         | 25                      | 25                  | 25                      | 15   | 14      | 16
OffsetFetch         | 0        | 0         | 0                       | 0                   | 0                       | 0    | 14      | 16
DescribeGroups      | 0        | 0         | 0                       | 0                   | 0                       | 0    | 14      | 16
ListGroups          | 0        | 0         | 0                       | 0                   | 0                       | 0    | 14      | 16
DeleteGroups        | 69       | 0         | 68                      | 68                  | 68                      | 69   | 14      | 16
OffsetDelete        | 69       | 0:0       | 0:86 0:0 68             | 0:86 68             | 0:86 0:0 68             | 69   | 14      | 16
"""  # noqa: E501  (a table)


@cache
def ran(name: str) -> tuple[str, str, tuple[tuple[str, str, str], ...]]:
    """A conversation as it is, as it runs now, and (request, state, answer) of each call."""
    text = (GOLDEN / name).read_text()
    again, conversation = run_text(text)
    seen = tuple((each.request, each.state, each.answer) for each in conversation.seen)
    return text, again, seen


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_it_was_reviewed(name: str) -> None:
    text, again, _ = ran(name)
    assert again == text


def cells() -> list[tuple[str, str, set[str]]]:
    header, *rows = [line.split("|") for line in MATRIX.strip().splitlines()]
    states = [name.strip() for name in header[1:]]
    return [
        (row[0].strip(), state, set(cell.split()))
        for row in rows
        for state, cell in zip(states, row[1:], strict=True)
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
def test_the_conversations_cover_each_state_by_each_request(
    request_name: str, state: str, expected: set[str]
) -> None:
    assert expected, "a cell says what it expects"
    assert expected <= shown()[request_name, state]


def test_no_request_is_in_no_row_of_the_matrix() -> None:
    rows = {(request, state) for request, state, _ in cells()}
    assert set(shown()) <= rows
