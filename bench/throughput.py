"""Measures throughput and the broker's CPU time, compared with Apache Kafka 4.3.1.

    .venv/bin/python -m bench.throughput [--megabytes 100] [--rounds 3] [--only produce,100,lz4]
      [--command-config FILE --server-config FILE]

Apache's own ProducerPerformance and ConsumerPerformance run alternately on both brokers. The output
has medians: MB/s as the Apache tool prints them, the broker's own CPU time in milliseconds per
megabyte of records, and the ratios of Muster to Kafka. It also has each broker's CPU time with
1,000 idle partitions. The tool needs Java and Kafka's jars, as the interop tests do.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.secured import PLAIN as NOBODY
from bench.secured import Access, add_options, chosen
from tests import java
from tests.brokers import Broker, KafkaBroker
from tests.interop.cluster import Cluster

SIZES = (100, 1000)
CODECS = ("none", "lz4")
ACKS = ("1", "all")
WARM_UP_BYTES = 40 << 20
IDLE_PARTITIONS = 1000
IDLE_S = 10.0
TOOL_TIMEOUT_S = 180.0
_TICKS = os.sysconf("SC_CLK_TCK")
# The flags of kafka-server-start.sh. The tests' JVM flags are for short runs.
_SERVER_FLAGS = ("-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


class FullKafka(KafkaBroker):
    """Apache Kafka with the JVM flags of Kafka's own script."""

    def _command(self) -> list[str]:
        command = [part for part in super()._command() if part not in java.FLAGS]
        return [command[0], *_SERVER_FLAGS, *command[1:]]


def kafka(data: Path, access: Access) -> FullKafka:
    """Returns a Kafka broker with the settings of ``access``. Its controller listener needs no
    authentication."""
    settings = dict(access.settings)
    if "authorizer.class.name" in settings:
        settings["super.users"] = ";".join(
            filter(None, [settings.get("super.users"), "User:ANONYMOUS"])
        )
    broker = FullKafka(data, settings)
    if access.scram is not None:
        who = access.scram.who
        user = f"{access.scram.mechanism}=[name={who.name},password={who.secret}]"
        broker.format_options = ("--add-scram", user)
    return broker


class Work(NamedTuple):
    """One line of the output table: a measurement of producing or of consuming."""

    what: str
    record_bytes: int
    codec: str
    acks: str

    def __str__(self) -> str:
        acks = f" acks={self.acks}" if self.what == "produce" else ""
        return f"{self.what} {self.record_bytes} B {self.codec}{acks}"


class Over(NamedTuple):
    """The listener that an Apache performance tool uses, and the client properties for this
    listener."""

    bootstrap: str = ""
    """The address of the listener; empty for the broker's first listener."""
    properties: tuple[str, ...] = ()
    access: Access = NOBODY
    """The client settings for the broker's first listener."""

    def words(self, broker: Broker) -> list[str]:
        """Returns the options of an Apache command-line tool that specify the broker's address and
        the login."""
        config = [] if self.access.file is None else ["--command-config", str(self.access.file)]
        return ["--bootstrap-server", self.bootstrap or broker.bootstrap, *config]


PLAIN = Over()


class Measured(NamedTuple):
    """The throughput in MB (1,048,576 bytes) per second, and the broker's CPU time in milliseconds
    per MB."""

    mb_per_s: float
    cpu_ms_per_mb: float


