"""Kafka Streams 4.3.1 with ``group.protocol=streams`` (KIP-1071): instances are killed, the broker
is killed, and ``kafka-streams-groups`` manages the group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import java, waiting
from tests.brokers import Broker
from tests.interop.test_streams import SETTINGS, run_smoke_test
from tests.interop.word_count import WordCount, WordCountOnBroker

pytestmark = pytest.mark.interop
GROUPS = {
    **SETTINGS,
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}
GROUP_ID_NOT_FOUND = 69
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture
def word_count(
    brokers: Callable[..., Broker], name: str, tmp_path: Path
) -> Iterator[WordCountOnBroker]:
    application = WordCountOnBroker(brokers(GROUPS), name, tmp_path)
    try:
        yield application
    finally:
        application.kill()


@pytest.mark.smoke
@pytest.mark.proves("streams 4")
def test_streams_application_counts_words_and_leaves(word_count: WordCountOnBroker) -> None:
    word_count.running("first")
    word_count.send(30)
    word_count.until_counted()
    [member] = word_count.described()["members"]
    tasks = {
        each["subtopology_id"]: each["partitions"] for each in member["assignment"]["active_tasks"]
    }
    assert tasks == {"0": [0, 1, 2], "1": [0, 1, 2]}
    assert word_count.instances["first"].stop() == 143
    assert word_count.described()["group_state"] == "Empty"


@pytest.mark.timeout(600)
@pytest.mark.proves("streams 5")
def test_word_counts_are_exact_when_streams_instances_and_the_broker_are_killed(
    word_count: WordCountOnBroker,
) -> None:
    word_count.running("first", "second", "third")
    word_count.send(300)
    word_count.instances["first"].kill()
    word_count.send(300)
    word_count.running("first")  # it has the state of the killed instance
    word_count.send(300)
    word_count.broker.kill()
    word_count.broker.start()
    word_count.send(300)
    word_count.instances["second"].kill()
    word_count.running("fourth")
    word_count.send(300)
    word_count.until_counted(240)
    for state in ("first", "third", "fourth"):
        assert word_count.instances[state].stop() == 143


@pytest.mark.timeout(300)
def test_standby_task_takes_over_when_its_active_instance_is_killed(
    word_count: WordCountOnBroker,
) -> None:
    configure(word_count, "streams.num.standby.replicas", "1")
    word_count.running("first", "second")
    word_count.send(90)

    def standbys() -> list[int]:
        return sorted(
            sum(len(each["partitions"]) for each in member["assignment"]["standby_tasks"])
            for member in word_count.described()["members"]
        )

    waiting.until("each stateful task has a standby", lambda: sum(standbys()) == 3)
    word_count.until_counted()
    word_count.instances["first"].kill()
    word_count.send(90)
    word_count.until_counted()
    [member] = word_count.described()["members"]
    active = member["assignment"]["active_tasks"]
    assert [each["partitions"] for each in active] == [[0, 1, 2], [0, 1, 2]]
    assert member["assignment"]["standby_tasks"] == []


@pytest.mark.timeout(300)
@pytest.mark.proves("streams 9")
def test_all_instances_end_when_one_requests_the_shutdown_of_the_application(
    word_count: WordCountOnBroker,
) -> None:
    word_count.running("first", "second")
    word_count.say("shutdown")
    for instance in word_count.instances.values():
        instance.until_says("STATE ERROR")


@pytest.mark.timeout(300)
@pytest.mark.proves("streams 8")
def test_kafka_streams_groups_lists_describes_resets_and_deletes(
    word_count: WordCountOnBroker,
) -> None:
    word_count.running("first")
    word_count.send(30)
    word_count.until_counted()
    group = ("--group", word_count.name)
    assert word_count.name in tool(word_count, "--list")
    assert re.search(rf"{word_count.name} +Stable", tool(word_count, "--list", "--state"))
    state = tool(word_count, "--describe", *group, "--state", "--verbose")
    assert re.search(rf"{word_count.name} .*Stable +\d+ +\d+ +1$", state, re.MULTILINE), state
    members = tool(word_count, "--describe", *group, "--members", "--verbose")
    assert re.search(r"ACTIVE: +0:\[0,1,2\]; +1:\[0,1,2\]", members), members
    offsets = tool(word_count, "--describe", *group, "--offsets", "--verbose")
    assert offsets.count(word_count.lines) == 3, offsets
    assert "is not EMPTY" in tool(word_count, "--delete", *group)
    word_count.instances["first"].stop()
    lines = ("--input-topic", word_count.lines)
    reset = tool(word_count, "--reset-offsets", *group, "--to-earliest", "--execute", *lines)
    assert len(re.findall(rf"{word_count.lines} +\d +0 ", reset)) == 3, reset
    assert set(word_count.committed().values()) == {0}
    deleted = tool(word_count, "--delete-offsets", *group, *lines)
    assert len(re.findall(r"\d +Successful", deleted)) == 3, deleted
    assert word_count.committed() == {}
    gone = tool(word_count, "--delete", *group, "--delete-all-internal-topics")
    assert gone.count("was successful") == 2, gone
    assert word_count.name not in tool(word_count, "--list")
    assert word_count.described()["error_code"] == GROUP_ID_NOT_FOUND
    for internal in ("words-repartition", "counts-changelog"):
        word_count.cluster.until_partitions(f"{word_count.name}-{internal}", 0)


def tool(word_count: WordCount, *arguments: str) -> str:
    """Returns the output of ``kafka-streams-groups``."""
    done = java.run(java.KAFKA_NEW, TOOL, "--bootstrap-server", word_count.bootstrap, *arguments)
    return done.stdout + done.stderr


def configure(word_count: WordCountOnBroker, setting: str, value: str) -> None:
    """Sets a configuration of the group."""
    config = {"name": setting, "config_operation": 0, "value": value}
    resource = {"resource_type": 32, "resource_name": word_count.name, "configs": [config]}
    done = word_count.cluster.call(
        "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False
    )
    assert done["responses"][0]["error_code"] == 0, done


@pytest.mark.timeout(900)
@pytest.mark.proves("streams 6")
def test_streams_smoke_test_of_apache_passes_with_a_streams_group(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    run_smoke_test(brokers(GROUPS), tmp_path, {"group.protocol": "streams"})
