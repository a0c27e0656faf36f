"""`muster produce`: lines of standard input become records of a topic."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from cli.errors import USAGE, CommandError, refused
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    Json,
    Timeout,
    TopicName,
    whole_number,
)
from cli.topics.partitioner import partition_of_key
from protocol.records.batch import encode_batch
from protocol.records.section import Record

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ACKS = {"1": 1, "all": -1}
BATCH_RECORDS = 1000
BATCH_BYTES = 256 * 1024

Line = tuple[bytes | None, bytes]


def produce(
    topic: TopicName,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", "-v", help="A record's value; repeatable; instead of stdin."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key for each --value.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", metavar="TEXT", help="Cut each line into key and value here."
        ),
    ] = None,
    partition: Annotated[
        int | None, whole_number("--partition", "-p", most=INT32, help="To this partition alone.")
    ] = None,
    acks: Annotated[str, typer.Option(help="1 or all.")] = "all",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Produce records: each line of standard input, or each --value."""
    if compression not in CODECS:
        raise CommandError(f"--compression {compression}: choose one of {', '.join(CODECS)}", USAGE)
    if acks not in ACKS:
        raise CommandError(f"--acks {acks}: choose 1 or all", USAGE)
    producer = Producer(bootstrap, topic, timeout, ACKS[acks], CODECS[compression], partition)
    lines: Iterator[Line]
    if value is not None:
        lines = ((key.encode() if key is not None else None, text.encode()) for text in value)
    else:
        separator = key_separator.encode() if key_separator is not None else None
        lines = _lines(sys.stdin.buffer, separator)
    for chunk in _chunks(lines):
        producer.send(chunk)
    if json:
        output.show_json({"topic": topic, "records": producer.sent, "partitions": producer.ends})
    else:
        ends = ", ".join(f"partition {p} ends at {o}" for p, o in sorted(producer.ends.items()))
        sentence = f"Produced {output.counted(producer.sent, 'record')} to {topic}"
        output.say(f"{sentence} ({ends})" if ends else sentence)


def _lines(stream: Iterable[bytes], separator: bytes | None) -> Iterator[Line]:
    for number, line in enumerate(stream, 1):
        text = line.rstrip(b"\r\n")
        if separator is None:
            yield None, text
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise CommandError(f"line {number} has no {separator.decode()!r} to end its key", USAGE)
        yield key, value


def _chunks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    for first in lines:
        chunk, size = [first], len(first[1])
        for line in itertools.islice(lines, BATCH_RECORDS - 1):
            chunk.append(line)
            size += len(line[1])
            if size >= BATCH_BYTES:
                break
        yield chunk


class Producer:
    """Sends chunks of lines, one batch a partition, and waits for each answer."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        timeout_s: float,
        acks: int,
        codec: int,
        partition: int | None,
    ) -> None:
        self.topic, self.acks, self.codec, self.partition = topic, acks, codec, partition
        self.timeout_s = timeout_s
        self.sent = 0
        self.ends: dict[int, int] = {}
        self._turn = 0
        cluster = Cluster(bootstrap, timeout_s=timeout_s)
        found = cluster.leaders([topic])
        self.leaders: dict[int, Connection] = {p: leader for (_, p), leader in found.items()}
        if partition is not None and partition not in self.leaders:
            raise CommandError(
                f"topic {topic} has no partition {partition}; it has {len(self.leaders)} partitions"
            )

    def send(self, chunk: list[Line]) -> None:
        """Append one chunk; CommandError names the partition that refused."""
        by_partition: dict[int, list[Line]] = {}
        count = len(self.leaders)
        for key, value in chunk:
            if self.partition is not None:
                target = self.partition
            elif key is not None:
                target = partition_of_key(key, count)
            else:
                target = self._turn % count  # keyless records of one chunk stay together
            by_partition.setdefault(target, []).append((key, value))
        self._turn += 1
        for target, lines in by_partition.items():
            self._append(target, lines)
            self.sent += len(lines)

    def _append(self, partition: int, lines: list[Line]) -> None:
        now_ms = clock.now_ms()
        records = [Record(i, now_ms, key, value, ()) for i, (key, value) in enumerate(lines)]
        leader = self.leaders[partition]
        if leader.version_of("Produce") < 3:
            raise CommandError("this broker is older than 0.11 and takes no record batches")
        batch = encode_batch(records, base_offset=0, compression=self.codec)
        request = {
            "transactional_id": None,
            "acks": self.acks,
            "timeout_ms": int(self.timeout_s * 1000),
            "topic_data": [
                {"name": self.topic, "partition_data": [{"index": partition, "records": batch}]}
            ],
        }
        answer = leader.call("Produce", request, self.timeout_s + 5)
        result = answer["responses"][0]["partition_responses"][0]
        if result["error_code"]:
            what = f"records for {self.topic}-{partition}"
            raise refused(what, result["error_code"], result["error_message"])
        self.ends[partition] = result["base_offset"] + len(lines)
