"""`muster produce`: the records that it produces, and its errors about rejected records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.client.cluster import Cluster, Connection
from cli.topics import producing
from cli.topics.producing import Manner, Producer
from cli.topics.sources import Outgoing
from client.connection import Value
from protocol import errors
from protocol.records.section import Record
from tests.cli.running import run

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    run("topics", "create", name, "-p", "2")
    return name


def read(topic: str) -> list[dict[str, Any]]:
    ran = run("consume", topic, "--from-beginning", "--until-end", "--json")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_produce_writes_keys_headers_timestamps_and_tombstones(topic: str) -> None:
    words = ["-H", "trace=a=b", "-H", "empty=", "--timestamp", "2026-01-31T13:00:00+01:00"]
    ran = run("produce", topic, "-p", "1", "-k", "key", "-v", "value", *words)
    run("produce", topic, "-p", "1", "-k", "key", "--tombstone")
    run("produce", topic, "-p", "1", "--key-separator", r"\t", "--null", "-", stdin="a\t-\n-\tb\n")

    first, second, third, fourth = read(topic)
    assert ran.err == "muster: the records' timestamp is 2026-01-31T12:00:00.000Z\n"
    assert first | {"offset": 0} == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp_ms": 1769860800000,
        "key": "key",
        "value": "value",
        "headers": [{"name": "trace", "value": "a=b"}, {"name": "empty", "value": ""}],
    }
    assert [(each["key"], each["value"]) for each in (second, third, fourth)] == [
        ("key", None),
        ("a", None),
        (None, "b"),
    ]


def test_produce_writes_records_that_consume_has_printed_as_json(
    topic: str, tmp_path: Path
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)))
    run("produce", topic, "-p", "0", "--file", str(binary), "-k", "ä", "-H", "h=\udcff")
    run("produce", topic, "-p", "0", "-k", "gone", "--tombstone")
    run("produce", topic, "-p", "0", stdin=b"\xff\xfe\n\ntext\n")
    printed = run("consume", topic, "--from-beginning", "--until-end", "--json").out
    run("topics", "create", f"{topic}-again", "-p", "1")
    ran = run("produce", f"{topic}-again", "--from-json", "--json", stdin=printed)

    assert ran.json == {
        "topic": f"{topic}-again",
        "records": 5,
        "partitions": [{"partition": 0, "end_offset": 5}],
    }
    assert [{**each, "topic": topic} for each in read(f"{topic}-again")] == read(topic)


def test_produce_writes_a_file_as_one_record_or_as_one_record_per_line(
    topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3")
    paths = ["--file", str(tmp_path / "a"), "--file", str(tmp_path / "b")]
    run("produce", topic, "-p", "0", *paths)
    run("produce", topic, "-p", "0", *paths, "--lines")
    run("produce", topic, "-p", "0", "--file", "-", stdin="5\n6")

    assert [each["value"] for each in read(topic)] == ["1\n2\n", "3", "1", "2", "3", "5\n6"]


def test_error_about_a_too_large_record_names_its_line(topic: str) -> None:
    run("configs", "set", "max.message.bytes=10000", "--topic", topic)
    lines = "\n".join(["small"] * 5 + ["x" * 20_000] + ["small"] * 5)
    ran = run("produce", topic, "-p", "0", stdin=lines)
    many = run("produce", topic, "-p", "1", stdin="y" * 500 + "\n" + ("z" * 500 + "\n") * 99)

    assert ran.code == 1
    assert ran.err == (
        f"muster: line 6 has 20000 bytes, more than topic {topic} allows: check `muster configs"
        f" get max.message.bytes --topic {topic}`; 5 records sent before the error\n"
    )
    assert (many.code, len(read(topic))) == (0, 105)


def test_error_about_a_record_rejected_by_the_broker_names_its_line(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Connection.call

    def refuses(connection: Connection, api: str, value: Value, *more: Any) -> Value:
        answer = asked(connection, api, value, *more)
        if api == "Produce":
            result = answer["responses"][0]["partition_responses"][0]
            wrong = {"batch_index": 1, "batch_index_error_message": "No key."}
            result |= {"error_code": errors.INVALID_RECORD, "record_errors": [wrong]}
        return answer

    monkeypatch.setattr(Connection, "call", refuses)
    ran = run("produce", topic, "-p", "0", stdin="a\nb\nc\n")

    assert ran.err == (
        f"muster: line 2 for {topic}:0: No key (INVALID_RECORD); 0 records sent before the error\n"
    )


def test_produce_retries_after_not_leader_and_unknown_topic_errors(
    topic: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Producer._ask
    codes = [errors.NOT_LEADER_OR_FOLLOWER, errors.UNKNOWN_TOPIC_OR_PARTITION]

    def refuses(producer: Producer, partition: int, batch: list[Outgoing]) -> Value:
        return {"error_code": codes.pop()} if codes else asked(producer, partition, batch)

    monkeypatch.setattr(Producer, "_ask", refuses)
    monkeypatch.setattr(producing, "RETRY_S", 0)
    producer = Producer(Cluster(bootstrap), topic, Manner(-1, 0, None))
    producer.send([Outgoing(Record(0, -1, None, b"v"), "line 1")])

    assert (producer.sent, codes) == (1, [])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--acks", "0"], 2, "--acks 0: choose 1 or all"),
        (["-v", "a", "--file", "b"], 2, "choose one of --value, --file and --tombstone"),
        (["--tombstone"], 2, "--tombstone needs --key"),
        (["--lines"], 2, "--lines needs --file"),
        (["--file", "x", "--key-separator", ":"], 2, "with --file needs --lines"),
        (["-k", "a", "--key-separator", ":"], 2, "choose one of --key and --key-separator"),
        (["--key-separator", ""], 2, "--key-separator is empty"),
        (["--from-json", "-k", "a"], 2, "omit --key and --key-separator"),
        (["-H", "name", "-v", "a"], 2, "--header name: write it as NAME=VALUE"),
        (["--timestamp", "now", "-v", "a"], 2, "--timestamp now: write the time as"),
        (["-p", "9", "-v", "a"], 1, "does not exist; "),
        (["--file", "/none"], 2, "/none can't be read: No such file or directory; 0 records sent"),
        (["--from-json"], 2, "line 1 is not JSON"),
    ],
)
def test_produce_rejects_invalid_options_with_one_error_line(
    topic: str, words: list[str], code: int, says: str
) -> None:
    ran = run("produce", topic, *words, stdin="{\n")

    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err
    assert ran.err.count("\n") == 1
