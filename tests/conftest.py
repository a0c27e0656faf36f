"""Fixtures for tests that need a broker process.

The tests of one process share a broker (`broker`), and each test uses its own topics and groups
(`name`). A test that stops, kills or configures its broker creates one with `brokers`.
"""

from __future__ import annotations

import gc
import signal
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import java, tiers
from tests.brokers import COMMAND, KIND, RUNNING, Broker, make_broker

# A busy machine must not fail a test, so Hypothesis has no deadline.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields the broker that many tests share. Fails if the broker does not exit cleanly after
    SIGTERM."""
    shared = make_broker(tmp_path_factory.mktemp("shared") / "data").start()
    yield shared
    code = shared.stop()
    # A JVM exits with 143 after SIGTERM, even after a clean shutdown.
    assert code == (0 if KIND == "muster" else 143), shared.tail()


@pytest.fixture(scope="session")
def old_client_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Yields a broker that supports the API versions of 2017. If the tests run on Muster, yields
    the broker that all tests share."""
    if KIND == "muster":
        yield request.getfixturevalue("broker")
        return
    shared = make_broker(tmp_path_factory.mktemp("old") / "data", for_old_clients=True).start()
    yield shared
    shared.stop()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Yields a function that starts a broker with the given settings. All brokers that the function
    started are killed when the test ends.

    ``command`` starts the broker; the default is the Muster under test.
    """
    made: list[Broker] = []

    def make(settings: dict[str, str] | None = None, command: list[str] | None = None) -> Broker:
        made.append(make_broker(tmp_path / f"broker-{len(made)}" / "data", settings))
        made[-1].command = command or COMMAND
        return made[-1].start()

    yield make
    for each in made:
        each.kill()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Returns a name for topics and groups that no other test uses."""
    stem = "".join(c if c.isalnum() else "-" for c in request.node.originalname)
    return f"{stem.removeprefix('test_')[:40]}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last lines of the running brokers to the report of a failed test."""
    report = yield
    if report.failed:
        for each in RUNNING:
            report.sections.append((f"the broker on {each.bootstrap}", each.tail()))
    return report


def pytest_make_parametrize_id(val: object) -> str | None:
    """Returns an id for the parameter ``val``. The id is the same for each release of Kafka 4,
    because a changed id would move the test to another `--slice`."""
    return java.test_id(val)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options `--tier`, `--slice` and `--record-durations`, which tests/tiers.py
    describes."""
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Selects tests by tier, and lets SIGINT interrupt the programs that tests start.

    If a shell starts pytest in the background, pytest ignores SIGINT, and so would all its child
    processes. Therefore pytest sets a handler that does nothing: child processes do not inherit it,
    and react to SIGINT.
    """
    config.pluginmanager.register(tiers.Tiers(config), "muster-tiers")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection. A full collection of their 658,000
    objects took 0.3 s, which could fail a test with a limit on CPU time."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the speed of the simulations in all test processes."""
    kinds = ("simulated", "simulated broker", "simulated cluster")
    told: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                for name, value in report.user_properties:
                    if name in told:
                        told[name].append(value)
    steps, cpu_s = (sum(value[i] for value in told["simulated"]) for i in (0, 1))
    if cpu_s:
        terminalreporter.write_line(
            f"simulated: {steps:,} steps of {len(told['simulated'])} worlds in {cpu_s:.1f} s of"
            f" one core, {60 * steps / cpu_s:,.0f} steps a minute"
        )
    for seed, steps, seconds, cpu_s in told["simulated broker"]:
        terminalreporter.write_line(
            f"simulated broker: seed {seed}, {steps:,} steps, {seconds:,.0f} virtual seconds in"
            f" {cpu_s:.1f} s of one core"
        )
    clusters = told["simulated cluster"]
    if clusters:
        seconds, cpu_s = (sum(each[i] for each in clusters) for i in (2, 3))
        terminalreporter.write_line(
            f"simulated cluster: {len(clusters)} worlds, {seconds:,.0f} virtual seconds in"
            f" {cpu_s:.0f} s of one core"
        )