def all_work() -> Iterator[Work]:
    """Yields every combination of record size, codec and acks. Measurements of consumers read
    records that were produced with acks=1."""
    for size in SIZES:
        for codec in CODECS:
            for acks in ACKS:
                yield Work("produce", size, codec, acks)
            yield Work("consume", size, codec, "1")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def tool(main_class: str, *arguments: str) -> str:
    """Runs an Apache tool with the JVM flags of the tests. Returns its output."""
    line = java.command(java.KAFKA_NEW, f"org.apache.kafka.tools.{main_class}", *arguments)
    line = [part for part in line if part != "-XX:TieredStopAtLevel=1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{main_class} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def produce(broker: Broker, topic: str, work: Work, size_bytes: int, over: Over = PLAIN) -> float:
    """Produces ``size_bytes`` bytes of records to a topic. Returns megabytes per second."""
    printed = tool(
        "ProducerPerformance",
        "--topic", topic,
        "--num-records", str(size_bytes // work.record_bytes),
        "--record-size", str(work.record_bytes),
        "--throughput", "-1",
        *over.words(broker),
        "--command-property",
        f"acks={work.acks}", f"compression.type={work.codec}", "linger.ms=5", *over.properties,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1])


def consume(broker: Broker, topic: str, work: Work, size_bytes: int, over: Over = PLAIN) -> float:
    """Consumes a topic. Returns megabytes per second, without the time to join the group."""
    printed = tool(
        "ConsumerPerformance",
        "--topic", topic,
        "--num-records", str(size_bytes // work.record_bytes),
        *over.words(broker),
        "--timeout", "60000",
        *[word for each in over.properties for word in ("--command-property", each)],
    )  # fmt: skip
    titles, values = (line.split(", ") for line in printed.strip().splitlines()[-2:])
    return float(dict(zip(titles, values, strict=True))["fetch.MB.sec"])


def measure(
    broker: Broker, topic: str, work: Work, size_bytes: int, over: Over = PLAIN
) -> Measured:
    """Produces or consumes once, as ``work`` says. Returns the throughput and the broker's CPU
    time."""
    before = cpu_s(broker.pid)
    run = produce if work.what == "produce" else consume
    mb_per_s = run(broker, topic, work, size_bytes, over)
    return Measured(mb_per_s, (cpu_s(broker.pid) - before) * 1000 / (size_bytes / (1 << 20)))


def idle(broker: Broker, access: Access) -> tuple[float, float]:
    """Returns the broker's CPU milliseconds per second, first without partitions and then with
    1,000 idle partitions."""
    found = []
    for partitions in (0, IDLE_PARTITIONS):
        if partitions:
            Cluster(broker.bootstrap, access.connect).create_topic("idle", partitions)
            time.sleep(IDLE_S / 2)  # the work of their creation is not idle time
        before = cpu_s(broker.pid)
        time.sleep(IDLE_S)
        found.append((cpu_s(broker.pid) - before) * 1000 / IDLE_S)
    return found[0], found[1]


def table(found: dict[Work, dict[str, list[Measured]]]) -> Iterator[str]:
    """Yields the lines of the table of medians. A ratio above 1 favours Muster."""
    yield (f"{'':30}{'MB/s':>8}{'Kafka':>8}{'CPU ms/MB':>11}{'Kafka':>8}{'x speed':>9}{'x CPU':>7}")
    for work, of_broker in found.items():
        ours, theirs = (
            Measured(*(statistics.median(column) for column in zip(*of_broker[name], strict=True)))
            for name in ("muster", "kafka")
        )
        yield (
            f"{work!s:30}{ours.mb_per_s:8.1f}{theirs.mb_per_s:8.1f}"
            f"{ours.cpu_ms_per_mb:11.2f}{theirs.cpu_ms_per_mb:8.2f}"
            f"{ours.mb_per_s / theirs.mb_per_s:9.2f}"
            f"{theirs.cpu_ms_per_mb / max(ours.cpu_ms_per_mb, 0.01):7.2f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--megabytes", type=int, default=100, help="the size of the records of each line"
    )
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--only", default="", help="only lines that contain all these words: produce,100,lz4"
    )
    options.add_argument("--no-idle", action="store_true")
    add_options(options)
    given = options.parse_args()
    access = chosen(given)
    words = [word for word in given.only.split(",") if word]
    lines = [w for w in all_work() if all(word in str(w).split() for word in words)]
    size_bytes = given.megabytes << 20
    with tempfile.TemporaryDirectory(prefix="throughput-") as folder:
        brokers: dict[str, Broker] = {
            "muster": Broker(Path(folder, "muster"), access.settings),
            "kafka": kafka(Path(folder, "kafka"), access),
        }
        access.add_user(Path(folder, "muster"))
        try:
            for name, broker in brokers.items():
                broker.start()
                if not given.no_idle:
                    without, with_them = idle(broker, access)
                    print(
                        f"{name}: {without:.1f} ms of CPU a second when idle,"
                        f" {with_them:.1f} with {IDLE_PARTITIONS} idle partitions",
                        flush=True,
                    )
            over = dict.fromkeys(brokers, Over(access=access))
            print_table(brokers, lines, size_bytes, given.rounds, over)
        finally:
            for broker in brokers.values():
                broker.kill()


def print_table(
    brokers: dict[str, Broker],
    chosen: list[Work],
    size_bytes: int,
    rounds: int,
    over: Mapping[str, Over] = {},
) -> None:
    """Warms up the brokers, measures them alternately, and prints the medians."""
    found: dict[Work, dict[str, list[Measured]]] = {w: defaultdict(list) for w in chosen}
    for round_number in range(rounds + 1):
        for work in chosen if round_number else chosen[:2]:
            for name, broker in brokers.items():
                topic = f"r{round_number}-{work.record_bytes}-{work.codec}-{work.acks}"
                by = over.get(name, PLAIN)
                cluster = Cluster(broker.bootstrap, by.access.connect)
                size = size_bytes if round_number else WARM_UP_BYTES
                if work.what == "produce" or Work("produce", *work[1:]) not in chosen:
                    cluster.create_topic(topic, 1)
                if work.what == "consume" and Work("produce", *work[1:]) not in chosen:
                    produce(broker, topic, work, size, by)
                measured = measure(broker, topic, work, size, by)
                if round_number:
                    found[work][name].append(measured)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
