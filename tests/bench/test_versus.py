"""Tests of the scenarios of `bench/versus`, and of the load generator that runs them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import shlex
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.absent import program
from tests.brokers import CHECKOUT, Broker, running

SHARE_SCENARIOS = (
    "-members 4 -topicparts 3 -records 1 -batch 1 -fill 3000",
    "-members 4 -topicparts 3 -records 50 -batch 10 -fill 30000",
)
GROUPLOAD = CHECKOUT / "bench" / "groupload"
RUN: dict[str, object] = {"p50_ms": 1.0, "p99_ms": 2.0, "server_cpu_us_op": 3.0, "rss_MiB": 4}
CONSUMER_SCENARIOS = {
    "consumer-heartbeat": "-conns 2 -depth 4 -topicparts 4",
    "consumer-join": "-members 12 -topicparts 12 -rounds 1 -spread 100 -interval 20",
    "consumer-heartbeats": "-members 12 -groups 3 -conns 6 -depth 2 -topicparts 4",
}


@pytest.fixture(scope="module")
def versus() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("versus", str(CHECKOUT / "bench" / "versus"))
    spec = importlib.util.spec_from_loader("versus", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_bench_versus_scenarios_use_only_options_of_the_load_generator(versus: ModuleType) -> None:
    source = "".join(each.read_text() for each in sorted(GROUPLOAD.glob("*.go")))
    options = set(re.findall(r'= flag\.\w+\("([a-z]+)"', source))
    scenarios = set(re.findall(r'\n\tcase "([a-z-]+)":', source))
    names = [name for name, _, _ in versus.SCENARIOS]

    assert len(set(names)) == len(names)
    for flags in [flags for _, flags, _ in versus.SCENARIOS] + list(versus.WARM_UP):
        words = shlex.split(flags)
        assert words[0] == "-scenario"
        assert words[1] in scenarios
        assert {each[1:] for each in words[::2]} <= options


def test_each_name_in_constant_echoed_is_used_by_a_scenario_of_bench_versus(
    versus: ModuleType,
) -> None:
    used = {flags.split()[1] for _, flags, _ in versus.SCENARIOS}
    assert used >= versus.ECHOED


def test_bench_versus_reports_medians_of_all_rounds(versus: ModuleType) -> None:
    runs = [{**RUN, "ops_s": rate, "bad": 0, "lost": 0} for rate in (10, 30, 20)]
    assert versus.medians(runs) == {
        "ops_s": 20,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "cpu_us": 3.0,
        "rss_MiB": 4,
    }


def test_bench_versus_shows_rebalance_times_in_the_columns_of_latencies(versus: ModuleType) -> None:
    for kind in ("rejoin", "stable"):
        run = {f"{kind}_p50_ms": 5.0, f"{kind}_max_ms": 6.0, "rss_MiB": 4}
        found = versus.medians([{**run, "server_cpu_us_member_round": 7.0}])
        assert (found["ops_s"], found["p50_ms"], found["p99_ms"]) == (None, 5.0, 6.0)
        assert found["cpu_us"] == 7.0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"lost": 2, "ops_s": 900}, "0 wrong answers, 2 members lost, 900 a second"),
        ({"bad": 1}, "1 wrong answers, 0 members lost"),
        ({"failed": "no coordinator"}, "no coordinator"),
    ],
)
def test_bench_versus_scenario_fails_when_a_round_has_a_wrong_response_or_a_lost_member(
    versus: ModuleType, wrong: dict[str, object], text: str
) -> None:
    assert versus.medians([{**RUN, "ops_s": 1}, {**RUN, **wrong}]) == {"failed": text}


@pytest.fixture(scope="module")
def groupload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = program("go", "golang-go")
    tool = tmp_path_factory.mktemp("groupload") / "groupload"
    subprocess.run([go, "build", "-o", tool, "."], cwd=GROUPLOAD, check=True, timeout=300)
    return tool


def load(tool: Path, broker: Broker, flags: str) -> dict[str, Any]:
    server = ["-addr", broker.bootstrap, "-pid", str(broker.pid)]
    command = [str(tool), *server, *shlex.split(flags)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.campaign
def test_load_generator_loses_no_member_of_a_consumer_group(
    tmp_path: Path, groupload: Path
) -> None:
    broker = Broker(tmp_path / "data")
    with running(broker):
        for number, (name, flags) in enumerate(CONSUMER_SCENARIOS.items()):
            words = f"-scenario {name} -topic t{number} -secs 0.5 -warm 0.1 {flags}"
            found = load(groupload, broker, words)
            assert found["bad"] == 0
            assert found.get("lost", 0) == 0
            assert found.get("ops_s", 1) > 0


@pytest.mark.campaign
def test_load_generator_receives_each_share_group_record_once(
    tmp_path: Path, groupload: Path
) -> None:
    broker = Broker(tmp_path / "data")
    with running(broker):
        for flags in SHARE_SCENARIOS:
            found = load(groupload, broker, f"-scenario share -secs 1 -warm 0.02 {flags}")
            assert (found["bad"], found["lost"]) == (0, 0)
            assert found["records"] > 0
