"""`muster produce`: sends lines, JSON lines, files or values as records to a topic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.errors import USAGE, CommandError
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
from cli.times import datetime_ms, instant
from cli.topics.formats import unescaped
from cli.topics.producing import Manner, Producer
from cli.topics.sources import Outgoing, Shape, of_files, of_lines, of_values

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ACKS = {"1": 1, "all": -1}

Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        "-v",
        metavar="VALUE",
        help="A record's value, instead of standard input; repeatable.",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", metavar="FILE", help="A file as one record, or - for standard input; repeatable."
    ),
]
Lines = Annotated[bool, typer.Option("--lines", help="Send each line of --file as a record.")]
FromJson = Annotated[
    bool, typer.Option("--from-json", help="Read records in the format of `consume --json`.")
]
Key = Annotated[
    str | None, typer.Option("--key", "-k", metavar="KEY", help="The key of every record.")
]
KeySeparator = Annotated[
    str | None,
    typer.Option(
        "--key-separator", metavar="TEXT", help="The text between key and value in each line."
    ),
]
Null = Annotated[
    str | None,
    typer.Option(
        "--null", metavar="TEXT", help="A key or value equal to this text is sent as null."
    ),
]
Tombstone = Annotated[bool, typer.Option("--tombstone", help="Send one tombstone for --key.")]
HeaderTexts = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeatable."),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp", metavar="TIME", help="The timestamp of all records; now by default."
    ),
]
Partition = Annotated[
    int | None,
    whole_number("--partition", "-p", most=INT32, help="Send all records to this partition."),
]
Acks = Annotated[str, typer.Option("--acks", metavar="ACKS", help="1 or all.")]
Compression = Annotated[
    str,
    typer.Option("--compression", "-z", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."),
]


def produce(
    topic: TopicName,
    value: Values = None,
    file: Files = None,
    lines: Lines = False,
    from_json: FromJson = False,
    key: Key = None,
    key_separator: KeySeparator = None,
    null: Null = None,
    tombstone: Tombstone = False,
    header: HeaderTexts = None,
    timestamp: Timestamp = None,
    partition: Partition = None,
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Produce records from lines of standard input, from --value or from --file."""
    if compression not in CODECS:
        raise CommandError(f"--compression {compression}: choose one of {', '.join(CODECS)}", USAGE)
    if acks not in ACKS:
        raise CommandError(f"--acks {acks}: choose 1 or all", USAGE)
    if (value is not None) + bool(file) + tombstone > 1:
        raise CommandError("choose one of --value, --file and --tombstone", USAGE)
    shape = Shape(
        None if key is None else _bytes(key),
        None if key_separator is None else unescaped(key_separator, "--key-separator"),
        None if null is None else _bytes(null),
        tuple(_header(text) for text in header or ()),
        None if timestamp is None else datetime_ms(timestamp, "--timestamp"),
        from_json,
    )
    pieces = _pieces(shape, value, file or [], lines, tombstone)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    producer = Producer(cluster, topic, Manner(ACKS[acks], CODECS[compression], partition))
    if value is None and not file and not tombstone and sys.stdin.isatty():
        output.warn("each line is sent as a record; Ctrl-D ends the input")
    if shape.timestamp_ms is not None:
        output.warn(f"the records' timestamp is {instant(shape.timestamp_ms, to_the_ms=True)}")
    try:
        for piece in pieces:
            producer.send(piece)
    except CommandError as error:
        sent = output.counted(producer.sent, "record")
        raise CommandError(f"{error}; {sent} sent before the error", error.exit_code) from None
    ends = sorted(producer.ends.items())
    if json:
        partitions = [{"partition": p, "end_offset": end} for p, end in ends]
        output.show_json({"topic": topic, "records": producer.sent, "partitions": partitions})
        return
    where = ", ".join(f"log end offset of partition {p}: {end}" for p, end in ends)
    sentence = f"Produced {output.counted(producer.sent, 'record')} to {topic}"
    output.say(f"{sentence} ({where})" if where else sentence)


def _pieces(
    shape: Shape, values: list[str] | None, files: list[str], lines: bool, tombstone: bool
) -> Iterator[list[Outgoing]]:
    """Yields lists of the records that the options name. Raises CommandError if the options
    contradict each other."""
    if shape.separator == b"":
        raise CommandError("--key-separator is empty; choose a text such as :", USAGE)
    if shape.is_json and (shape.key is not None or shape.separator is not None):
        raise CommandError("--from-json includes keys: omit --key and --key-separator", USAGE)
    if shape.key is not None and shape.separator is not None:
        raise CommandError("choose one of --key and --key-separator", USAGE)
    if lines and not files:
        raise CommandError("--lines needs --file; standard input is always read by lines", USAGE)
    if tombstone:
        if shape.key is None:
            raise CommandError("--tombstone needs --key", USAGE)
        return iter([[shape.tombstone()]])
    if values is not None:
        return of_values(map(_bytes, values), shape)
    if files and not lines and not shape.is_json:
        if shape.separator is not None:
            raise CommandError("--key-separator with --file needs --lines", USAGE)
        return of_files(files, shape)
    return of_lines(files, shape)


def _bytes(text: str) -> bytes:
    """Returns the bytes of an argument as the user typed them, even if they are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--header {text}: write it as NAME=VALUE", USAGE)
    return name, _bytes(value)
