"""Lines about peers that do not get in: one a minute of each kind, and few of one address."""

from __future__ import annotations

from typing import Any

import pytest

from broker.net.clients import failure_lines as module
from broker.net.clients.failure_lines import ADDRESS_LINES_MAX, AGAIN_MS, KINDS_MAX, FailureLines
from tests.broker.mock_time import MockTime

HERE, THERE = "10.0.0.9", "10.0.0.8"


class Told:
    """A logger that keeps its lines, and what is told to it."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.time = MockTime()
        self.all = FailureLines(self.time)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})

    def fail(self, reason: str, address: str = HERE) -> dict[str, Any] | None:
        """The line that this makes; None where there is none."""
        before = len(self.lines)
        self.all.tell("login failed", address, reason)
        assert len(self.lines) <= before + 1
        return self.lines[before] if len(self.lines) > before else None


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(module, "logger", told)
    return told


def test_the_same_again_is_counted_and_told_after_a_minute(told: Told) -> None:
    assert told.fail("no such password") == {"event": "login failed", "reason": "no such password"}
    assert [told.fail("no such password") for _ in range(3)] == [None] * 3
    assert told.fail("no such password", THERE) is not None, "another address has its own"

    told.time.move(AGAIN_MS)

    again = told.fail("no such password")
    assert again is not None
    assert again["more_since_last_line"] == 3


def test_an_address_that_tries_names_has_few_lines_and_the_rest_is_counted(told: Told) -> None:
    lines = [told.fail(f"no user {number}") for number in range(ADDRESS_LINES_MAX + 7)]
    assert None not in lines[:ADDRESS_LINES_MAX]
    assert lines[ADDRESS_LINES_MAX:] == [None] * 7
    assert told.fail("no user 1", THERE) is not None

    told.time.move(AGAIN_MS)

    first = told.fail("no user at all")
    assert first is not None
    assert first["omitted_of_address"] == 7
    second = told.fail("no user either")
    assert second is not None
    assert "omitted_of_address" not in second, "it was told"


def test_what_is_remembered_has_a_bound(told: Told) -> None:
    for number in range(KINDS_MAX + 50):
        told.fail("no such password", f"10.0.{number // 250}.{number % 250}")

    assert len(told.all._told) <= KINDS_MAX
    assert len(told.all._lines) <= KINDS_MAX
