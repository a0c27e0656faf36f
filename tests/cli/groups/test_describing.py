"""What `muster groups describe` says of a group before its members and offsets."""

from __future__ import annotations

from typing import Any

from cli.groups.describing import headline
from cli.groups.judging import Told


def finding(verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "sentence": f"it is {verdict}",
        "advice": f"what helps against {verdict}",
        "command": None,
    }


def test_every_finding_is_shown_with_its_advice() -> None:
    told = Told("BLOCKED", 1, "it is BLOCKED", [finding("BLOCKED"), finding("FLAPPING")])
    assert headline(told) == [
        "BLOCKED: it is BLOCKED",
        "    what helps against BLOCKED",
        "FLAPPING: it is FLAPPING",
        "    what helps against FLAPPING",
    ]


def test_findings_that_the_answer_left_out_are_counted() -> None:
    told = Told("BLOCKED", 1, "it is BLOCKED", [finding("BLOCKED")], more_findings=7)
    assert headline(told)[-1] == "and 7 more findings, none of them worse"


def test_verdict_that_only_the_command_saw_comes_first() -> None:
    told = Told("OUT_OF_RANGE", None, "it is outside", [finding("FLAPPING")])
    assert headline(told)[:2] == ["OUT_OF_RANGE: it is outside", "FLAPPING: it is FLAPPING"]


def test_group_without_findings_is_said_to_be_ok() -> None:
    assert headline(Told("OK", None, "all is read")) == ["OK: all is read"]
    assert headline(Told()) == []
