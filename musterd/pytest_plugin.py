"""The pytest plugin: brokers as fixtures, and their log lines in the report of a failed test.

pytest loads this plugin by its entry point; no other module of `musterd` imports pytest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # a run without a broker skips this import
    from musterd.testing.cluster import MusterCluster
    from musterd.testing.muster import Muster

_LINES_BEFORE = pytest.StashKey[dict[str, int]]()
"""For each session-scoped broker fixture: the number of log lines that its broker had written
before the current test."""
_SERVERS = ("muster_cluster", "muster_cluster_server", "muster_server", "muster")
"""The fixtures that are brokers. `muster_topic` uses the first of them that the test requests."""
_LONGEST_NAME = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--muster-log` and the ini setting `muster_settings`."""
    parser.getgroup("muster", "Muster, a Kafka broker for tests").addoption(
        "--muster-log", action="store_true",
        help="add the broker's log and the reasons of rebalances to the report of a failed test",
    )  # fmt: skip
    parser.addini(
        "muster_settings", type="linelist", default=[],
        help="settings of the fixtures' brokers: one Kafka broker property per line, KEY=VALUE",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `muster_topic`."""
    config.addinivalue_line(
        "markers",
        "muster_topic(partitions, **configs): partitions and configs of the muster_topic fixture",
    )


@pytest.fixture(scope="session")
def muster_settings(pytestconfig: pytest.Config) -> Mapping[str, object]:
    """The Kafka broker properties of the brokers that the fixtures start. Override this fixture to
    change them.

    By default the properties come from the ini setting `muster_settings`.
    """
    settings = {}
    for line in pytestconfig.getini("muster_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"muster_settings: {line!r}: write it as KEY=VALUE")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def _muster_of_session(muster_settings: Mapping[str, object]) -> Iterator[Muster]:
    from musterd.testing import Muster

    broker = Muster(settings=muster_settings)
    yield broker
    broker.close()


@pytest.fixture
def muster(_muster_of_session: Muster, request: pytest.FixtureRequest) -> Muster:
    """An empty Kafka broker: one process per session (or xdist worker), reset for each test."""
    broker = _muster_of_session
    broker.reset()
    request.node.stash.setdefault(_LINES_BEFORE, {})["muster"] = broker._lines.count
    return broker


@pytest.fixture
def muster_server(muster_settings: Mapping[str, object]) -> Iterator[Muster]:
    """A Kafka broker in its own process, for this test only."""
    from musterd.testing import Muster

    with Muster(settings=muster_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def _muster_cluster_of_session(muster_settings: Mapping[str, object]) -> Iterator[MusterCluster]:
    from musterd.testing import MusterCluster

    cluster = MusterCluster(settings=muster_settings)
    yield cluster
    cluster.close()


@pytest.fixture
def muster_cluster(
    _muster_cluster_of_session: MusterCluster, request: pytest.FixtureRequest
) -> MusterCluster:
    """An empty cluster of three Kafka brokers: one process per session (or xdist worker), reset for
    each test."""
    cluster = _muster_cluster_of_session
    cluster.reset()
    request.node.stash.setdefault(_LINES_BEFORE, {})["muster_cluster"] = cluster._lines.count
    return cluster


@pytest.fixture
def muster_cluster_server(muster_settings: Mapping[str, object]) -> Iterator[MusterCluster]:
    """A cluster of three Kafka brokers in its own process, for this test only."""
    from musterd.testing import MusterCluster

    with MusterCluster(settings=muster_settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _muster_names() -> Callable[[str], str]:
    numbers = count(1)

    def fresh(test: str) -> str:
        stem = re.sub(r"[^a-zA-Z0-9._-]+", "-", test.removeprefix("test_")).strip("-")
        return f"{stem[:_LONGEST_NAME]}-{next(numbers)}"

    return fresh


@pytest.fixture
def muster_topic(request: pytest.FixtureRequest, _muster_names: Callable[[str], str]) -> str:
    """The name of a new topic on the test's broker. No other test uses this topic.

    The marker `muster_topic(partitions, **configs)` sets the topic's partitions and configs.
    """
    used = next((each for each in _SERVERS if each in request.fixturenames), "muster")
    broker: Muster | MusterCluster = request.getfixturevalue(used)
    name = _muster_names(request.node.name)
    marker = request.node.get_closest_marker("muster_topic")
    broker.create_topic(name, *(marker.args if marker else ()), **(marker.kwargs if marker else {}))
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the log lines of a test's brokers to the report of the failed test."""
    report = yield
    # Without this import the test has no broker.
    if report.failed and item.config.getoption("--muster-log") and "musterd.testing" in sys.modules:
        from musterd.testing.telling import sections

        fixtures: Mapping[str, object] = getattr(item, "funcargs", {})
        for name, value in fixtures.items():
            if name.startswith("_"):
                continue
            since = item.stash.get(_LINES_BEFORE, {}).get(name, 0)
            report.sections += sections(name, value, since)
    return report
