"""The fixtures and options of the pytest plugin, each tested in a separate pytest run."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

CLIENT = """
from confluent_kafka.admin import AdminClient

def topics(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_topics(timeout=30).topics
    return {name: len(found[name].partitions) for name in found}
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Returns a function that writes a test file, runs it in a separate pytest process, and returns
    the result."""

    def go(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_user=CLIENT + dedent(tests))
        return pytester.runpytest_subprocess(
            "-p", "no:randomly", "-p", "no:hypothesispytest", *options, timeout=120
        )

    return go


def test_muster_fixture_empties_one_broker_process_for_each_test(run: Run) -> None:
    done = run(
        """
        import pytest
        SEEN = []

        @pytest.mark.parametrize("round", [1, 2, 3])
        def test_it(muster, round):
            assert topics(muster) == {}
            muster.create_topic("orders")
            SEEN.append(muster.pid)

        def test_it_was_one_process():
            assert len(SEEN) == 3
            assert len(set(SEEN)) == 1
        """
    )

    done.assert_outcomes(passed=4)


@pytest.mark.campaign
def test_each_xdist_worker_has_its_own_broker(run: Run) -> None:
    done = run(
        """
        import os, pytest

        @pytest.mark.parametrize("number", range(8))
        def test_it(muster, muster_topic, number):
            assert topics(muster) == {muster_topic: 1}
            print(f"worker {os.environ['PYTEST_XDIST_WORKER']} broker {muster.pid}")
        """,
        "-n2", "-rP",
    )  # fmt: skip

    done.assert_outcomes(passed=8)
    pairs = set(re.findall(r"worker (\w+) broker (\d+)", done.stdout.str()))
    assert len(pairs) == len({pid for _, pid in pairs}) == len({worker for worker, _ in pairs})


@pytest.mark.campaign
def test_muster_fixture_restarts_a_broker_that_a_test_stopped_or_killed(run: Run) -> None:
    done = run(
        """
        import os, pytest, signal

        @pytest.mark.parametrize("end", ["stop", "kill", "close", "die"])
        def test_leave(muster, end):
            muster.create_topic("orders")
            if end == "die":
                os.kill(muster.pid, signal.SIGKILL)
            else:
                getattr(muster, end)()

        def test_after(muster):
            assert topics(muster) == {}
        """
    )

    done.assert_outcomes(passed=5)


@pytest.mark.campaign
def test_muster_server_fixture_starts_a_broker_per_test(run: Run) -> None:
    done = run(
        """
        import os, pytest
        PIDS = []

        def test_one(muster_server, muster_topic):
            PIDS.append(muster_server.pid)
            assert topics(muster_server) == {muster_topic: 1}

        def test_two(muster_server):
            assert muster_server.pid not in PIDS
            with pytest.raises(ProcessLookupError):
                os.kill(PIDS[0], 0)
        """
    )

    done.assert_outcomes(passed=2)


@pytest.mark.campaign
def test_fixture_muster_topic_makes_a_topic_with_a_unique_name_and_the_settings_of_its_marker(
    run: Run,
) -> None:
    done = run(
        """
        import pytest
        NAMES = []

        @pytest.mark.muster_topic(partitions=3, retention_ms=60000)
        @pytest.mark.parametrize("value", ["a b/c", "d"])
        def test_three(muster, muster_topic, value):
            NAMES.append(muster_topic)
            assert topics(muster) == {muster_topic: 3}

        def test_names():
            assert len(set(NAMES)) == 2
            assert NAMES[0].startswith("three-a-b-c-")
        """,
        "--strict-markers",
    )

    done.assert_outcomes(passed=3)


def test_muster_settings_are_read_from_the_ini_file(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nmuster_settings =\n    auto.create.topics.enable = false\n"
        "    num.partitions = 3\n"
    )
    done = run(
        """
        def test_settings(muster, muster_settings):
            assert muster_settings == {"auto.create.topics.enable": "false", "num.partitions": "3"}
        """
    )

    done.assert_outcomes(passed=1)


def test_invalid_setting_in_the_muster_settings_fixture_is_reported(run: Run) -> None:
    done = run(
        """
        import pytest

        @pytest.fixture(scope="session")
        def muster_settings():
            return {"num.partitions": "many"}

        def test_settings(muster):
            assert False
        """
    )

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*BrokerDied: the broker did not start*", "*num.partitions*"])


FAILS = """
from confluent_kafka import Consumer

def test_it(muster):
    muster.create_topic("orders")
    consumer = Consumer({"bootstrap.servers": muster.bootstrap_servers, "group.id": "billing"})
    consumer.subscribe(["orders"])
    consumer.poll(0)
    muster.wait_for("billing").stable(members=1)
    assert not consumer.close()
    assert muster.groups() == []
"""


@pytest.mark.campaign
def test_muster_log_option_prints_the_broker_log_of_a_failed_test(run: Run) -> None:
    told = run(FAILS, "--muster-log")

    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(
        ["*muster: the broker's log*", "*muster: the broker's groups*", "billing *"]
    )
    assert "muster: the broker's groups" not in run(FAILS).stdout.str()


@pytest.mark.campaign
def test_muster_log_option_prints_the_broker_log_with_xdist(run: Run) -> None:
    expected = ["*muster: the broker's groups*", "billing *"]
    run(FAILS, "--muster-log", "-n1").stdout.fnmatch_lines(expected)


def test_plugin_does_not_import_musterd_testing_when_no_test_uses_a_broker(run: Run) -> None:
    done = run(
        """
        import sys

        def test_it():
            assert "musterd.testing" not in sys.modules
        """,
        "--muster-log",
    )

    done.assert_outcomes(passed=1)


@pytest.mark.campaign
def test_fixture_muster_cluster_reuses_a_cluster_and_muster_cluster_server_starts_a_new_one(
    run: Run,
) -> None:
    done = run(
        """
        import pytest
        SEEN = []

        @pytest.mark.parametrize("round", [1, 2])
        def test_it(muster_cluster, muster_topic, round):
            assert topics(muster_cluster) == {muster_topic: 1}
            assert muster_cluster.running == [1, 2, 3]
            muster_cluster.kill(2)
            SEEN.append(muster_cluster.pid)

        def test_own(muster_cluster_server, muster_topic):
            assert len(set(SEEN)) == 1
            assert muster_cluster_server.pid not in SEEN
            assert topics(muster_cluster_server) == {muster_topic: 1}
            assert muster_cluster_server.partition(muster_topic).isr

        def test_failing(muster_cluster):
            muster_cluster.create_topic("orders")
            assert not "failed on purpose"
        """,
        "--muster-log",
    )  # fmt: skip

    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*muster_cluster: the broker's log*", "*topic created*orders*"])
