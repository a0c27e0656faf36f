"""Kafka Streams with exactly_once_v2 over repartition and changelog topics, while instances are
killed and restarted.

The programs are those of Apache's system tests. The driver of StreamsSmokeTest computes the
expected content of each topic, and reads the topics with read_committed. The verifier of
StreamsEosTest compares each record of each topic, and waits until no transaction is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.interop.programs import Program, java_program

pytestmark = [pytest.mark.interop, pytest.mark.proves("transactions 44")]

SMOKE = ("kafka-streams-4.3.1", "org.apache.kafka.streams.tests.StreamsSmokeTest")
EOS = ("kafka-streams-4.2.0", "org.apache.kafka.streams.tests.StreamsEosTest")
PARTITIONS = 5
SMOKE_TOPICS = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw"),
    *("sws-suppressed", "cnt", "avg", "tagg", "fk"),
)
EOS_TOPICS = ("data", "echo", "min", "sum", "repartition", "max", "cnt")
# StreamsEosTest creates missing topics with three replicas, so the test creates them first.
EOS_CHANGELOGS = tuple(
    f"EosTest-KSTREAM-AGGREGATE-STATE-STORE-{number:010}-changelog" for number in (3, 7, 14, 18)
)
SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}


class Streams:
    """A test program of Kafka Streams. It can run as driver, instance or verifier."""

    def __init__(
        self,
        program: tuple[str, str],
        broker: Broker,
        folder: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``properties`` are additional settings of the program."""
        self.program = program
        self.properties = properties or {}
        self.folder = folder
        self.broker = broker
        self.instances: dict[str, Program] = {}
        """By state folder: the instance of the program that was last started with this folder."""

    def start(self, role: str, ends: ExitStack, state: str = "") -> Program:
        """Starts the program in a role. An instance uses the state folder ``state``. Closing
        ``ends`` kills the process."""
        file = self.folder / f"{role}-{state}.properties"
        given = {
            "bootstrap.servers": self.broker.bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(self.folder / state),
            "session.timeout.ms": "10000",
            "acceptable.recovery.lag": "9223372036854775807",
            **self.properties,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        program = java_program(*self.program, str(file), role)
        ends.callback(program.kill)
        if state:
            self.instances[state] = program
        return program


def records_sent(lines: list[str]) -> int:
    """Returns the number of records that the driver has sent, which is the last number in its
    output."""
    numbers = [int(line.split()[-3]) for line in lines if line.endswith("records produced")]
    return max(numbers, default=0)


def run_smoke_test(broker: Broker, folder: Path, properties: Mapping[str, str]) -> None:
    """Runs Apache's smoke test. Kills and restarts instances and the broker while the driver
    produces."""
    cluster = Cluster(broker.bootstrap)
    for topic in SMOKE_TOPICS:
        cluster.create_topic(topic, PARTITIONS)
    streams = Streams(SMOKE, broker, folder, properties)
    with ExitStack() as ends:
        driver = streams.start("run", ends)
        for name in ("first", "second"):
            streams.start("process", ends, name).until_says("SMOKE-TEST-CLIENT-STARTED")
        driver.until("a quarter is sent", lambda: records_sent(driver.lines) > 4_000, 180)
        streams.instances["first"].kill()
        third = streams.start("process", ends, "third")
        driver.until("half is sent", lambda: records_sent(driver.lines) > 9_000, 180)
        broker.kill()
        broker.start()
        third.until_says("SMOKE-TEST-CLIENT-STARTED")
        assert streams.instances["second"].stop() == 143
        streams.start("process", ends, "first")  # it has the state of the killed instance
        driver.until_says("Result Verification", 300)
        assert driver.ended() == 0
    assert driver.says("ALL-RECORDS-DELIVERED"), driver.story()
    assert driver.says("^SUCCESS"), driver.story()


@pytest.mark.timeout(900)
def test_streams_smoke_test_of_apache_passes(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    run_smoke_test(brokers(SETTINGS), tmp_path, {})


@pytest.mark.timeout(900)
def test_streams_exactly_once_test_of_apache_passes(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = brokers(SETTINGS)
    cluster = Cluster(broker.bootstrap)
    for topic in EOS_TOPICS:
        cluster.create_topic(topic, PARTITIONS)
    for topic in EOS_CHANGELOGS:
        cluster.create_topic(topic, PARTITIONS, **{"cleanup.policy": "compact"})
    streams = Streams(EOS, broker, tmp_path)
    with ExitStack() as ends:
        driver = streams.start("run", ends)
        for name in ("first", "second"):
            streams.start("process-complex", ends, name).until_says("-> RUNNING")
        for name in ("first", "second"):
            sent = records_sent(driver.lines)
            driver.until(
                "more is sent", lambda sent=sent: records_sent(driver.lines) > sent + 500, 180
            )
            streams.instances[name].kill()
            streams.start("process-complex", ends, name).until_says("-> RUNNING")
        broker.kill()
        broker.start()
        sent = records_sent(driver.lines)
        driver.until("still more is sent", lambda: records_sent(driver.lines) > sent + 1_000, 180)
        assert driver.stop() == 143
        for instance in streams.instances.values():
            instance.stop()
            assert instance.says("EOS-TEST-CLIENT-CLOSED"), instance.story()
        verifier = streams.start("verify-complex", ends)
        assert verifier.ended() == 0, verifier.story()
    assert verifier.says("ALL-RECORDS-DELIVERED"), verifier.story()
