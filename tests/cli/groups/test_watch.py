"""`muster groups watch`: a line for each changed verdict, and the table of groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli import clock
from cli.groups import watch
from cli.groups.watch import Verdicts
from tests.cli.running import run
from verdicts.names import Verdict

NOW_MS = 1_795_349_131_500
NOW = "2026-11-22T12:05:31Z"


def group(name: str, verdict: str = "OK", **more: Any) -> dict[str, Any]:
    return {
        "group": name,
        "verdict": verdict,
        "sentence": f"the sentence of {verdict}",
        "verdict_since_ms": NOW_MS,
        "state": "Stable",
        "members": 2,
        "lag": 7,
        "rebalances": 3,
        "last_why": "app-1-0a1b2c3d from /10.0.0.5 joined",
        **more,
    }


@pytest.fixture(autouse=True)
def _at_a_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: NOW_MS)


def test_watch_prints_a_line_only_when_a_verdict_changes() -> None:
    verdicts = Verdicts()

    assert verdicts.changes([group("billing"), group("audit", "LAGGING")]) == [
        f"{NOW}  audit is LAGGING: the sentence of LAGGING"
    ]
    assert verdicts.changes([group("billing"), group("audit", "LAGGING", sentence="new")]) == []
    assert verdicts.changes([group("billing", "STALLED"), group("audit")]) == [
        f"{NOW}  billing is STALLED: the sentence of STALLED",
        f"{NOW}  audit is OK again: the sentence of OK",
    ]
    assert verdicts.changes([]) == [
        f"{NOW}  billing no longer exists; the last verdict was STALLED"
    ]
    assert verdicts.changes([group("billing")]) == []


def test_watch_escapes_control_characters_of_a_group_name() -> None:
    [line] = Verdicts().changes([group("\x1b[2J\n", "STALLED")])

    assert line.startswith(f"{NOW}  \\x1b[2J\\n is STALLED: ")


class ScriptedApi:
    """A fake HTTP API that returns the given responses in order, and raises KeyboardInterrupt after
    the last one."""

    def __init__(self, answers: list[Any], journal: Any = None) -> None:
        self._answers = iter(answers)
        self._journal = journal

    def renew(self) -> None:
        pass

    def get(self, path: str, **_: Any) -> Any:
        if path.endswith("/journal"):
            return self._journal
        answer = next(self._answers, None)
        if answer is None:
            raise KeyboardInterrupt
        return json.loads(json.dumps(answer))


def watched(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], *words: str, journal: Any = None
) -> str:
    monkeypatch.setattr(watch, "api_at", lambda *_: ScriptedApi(answers, journal))
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    done = run("groups", "watch", *words)
    assert (done.code, done.err) == (130, "")
    return done.out


def test_watch_in_a_pipe_prints_line_and_table_when_a_verdict_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = {"groups": [group("audit"), group("billing")]}
    more_lag = {"groups": [group("audit", lag=9), group("billing", sentence="other words")]}
    stalled = {"groups": [group("audit"), group("billing", "STALLED")]}

    assert watched(monkeypatch, [calm, more_lag, stalled, stalled]) == (
        "GROUP    VERDICT  STATE   MEMBERS  LAG  REBALANCES  LAST REBALANCE\n"
        "audit    OK       Stable        2    7           3  app-1-0a1b2c3d from /10.0.0.5 joined\n"
        "billing  OK       Stable        2    7           3  app-1-0a1b2c3d from /10.0.0.5 joined\n"
        "\n"
        f"{NOW}  billing is STALLED: the sentence of STALLED\n"
        "GROUP    VERDICT  STATE   MEMBERS  LAG  REBALANCES  LAST REBALANCE\n"
        "billing  STALLED  Stable        2    7           3  app-1-0a1b2c3d from /10.0.0.5 joined\n"
        "audit    OK       Stable        2    7           3  app-1-0a1b2c3d from /10.0.0.5 joined\n"
    )


def test_watch_json_prints_one_line_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        {"groups": [group("billing")]},
        {"groups": [group("billing", lag=100, verdict_since_ms=1)]},
        {"groups": [group("billing", "STALLED")]},
        {"groups": []},
    ]
    lines = [json.loads(line) for line in watched(monkeypatch, answers, "--json").splitlines()]

    assert [(line.get("verdict"), line["state"]) for line in lines] == [
        ("OK", "Stable"),
        ("STALLED", "Stable"),
        (None, "Dead"),
    ]


def one(verdict: str, findings: list[Any]) -> dict[str, Any]:
    def member(name: str, silent_ms: int | None) -> dict[str, Any]:
        return {
            "member": name,
            "instance": None,
            "client": "app",
            "host": "/10.0.0.5",
            "last_heard_ms_ago": silent_ms,
            "waits_with": None if silent_ms is not None else "JoinGroup",
            "session_timeout_ms": 10_000,
            "partitions": {"orders": [0, 1, 5]},
            "assignment_bytes": 30,
        }

    long = "consumer-app-1-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    awaited = {"member": long, "instance": None, "words": "it is silent"}
    return {
        **group("billing", verdict),
        "generation": 4,
        "findings": findings,
        "more_findings": 0,
        "members": [member(long, 1400), member(f"{long}-b", None)],
        "awaits": {
            "phase": "join",
            "members": [awaited],
            "deadline_ms": 158_600,
            "ends_ms": 108_600,
            "remaining_ms": 58_600,
        },
    }


def test_watch_shows_unknown_lag_as_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = {"group": "billing", "rebalances": [], "findings": []}
    quiet = {"restored": None, "notes": [], "rejected_commits": [], "flapping": []}
    quiet |= {
        "returning": [],
        "moved_back": {"commits": 0, "last": []},
        "losses": {"last": []},
        "state": "Stable",
    }
    view = {**one("OK", []), "lag": None}
    drawn = watched(monkeypatch, [view], "billing", journal=journal | quiet)

    assert "  lag -  OK" in drawn


def test_watch_of_one_group_shows_findings_and_numbered_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finding = {
        "verdict": "BLOCKED",
        "sentence": "a rebalance waits",
        "advice": "take it out",
        "command": "muster groups evict billing app-1 --execute",
    }
    journal = {
        "group": "billing",
        "state": "Stable",
        "restored": None,
        "rebalances": [],
        "notes": [],
        "rejected_commits": [],
        "moved_back": {"commits": 0, "last": []},
        "losses": {"count": 0, "last": []},
        "flapping": [],
        "returning": [],
        "findings": [finding],
    }
    drawn = watched(monkeypatch, [one("BLOCKED", [finding])], "billing", journal=journal)

    assert drawn.splitlines()[:9] == [
        f"{NOW}  billing is BLOCKED: the sentence of BLOCKED",
        "billing  Stable  generation 4  lag 7  BLOCKED",
        "BLOCKED: a rebalance waits",
        "    take it out",
        "    $ muster groups evict billing app-1 --execute",
        "join phase: waiting for #1, at most 8.6 s more",
        "MEMBER  CLIENT  HOST      HEARD                PARTITIONS",
        "#1      app     10.0.0.5  1.4 s ago of 10.0 s  orders:0-1,5",
        "#2      app     10.0.0.5  waiting (JoinGroup)  orders:0-1,5",
    ]


def test_watch_sorts_groups_by_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(Verdict)
    shuffled = {"groups": [group(f"g-{verdict}", verdict) for verdict in sorted(names)]}
    drawn = watched(monkeypatch, [shuffled])
    rows = [line.split()[1] for line in drawn.splitlines() if line.startswith("g-")]

    assert rows == [verdict.value for verdict in names]
