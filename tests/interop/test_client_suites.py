"""The test suites of other clients pass on Muster without changes, as far as they use APIs that
Muster serves. tests/data/suites/README.md lists what the suites need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.client_suites import go_suite, kafkajs, run

pytestmark = [
    pytest.mark.interop,
    pytest.mark.campaign,
    pytest.mark.timeout(1200),
    pytest.mark.proves("kafka 4"),
]

GROUPS = r"(joinGroup|syncGroup|leaveGroup|describeGroups?|findGroupCoordinator)"
_GO_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)


def go_results(printed: str) -> dict[str, str]:
    """Returns the result of each test in the output of a Go suite, by the name of the test."""
    return {name: result for result, name in _GO_RESULT.findall(printed)}


def go_command(tests: str) -> list[str]:
    return ["./suite.test", "-test.v", "-test.timeout=300s", f"-test.run={tests}"]


def test_kafka_go_passes_its_own_reader_test_for_a_compacted_topic(tmp_path: Path) -> None:
    suite = go_suite("kafka-go")
    tests = "^TestReaderReadCompactedMessage$"
    printed = run(1, 9092, tmp_path, go_command(tests), suite, {"KAFKA_VERSION": "3.7.0"})
    assert go_results(printed) == {"TestReaderReadCompactedMessage": "PASS"}, printed[-5000:]


NEEDS_MORE = (
    "TestFuncAdminListConsumerGroupOffsets",  # it stops a broker by docker compose
    "TestFuncAdminNetworkErrorClosesControllerConnection",  # it needs a toxic of toxiproxy
    "TestFuncAdminUpdateFeatures",  # it needs KRaft
)


def test_sarama_admin_suite_passes_on_a_cluster(tmp_path: Path) -> None:
    suite = go_suite("sarama")
    where = {"TOXIPROXY_ADDR": "http://127.0.0.1:8474", "KAFKA_VERSION": "3.9.0"}
    skipped = f"-test.skip=^({'|'.join(NEEDS_MORE)})$"
    command = [*go_command("^TestFuncAdmin"), skipped]
    printed = run(5, 29091, tmp_path, command, suite, where)
    results = go_results(printed)
    assert len(results) >= 15, printed[-5000:]
    assert set(results.values()) == {"PASS"}, printed[-9000:]


def test_group_tests_of_kafkajs_pass_with_muster(tmp_path: Path) -> None:
    suite = kafkajs()
    jest = ["node", "node_modules/jest/bin/jest.js", "--ci", "--forceExit", "--runInBand"]
    tests = rf"src/(broker|admin|consumer)/__tests__/{GROUPS}\.spec\.js"
    printed = run(1, 9092, tmp_path, [*jest, "--testPathPattern", tests], suite)
    assert re.search(r"^Tests: +\d+ passed, \d+ total$", printed, re.MULTILINE), printed[-5000:]
