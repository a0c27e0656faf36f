"""`muster groups describe` prints a group's findings before its members and offsets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cli.groups.describing import headline
from cli.groups.judging import GroupHealth
from tests.broker.net.clients.test_unsupported import CLASSIC_ONLY
from tests.broker.seen import seeing
from tests.broker.serving import asked
from tests.cli.running import Ran, run


def finding(verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "sentence": f"it is {verdict}",
        "advice": f"what helps against {verdict}",
        "command": None,
    }


def test_headline_of_groups_describe_shows_each_finding_with_its_advice() -> None:
    told = GroupHealth("BLOCKED", 1, "it is BLOCKED", [finding("BLOCKED"), finding("FLAPPING")])
    assert headline(told) == [
        "BLOCKED: it is BLOCKED",
        "    what helps against BLOCKED",
        "FLAPPING: it is FLAPPING",
        "    what helps against FLAPPING",
    ]


def test_headline_shows_the_number_of_findings_that_the_response_omits() -> None:
    told = GroupHealth("BLOCKED", 1, "it is BLOCKED", [finding("BLOCKED")], more_findings=7)
    assert headline(told)[-1] == "and 7 more findings of the same or lower severity"


def test_groups_describe_shows_the_verdict_of_the_group_before_other_findings() -> None:
    told = GroupHealth("OUT_OF_RANGE", None, "it is outside", [finding("FLAPPING")])
    assert headline(told)[:2] == ["OUT_OF_RANGE: it is outside", "FLAPPING: it is FLAPPING"]


def test_headline_of_a_group_without_findings_shows_ok() -> None:
    assert headline(GroupHealth("OK", None, "all is read")) == ["OK: all is read"]
    assert headline(GroupHealth()) == []


def test_groups_describe_shows_a_group_when_all_joins_by_its_kip_848_clients_were_refused(
    tmp_path: Path,
) -> None:
    described, unknown, why = asyncio.run(_commands(tmp_path))

    assert described.code == 0, described.err
    assert described.out.startswith("billing  Dead")
    for shown in (described.out, why.out):
        text = " ".join(shown.split())
        assert "REFUSED: client 'app' on 127.0.0.1 has not been served" in text
        assert "unsupported request: the client uses group.protocol=consumer" in text
        assert "set group.protocol=classic in the client" in text
    assert unknown.code != 0
    assert "group other: GROUP_ID_NOT_FOUND" in unknown.err


async def _commands(folder: Path) -> list[Ran]:
    async with seeing(folder, CLASSIC_ONLY) as seen:
        value = {"group_id": "billing", "member_id": "m", "member_epoch": 0}
        heartbeat = ("ConsumerGroupHeartbeat", 1, value)
        await asked(seen.broker, lambda wire: (wire.send(*heartbeat), wire.is_closed()), "app")
        port = seen.broker.sockets.addresses()[0][1]
        at = ("--bootstrap", f"127.0.0.1:{port}", "--http", seen.address)

        lines = (
            ("groups", "describe", "billing"),
            ("groups", "describe", "billing", "other"),
            ("groups", "why", "billing"),
        )
        return [await asyncio.to_thread(run, *line, *at) for line in lines]
