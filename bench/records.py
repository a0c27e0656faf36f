"""Measures how many records a broker accepts and returns per second and per CPU second.

    .venv/bin/python -m bench.records [--secs 2] [--rounds 3] [--only produce,lz4] [--json FILE]

The load generator groupload sends the same Produce or Fetch request repeatedly to Muster and to
Apache Kafka 4.3.1, in turn. Producers have five requests in flight, as Kafka's producer; each
request has one batch with 16 KiB of record values, the producer's default batch size. Consumers
have one Fetch of 1 MiB in flight. The values are JSON texts, which lz4 reduces to about a half.

The output has a line for each kind of request, with medians: MB/s, MB per CPU second of the broker,
and the ratios of Muster to Kafka. A MB is 1,048,576 bytes of record values before compression.
`MUSTER_CODECS=python` measures Muster without compiled codecs. The tool needs Go, Java and Kafka's
jars.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.cluster.running import MEGABYTE, groupload
from bench.secured import PLAIN
from bench.throughput import kafka
from protocol.records.batch import encode_batch
from protocol.records.compression import NAMES
from protocol.records.section import Record
from tests.brokers import Broker
from tests.interop.cluster import Cluster

BATCH_BYTES = 16 << 10
FETCH_BYTES = 1 << 20
SIZES = (100, 1000, 10_000)
CODECS = ("none", "lz4", "zstd")
CLIENTS = 16
OTHER_CLIENTS = (1, 100)
LOAD_TIMEOUT_S = 120
SETTINGS = {"file.delete.delay.ms": "0"}
"""The settings of a measured topic. The files of the topic are removed as soon as it is deleted, so
that they do not fill the disk."""


class Load(NamedTuple):
    """One line of the output table."""

    api: str
    """"produce" or "consume"."""
    record_bytes: int
    codec: str
    acks: str
    clients: int

    def __str__(self) -> str:
        acks = f" acks={self.acks}" if self.api == "produce" else ""
        return f"{self.api} {self.record_bytes} B {self.codec}{acks} clients={self.clients}"


class Measured(NamedTuple):
    """The throughput in MB of record values: per second, and per second of the broker's CPU."""

    mb_per_s: float
    mb_per_cpu_s: float


def loads() -> Iterator[Load]:
    """Yields the measured cases: first all combinations of size, codec and acks with 16 clients,
    then uncompressed records of 1,000 bytes with 1 client and with 100 clients."""
    for size in SIZES:
        for codec in CODECS:
            for acks in ("1", "all"):
                yield Load("produce", size, codec, acks, CLIENTS)
            yield Load("consume", size, codec, "all", CLIENTS)
    for clients in OTHER_CLIENTS:
        yield Load("produce", 1000, "none", "all", clients)
        yield Load("consume", 1000, "none", "all", clients)


