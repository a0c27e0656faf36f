"""Log lines about refused clients: at most one per minute and reason, and a bounded number for each
address."""

from __future__ import annotations

from typing import Any

import pytest

from broker.net.clients import failure_lines as module
from broker.net.clients.failure_lines import ADDRESS_LINES_MAX, AGAIN_MS, KINDS_MAX, FailureLines
from tests.broker.mock_time import MockTime

HERE, THERE = "10.0.0.9", "10.0.0.8"


class Lines:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.time = MockTime()
        self.all = FailureLines(self.time)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})

    def fail(self, reason: str, address: str = HERE) -> dict[str, Any] | None:
        """Logs a failure. Returns the log line, or None if the failure was counted but not
        logged."""
        before = len(self.lines)
        self.all.report("login failed", address, reason)
        assert len(self.lines) <= before + 1
        return self.lines[before] if len(self.lines) > before else None


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Lines:
    log = Lines()
    monkeypatch.setattr(module, "logger", log)
    return log


def test_repetitions_of_a_failure_are_counted_and_logged_after_a_minute(log: Lines) -> None:
    assert log.fail("no such password") == {"event": "login failed", "reason": "no such password"}
    assert [log.fail("no such password") for _ in range(3)] == [None] * 3
    assert log.fail("no such password", THERE) is not None, "another address has its own"

    log.time.move(AGAIN_MS)

    again = log.fail("no such password")
    assert again is not None
    assert again["more_since_last_line"] == 3


def test_failures_of_an_address_above_the_limit_of_log_lines_are_counted_but_not_logged(
    log: Lines,
) -> None:
    lines = [log.fail(f"no user {number}") for number in range(ADDRESS_LINES_MAX + 7)]
    assert None not in lines[:ADDRESS_LINES_MAX]
    assert lines[ADDRESS_LINES_MAX:] == [None] * 7
    assert log.fail("no user 1", THERE) is not None

    log.time.move(AGAIN_MS)

    first = log.fail("no user at all")
    assert first is not None
    assert first["omitted_of_address"] == 7
    second = log.fail("no user either")
    assert second is not None
    assert "omitted_of_address" not in second, "it was logged"


def test_number_of_stored_failures_is_bounded(log: Lines) -> None:
    for number in range(KINDS_MAX + 50):
        log.fail("no such password", f"10.0.{number // 250}.{number % 250}")

    assert len(log.all._logged) <= KINDS_MAX
    assert len(log.all._lines) <= KINDS_MAX
