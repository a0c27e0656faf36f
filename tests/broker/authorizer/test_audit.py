"""Tests the audit log: each denial is logged at first, and repeated denials are counted. Log lines
and memory are bounded."""

from __future__ import annotations

from typing import Any

import pytest

from broker.authorizer import audit as module
from broker.authorizer.audit import DENIALS_MAX, LINES_MAX, NAME_SHOWN, NAMED_MAX, Audit
from broker.loop.internal_errors import InternalErrors
from security.acls.acl_decision import Rule
from security.acls.model import Operation, ResourceType
from tests.broker.authorizer.peers import peer
from tests.broker.edge import eventually
from tests.broker.mock_time import MockTime


class Lines:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    kept = Lines()
    monkeypatch.setattr(module, "logger", kept)
    return kept.lines


def denied(audit: Audit, name: str = "t", who: str = "User:alice", count: int = 1) -> None:
    audit.denied(
        peer(who, "/10.0.0.9"), Operation.READ, ResourceType.TOPIC, name,
        api="Fetch", count=count, rule=Rule.NO_ACL_DENIES,
    )  # fmt: skip


async def test_denial_line_has_principal_operation_resource_host_request_and_rule(
    lines: list[dict[str, Any]],
) -> None:
    audit = Audit(MockTime())
    denied(audit, count=3)
    audit.stop()
    assert lines == [
        {
            "event": "denied",
            "principal": "User:alice",
            "operation": "Read",
            "resource": "Topic:LITERAL:t",
            "host": "10.0.0.9",
            "request": "Fetch",
            "client_id": "billing",
            "rule": "no ACL matches",
            "count": 3,
            "logger": "audit",
        }
    ]
    assert audit.counts == {("Fetch", Operation.READ, ResourceType.TOPIC): 3}


async def test_repeated_denials_are_counted_and_logged_once_a_minute(
    lines: list[dict[str, Any]],
) -> None:
    time = MockTime()
    audit = Audit(time)
    for _ in range(1000):
        denied(audit)
        time.move(1)
    assert [line["count"] for line in lines] == [1]
    audit.log_denials()
    assert [line["count"] for line in lines] == [1, 999]
    audit.log_denials()
    audit.stop()
    assert len(lines) == 2
    [denial] = audit.denials()
    assert (denial.count, denial.last_ms - denial.first_ms) == (1000, 999)


async def test_number_of_logged_and_stored_denials_is_bounded(
    lines: list[dict[str, Any]],
) -> None:
    audit = Audit(MockTime())
    for number in range(DENIALS_MAX * 3):
        denied(audit, f"t{number}" + "x" * 1000)
    assert len(lines) == LINES_MAX
    audit.log_denials()
    assert len(lines) == 2 * LINES_MAX + 1
    told = sum(line["count"] for line in lines)
    assert told == DENIALS_MAX * 3, "none is lost in the counts"
    assert lines[-1]["event"] == "denials omitted from the log"
    assert len(audit.denials()) == DENIALS_MAX
    assert {len(each.name) for each in audit.denials()} == {NAME_SHOWN}
    assert audit.denials()[0].name.startswith(f"t{DENIALS_MAX * 3 - 1}x"), "the last one first"
    denied(audit, "the next minute")
    assert lines[-1]["resource"] == "Topic:LITERAL:the next minute"
    audit.stop()


async def test_broker_stop_logs_the_number_of_unlogged_denials(lines: list[dict[str, Any]]) -> None:
    audit = Audit(MockTime())
    denied(audit)
    denied(audit)
    audit.stop()
    assert [line["count"] for line in lines] == [1, 1]


async def test_audit_timer_runs_only_while_unlogged_denials_exist(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.001)
    audit = Audit(MockTime())
    timers = []
    real = audit._time.call_later
    monkeypatch.setattr(
        MockTime, "call_later", lambda _, *args: timers.append(args[0]) or real(*args)
    )
    denied(audit)
    denied(audit)
    await eventually(lambda: len(lines) == 2 and audit._timer is None)
    assert 1 <= len(timers) <= 3


def test_audit_line_of_a_change_has_principal_host_and_client_id(
    lines: list[dict[str, Any]],
) -> None:
    audit = Audit(MockTime())
    audit.changed(peer(), "ACLs added", count=1)
    assert lines == [
        {
            "event": "ACLs added",
            "by": "User:alice",
            "host": "127.0.0.1",
            "client_id": "billing",
            "count": 1,
            "logger": "audit",
        }
    ]
    audit.changed_all(peer(), "users were changed", [])
    audit.changed_all(peer(), "users were changed", [f"u{number}" for number in range(5000)])
    assert len(lines) == 2, "one line for a request, however much it changes"
    assert lines[1]["count"] == 5000
    assert lines[1]["first"].split("; ") == [f"u{number}" for number in range(NAMED_MAX)]


async def test_audit_does_not_raise_when_the_logger_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        def info(self, *_: object, **__: object) -> None:
            raise RuntimeError("a bug in a log line")

    monkeypatch.setattr(module, "logger", Broken())
    errors = InternalErrors()
    audit = Audit(MockTime(), errors)
    denied(audit)
    audit.changed(peer("User:alice", "/10.0.0.9"), "client quotas changed")
    audit.stop()
    assert errors.counts["observer"] == 2
