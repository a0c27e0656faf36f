"""Each interface of Muster shows the verdicts of eight groups within a minute. The thresholds are a
tenth of their defaults, so that the test takes seconds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.brokers import KIND, Broker
from tests.cli.running import run
from tests.dashboards.prometheus import scraping
from tests.interop.fleet import EXPECTED, TOPIC_OF, fleet
from tests.page.browser import browsing
from tests.page.scene import PageBroker
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the verdicts are Muster's own"),
]
SETTINGS = {
    "group.verdict.blocked.ms": "2000",
    "group.verdict.stalled.ms": "4000",
    "group.verdict.stuck.record.ms": "4000",
    "group.verdict.abandoned.ms": "4000",
    "group.verdict.lagging.ms": "60000",
}
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    """Yields a broker on which the `Fleet` runs."""
    broker = PageBroker(tmp_path_factory.mktemp("trial") / "data", SETTINGS)
    broker.start()
    try:
        with fleet(broker):
            yield broker
    finally:
        broker.kill()


def agrees(what: str, read: Callable[[], dict[str, str]]) -> None:
    """Waits until an interface shows the expected verdict of each group. ``read`` returns the
    verdicts that the interface shows."""
    last: dict[str, str] = {}

    def look() -> bool:
        nonlocal last
        found = read()
        last = {group: found.get(group, "none") for group in EXPECTED}
        return last == EXPECTED

    try:
        until(f"{what} gives each group its verdict", look, WITHIN_S)
    except AssertionError as error:
        wrong = {g: (v, EXPECTED[g]) for g, v in last.items() if v != EXPECTED[g]}
        raise AssertionError(f"{error}; given and expected: {wrong}") from None


def cli(broker: Broker, *words: str) -> Any:
    done = run(*words, "--json", "--bootstrap", broker.bootstrap)
    assert done.code == 0, done
    return done.json


def test_api_has_the_verdict_of_each_group(trial: PageBroker) -> None:
    def read() -> dict[str, str]:
        rows = httpx.get(f"http://{trial.http}/api/groups").json()["groups"]
        return {row["group"]: row["verdict"] for row in rows}

    def read_one_by_one() -> dict[str, str]:
        found = {}
        for group in EXPECTED:
            told = httpx.get(f"http://{trial.http}/api/groups/{group}").json()
            found[group] = told["verdict"]
            first = [each["verdict"] for each in told["findings"]][:1]
            assert first in ([told["verdict"]], [])
        return found

    agrees("/api/groups", read)
    agrees("/api/groups/GROUP", read_one_by_one)


def test_metrics_have_the_verdict_of_each_group(trial: PageBroker) -> None:
    def read() -> dict[str, str]:
        text = httpx.get(f"http://{trial.http}/metrics").text
        series = [line for line in text.splitlines() if line.startswith("muster_group_verdict{")]
        labels = [dict(_labels(line)) for line in series if line.endswith((" 1", " 1.0"))]
        return {each["consumergroup"]: each["verdict"] for each in labels}

    agrees("/metrics", read)


def _labels(line: str) -> Iterator[tuple[str, str]]:
    for pair in line[line.index("{") + 1 : line.index("}")].split(","):
        name, _, value = pair.partition("=")
        yield name, value.strip('"')


def test_groups_list_has_the_verdict_of_each_group(trial: PageBroker) -> None:
    agrees(
        "groups list",
        lambda: {row["group"]: row["verdict"] for row in cli(trial, "groups", "list")},
    )


@pytest.mark.parametrize("command", ["describe", "why"])
def test_command_for_one_group_prints_the_verdict_of_the_group(
    trial: PageBroker, command: str
) -> None:
    def read() -> dict[str, str]:
        found = {}
        for group, verdict in EXPECTED.items():
            done = run("groups", command, group, "--bootstrap", trial.bootstrap)
            assert done.code == 0, done
            found[group] = verdict if verdict in done.out else done.out.splitlines()[0]
        return found

    agrees(f"groups {command}", read)


def test_groups_lag_has_the_verdict_of_each_partition(trial: PageBroker) -> None:
    """In one group, a partition is stuck and two other partitions are not."""

    def read() -> dict[int, str]:
        rows = cli(trial, "groups", "lag", "parcels")
        return {row["partition"]: row["verdict"] for row in rows}

    until(
        "the poisoned partition is told apart",
        lambda: read() == {0: "OK", 1: "STUCK_RECORD", 2: "OK"},
        WITHIN_S,
    )
    [outside] = cli(trial, "groups", "lag", "restored")
    assert outside["verdict"] == "OUT_OF_RANGE"
    assert outside["lag"] < -50_000


def test_each_command_in_a_finding_runs_with_dry_run(trial: PageBroker) -> None:
    """Each command runs with --dry-run. Its exit code must not be the code for wrong usage."""
    commands: dict[str, str] = {}

    def every_verdict_has_one() -> bool:
        for group in EXPECTED:
            told = httpx.get(f"http://{trial.http}/api/groups/{group}").json()
            for each in told["findings"]:
                if each["command"]:
                    commands[each["command"]] = each["verdict"]
        return set(commands.values()) >= set(EXPECTED.values()) - {"OK"}

    until("every verdict comes with a command", every_verdict_has_one, WITHIN_S)
    for command in commands:
        words = shlex.split(command.replace(" --execute", " --dry-run"))
        assert words[0] == "muster"
        done = run(*words[1:], "--bootstrap", trial.bootstrap)
        assert done.code in (0, 2), (command, done)
        assert "No such" not in done.err, (command, done)


def test_web_page_has_the_verdict_of_each_group(trial: PageBroker, tmp_path: Path) -> None:
    with browsing(trial.http) as browser:
        browser.open("#/groups")

        def read() -> dict[str, str]:
            rows = browser.ask(
                "return [...document.querySelectorAll('main tbody tr')].map((r) => r.innerText)"
            )
            return {
                group: verdict if any(group in row and verdict in row for row in rows) else "?"
                for group, verdict in EXPECTED.items()
            }

        agrees("the page", read)
        first = browser.ask("return document.querySelector('main tbody tr').innerText")
        assert "OUT_OF_RANGE" in first, "the worst is first"
        browser.driver.save_screenshot(str(tmp_path / "page.png"))


def test_alerts_fire_for_the_verdict_of_each_group(trial: PageBroker, tmp_path: Path) -> None:
    """In a real Prometheus, each alert is pending immediately and fires after the duration in its
    rule."""
    raised = {
        "BLOCKED": "MusterGroupBlocked",
        "STUCK_RECORD": "MusterGroupStuckRecord",
        "OUT_OF_RANGE": "MusterGroupOutOfRange",
        "STALLED": "MusterGroupStalled",
        "FLAPPING": "MusterGroupFlapping",
        "ABANDONED": "MusterGroupAbandoned",
    }
    names = {alert: verdict for verdict, alert in raised.items()}
    with scraping(tmp_path, trial.http) as prometheus:

        def read() -> dict[str, str]:
            found = dict.fromkeys(EXPECTED, "OK")
            for each in prometheus.query('ALERTS{alertname=~"MusterGroup.*"}'):
                labels = each["metric"]
                if labels["alertname"] == "MusterGroupReadsNothing":
                    continue  # an alert without a verdict, which accompanies others
                found[labels["consumergroup"]] = names[labels["alertname"]]
            return found

        agrees("the alerts", read)


def test_tables_of_topics_and_of_expected_verdicts_have_the_same_groups() -> None:
    assert set(TOPIC_OF) == set(EXPECTED)
