"""The differential tester itself: traces depend only on their seeds, and a planted difference is
found and its trace shortened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import CHECKOUT, Broker
from tests.interop.differential.brokers import COMMON
from tests.interop.differential.campaign import Campaign
from tests.interop.differential.coverage import COLUMNS, ROWS, Coverage
from tests.interop.differential.generator import trace_of
from tests.interop.differential.noise import NOISE, versions
from tests.interop.differential.rules import REASONS, top_protocols
from tests.interop.differential.wire import Target, Wire

PRINT = "from tests.interop.differential.generator import trace_of; print(trace_of(77))"


def test_trace_depends_only_on_its_seed() -> None:
    assert trace_of(77) == trace_of(77)
    assert trace_of(77) != trace_of(78)
    elsewhere = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=CHECKOUT,
        env={"PYTHONHASHSEED": "12345", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert elsewhere.stdout.strip() == str(trace_of(77))


def test_traces_contain_every_version_of_every_api() -> None:
    asked = {(step.api, step.version) for seed in range(40) for step in trace_of(seed).steps}
    assert asked == {(api, version) for api in NOISE for version in versions(api)}


def test_coverage_of_a_differential_run_without_steps_reports_every_cell_as_missing() -> None:
    missing = Coverage().missing()
    assert "JoinGroup v9 was compared 0 times, not 20" in missing
    assert "no Heartbeat in state Stable" in missing
    assert len(missing) == sum(len(versions(api)) for api in NOISE) + len(ROWS) * len(COLUMNS)


def test_differences_page_lists_exactly_the_accepted_differences() -> None:
    page = (CHECKOUT / "docs" / "use" / "differences.md").read_text().split("## Transactions")[0]
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    known = {reason.text for reason in REASONS}
    assert rows == known | {"what"}


def test_function_top_protocols_returns_the_common_protocols_with_most_votes() -> None:
    assert top_protocols([["range", "sticky"], ["sticky", "range"]]) == {"range", "sticky"}
    assert top_protocols([["range", "sticky"], ["sticky", "range"], ["range"]]) == {"range"}
    assert top_protocols([["odd", "sticky"], ["sticky", "range"]]) == {"sticky"}


class LyingWire(Wire):
    """A connection that changes each error 0 of Heartbeat v3 to 27."""

    def send(
        self, name: str, version: int, value: dict[str, Any]
    ) -> asyncio.Future[dict[str, Any]]:
        future = super().send(name, version, value)
        if (name, version) != ("Heartbeat", 3):
            return future
        return asyncio.ensure_future(self._lie(future))  # type: ignore[return-value]

    async def _lie(self, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        answer = await future
        return {**answer, "error_code": answer["error_code"] or 27}


@pytest.mark.smoke
@pytest.mark.planted("traces of groups compared with Kafka")
@pytest.mark.interop
def test_planted_difference_is_found_and_its_trace_is_shortened(tmp_path: Path) -> None:
    brokers = [Broker(tmp_path / name / "data", COMMON) for name in ("a", "b")]
    try:
        first, second = (broker.start() for broker in brokers)
        truth = Campaign([Target("a", first.port), Target("b", second.port)], 1, 400)
        asyncio.run(truth.run())
        assert not truth.failed, truth.differences()
        assert truth.coverage.steps >= 400

        liar = Target("liar", first.port, connection=LyingWire)
        campaign = Campaign([liar, Target("b", second.port)], 1, 2000, stop_after=1)
        asyncio.run(campaign.run())
        [found, *_] = campaign.failed
        assert "error_code 27 against 0" in found.differences[0]
        assert found.done[-1].api == "Heartbeat"
        assert len(found.done) <= 4, "a join, perhaps a second one, a sync and the heartbeat"
        assert f"SEED={found.trace.seed}" in campaign.differences()
    finally:
        for broker in brokers:
            broker.kill()
