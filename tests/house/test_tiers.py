"""The distribution of tests to `make test` and to the slices of the campaign, and the summary of a
test run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests import java, tiers
from tests.brokers import CHECKOUT

pytest_plugins = ["pytester"]

TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.campaign
def test_slow(): pass

@pytest.mark.interop
def test_with_clients(): pass

@pytest.mark.interop
@pytest.mark.smoke
def test_with_one_client(): pass

@pytest.mark.soak
@pytest.mark.interop
@pytest.mark.smoke
def test_for_hours(): pass
"""
CONFTEST = """
from tests import java, tiers

def pytest_addoption(parser):
    tiers.add_options(parser)

def pytest_configure(config):
    config.pluginmanager.register(tiers.Tiers(config))
    for mark in ("campaign", "smoke", "interop", "soak"):
        config.addinivalue_line("markers", mark)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Returns a pytest project that has one test for each combination of marks."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_kinds=TESTS)
    return pytester


@pytest.mark.parametrize(
    ("tier", "tests"),
    [
        ("test", {"test_plain", "test_with_one_client"}),
        ("campaign", {"test_slow", "test_with_clients"}),
        ("soak", {"test_for_hours"}),
    ],
)
def test_tier_option_runs_only_tests_of_the_tier(
    tier: str, tests: set[str], project: pytest.Pytester
) -> None:
    done = project.inline_run("--tier", tier, "-p", "no:randomly")
    passed, skipped, failed = done.listoutcomes()
    assert {report.nodeid.rpartition("::")[2] for report in passed} == tests
    assert not skipped
    assert not failed


def test_option_slice_runs_each_campaign_test_in_exactly_one_slice(
    project: pytest.Pytester,
) -> None:
    ran: Counter[str] = Counter()
    for number in range(1, tiers.SLICES + 1):
        passed, _, _ = project.inline_run(
            "--tier", "campaign", "--slice", str(number), "-p", "no:randomly"
        ).listoutcomes()
        ran.update(report.nodeid.rpartition("::")[2] for report in passed)
    assert ran == {"test_slow": 1, "test_with_clients": 1}


def test_recorded_durations_of_all_campaign_slices_are_nearly_equal() -> None:
    seconds: defaultdict[int, float] = defaultdict(float)
    for node, (number, each) in tiers.recorded().items():
        assert tiers.slice_of(node) == number
        seconds[number] += each
    assert set(seconds) == set(range(1, tiers.SLICES + 1))
    assert max(seconds.values()) < 1.05 * min(seconds.values())


def test_test_durations_are_merged_only_when_all_campaign_slices_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "RECORDED", tmp_path / "durations.json")
    monkeypatch.setattr(tiers, "RECORDINGS", tmp_path / "recordings")
    tiers.RECORDED.write_text('{"gone.py::test_a": [2, 3.0]}')
    for number in range(1, tiers.SLICES):
        tiers.record(number, {f"test_{number}.py::test_a": number + 0.04})
    with pytest.raises(FileNotFoundError):
        tiers.fold()
    assert tiers.recorded() == {"gone.py::test_a": [2, 3.0]}
    tiers.record(tiers.SLICES, {"test_6.py::test_a": 6.04})
    tiers.fold()
    assert tiers.recorded() == {f"test_{n}.py::test_a": [7 - n, float(n)] for n in range(1, 7)}


def test_only_long_files_and_simulations_are_split_over_slices() -> None:
    seconds = {"a.py::x": 50.0, "a.py::y": 50.0, "b.py::x": 70.0, "b.py::y": 60.0}
    simulated = {"tests/simulation/s.py::x": 1.0, "tests/simulation/s.py::y": 1.0}
    dealt = tiers.deal(seconds | simulated)
    assert dealt["a.py::x"] == dealt["a.py::y"]
    assert dealt["b.py::x"] != dealt["b.py::y"]
    assert len({dealt[node] for node in simulated}) == len(simulated)


def test_new_test_runs_in_the_campaign_slice_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "RECORDED", tmp_path / "durations.json")
    monkeypatch.setattr(tiers, "_slices", tiers._slices.__wrapped__)
    simulated = "tests/simulation/s.py"
    tiers.RECORDED.write_text(
        f'{{"a.py::x": [4, 1.0], "{simulated}::x": [5, 1.0], "{simulated}::y": [6, 1.0]}}'
    )
    assert tiers.slice_of("a.py::new") == 4
    assert {tiers.slice_of(f"{simulated}::new[{n}]") for n in range(99)} == set(range(1, 7))


@pytest.mark.parametrize("options", [["--tier", "campaign"], ["-k", "slow"], ["test_kinds.py"]])
def test_option_record_durations_is_rejected_unless_a_whole_campaign_slice_runs(
    options: list[str], project: pytest.Pytester
) -> None:
    if options[0] != "--tier":
        options = ["--tier", "campaign", "--slice", "1", *options]
    done = project.runpytest("--record-durations", *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*a whole slice is recorded"])


def test_each_pytest_worker_gets_its_long_tests_first() -> None:
    order = tiers.in_order(["a", "long", "b", "c", "longer"], 2, lambda node: "long" in node)
    assert order == ["long", "a", "b", "longer", "c"]


def test_summary_lists_skip_reasons_and_one_install_command() -> None:
    def skipped(reason: str) -> pytest.TestReport:
        return pytest.TestReport(
            "a", ("a", 1, "a"), {}, "skipped", ("a", 1, f"Skipped: {reason}"), "call"
        )

    kcat = "this test runs kcat, which is not on this machine: apt-get install -y kcat"
    java = "no Java: apt-get install -y default-jdk-headless maven"
    assert tiers.summary([skipped(kcat), skipped(java), skipped(kcat)]) == [
        f"skipped 1: {java}",
        f"skipped 2: {kcat}",
        "install what is missing: apt-get install -y default-jdk-headless kcat maven",
    ]


@pytest.mark.parametrize(("release", "set_"), [("", ""), ("4.4.0", "KAFKA_RELEASE=4.4.0 ")])
def test_failed_campaign_slice_prints_the_command_that_reruns_the_slice(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, release: str, set_: str
) -> None:
    monkeypatch.setenv("KAFKA_RELEASE", release)
    project.makepyfile(test_broken="import pytest\n\n@pytest.mark.campaign\ndef test_x(): assert 0")
    number = tiers.slice_of("test_broken.py")
    done = project.runpytest("--tier", "campaign", "--slice", str(number), "-p", "randomly")
    done.stdout.re_match_lines(
        [
            rf"one test: {set_}\.venv/bin/pytest 'test_broken\.py::test_x'",
            rf"the slice: {set_}make campaign SLICE={number} ARGS=--randomly-seed=\d+",
        ]
    )


def test_child_process_handles_sigint_when_the_shell_ignores_it() -> None:
    """A shell may start pytest in the background, so that pytest ignores SIGINT. The inner test
    runs in such a pytest. It fails if the child process that it starts ignores SIGINT."""
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{ignoring} os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
            *["-m", "pytest", "-q", "-p", "no:randomly"],
            f"{__file__}::test_child_process_does_not_ignore_sigint",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_child_process_does_not_ignore_sigint() -> None:
    asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("release", java.RELEASES)
def test_parameters_of_tests_have_the_same_ids_with_each_release_of_kafka(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setattr(java, "RELEASE", release)
    assert java.test_id(f"kafka-{release}") == "kafka-new"
    assert java.test_id(release) == "new"
    assert java.test_id(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS) is None
    assert java.test_id(f"kafka-{release}-clean") is None