def values(record_bytes: int) -> list[bytes]:
    """Returns JSON texts of ``record_bytes`` bytes each, of about 16 KiB together; if the texts are
    longer than 16 KiB, returns one. Each call returns the same texts."""
    draw = random.Random(record_bytes)
    found = []
    for number in range(max(1, BATCH_BYTES // record_bytes)):
        text = ""
        while len(text) < record_bytes:
            order = {"order": draw.randrange(10**9), "customer": f"{draw.getrandbits(40):010x}"}
            text += json.dumps({**order, "items": draw.randrange(20), "number": number})
        found.append(text[:record_bytes].encode())
    return found


def batch(load: Load) -> bytes:
    """Returns the record batch that each Produce request of ``load`` contains."""
    now_ms = int(time.time() * 1000)  # the brokers delete older records
    records = [Record(i, now_ms, None, value) for i, value in enumerate(values(load.record_bytes))]
    return encode_batch(records, base_offset=0, compression=NAMES.index(load.codec))


def measure(broker: Broker, load: Load, topic: str, file: Path, secs: float) -> Measured:
    """Runs one load. Deletes the topic of a producer afterwards.

    Raises SystemExit if a response had an error.
    """
    partitions = load.clients if load.api == "produce" else 1
    depth = 5 if load.api == "produce" else 1
    acks = -1 if load.acks == "all" else 1
    options: dict[str, Any] = {
        "scenario": load.api, "addr": broker.bootstrap, "pid": broker.pid, "topic": topic,
        "topicparts": partitions, "conns": load.clients, "depth": depth, "acks": acks,
        "file": file, "secs": secs, "warm": secs / 2,
    }  # fmt: skip
    command = [str(groupload()), *(w for k, v in options.items() for w in (f"-{k}", str(v)))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"groupload failed for {load}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["bad"]:
        raise SystemExit(f"{load}: {found['bad']} of the responses had an error")
    if load.api == "produce":
        Cluster(broker.bootstrap).call("DeleteTopics", 1, topic_names=[topic], timeout_ms=20000)
    size = sum(map(len, values(load.record_bytes)))
    op_bytes = size if load.api == "produce" else size * FETCH_BYTES / file.stat().st_size
    return Measured(
        found["ops_s"] * op_bytes / MEGABYTE, op_bytes / found["server_cpu_us_op"] * 1e6 / MEGABYTE
    )


def line(load: Load, of_broker: dict[str, list[Measured]]) -> str:
    """Returns a line of the table of medians. A ratio above 1 favours Muster."""
    ours, theirs = (
        Measured(*(statistics.median(column) for column in zip(*of_broker[name], strict=True)))
        for name in ("muster", "kafka")
    )
    return (
        f"{load!s:42}{ours.mb_per_s:8.0f}{theirs.mb_per_s:8.0f}"
        f"{ours.mb_per_cpu_s:11.0f}{theirs.mb_per_cpu_s:8.0f}"
        f"{ours.mb_per_s / theirs.mb_per_s:9.2f}{ours.mb_per_cpu_s / theirs.mb_per_cpu_s:7.2f}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--secs", type=float, default=2.0, help="measured seconds of each load")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", default="", help="only lines with all these words: produce,lz4")
    options.add_argument("--json", type=Path, help="also write the figures of each round to a file")
    given = options.parse_args()
    words = [word for word in given.only.split(",") if word]
    chosen = [load for load in loads() if all(word in str(load).split() for word in words)]
    with tempfile.TemporaryDirectory(prefix="records-") as name:
        folder = Path(name)
        brokers = {
            "muster": Broker(folder / "muster", SETTINGS),
            "kafka": kafka(folder / "kafka", PLAIN._replace(settings=SETTINGS)),
        }
        try:
            for broker in brokers.values():
                broker.start()
            measured = run(brokers, chosen, folder, given.secs, given.rounds)
        finally:
            for broker in brokers.values():
                broker.kill()
    if given.json:
        given.json.write_text(json.dumps({str(load): of for load, of in measured.items()}))


def run(
    brokers: dict[str, Broker], chosen: list[Load], folder: Path, secs: float, rounds: int
) -> dict[Load, dict[str, list[Measured]]]:
    """Warms up the brokers, measures each load on them in turn, and prints a line for each."""
    title = f"{'':42}{'MB/s':>8}{'Kafka':>8}{'MB/CPU s':>11}{'Kafka':>8}{'x speed':>9}{'x CPU':>7}"
    print(title, flush=True)
    found: dict[Load, dict[str, list[Measured]]] = {}
    warm_up = [
        Load("produce", 1000, "lz4", "all", CLIENTS),
        Load("consume", 1000, "none", "all", 2),
    ]
    for number, load in enumerate([*warm_up, *chosen]):
        file = folder / "batch"
        file.write_bytes(batch(load))
        of_broker: dict[str, list[Measured]] = defaultdict(list)
        for round_number in range(rounds):
            for name, broker in brokers.items():
                topic = f"load-{number}-{round_number}"
                of_broker[name].append(measure(broker, load, topic, file, secs))
        if number >= len(warm_up):
            found[load] = of_broker
            print(line(load, of_broker), flush=True)
    return found


if __name__ == "__main__":
    main()
