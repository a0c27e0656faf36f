"""`muster share peek`: shows the records that members hold, and the records that the next fetch
would get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.fetch import fetch
from cli.client.offsets_at import READ_COMMITTED, READ_UNCOMMITTED, Partition
from cli.errors import USAGE, CommandError
from cli.layout import Column, Columns
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    GroupName,
    Http,
    Json,
    Timeout,
    Wide,
    whole_number,
)
from cli.share.reading import place_of, read_group
from cli.times import instant
from cli.topics.reading import records_of
from cli.topics.record_json import to_json
from protocol.records.section import Record
from protocol.records.stored import iter_stored

_MAX_BYTES = 1 << 20
_PREVIEW = 60
"""The maximum number of characters of a key or a value in the table."""
_COLUMNS: Columns = [
    "offset",
    "state",
    "deliveries",
    "client",
    "until",
    Column("key_text", "KEY"),
    Column("value_text", "VALUE"),
]


def peek(
    group: GroupName,
    place: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION", help="A partition, such as orders:0.")
    ],
    most: Annotated[
        int,
        whole_number("--max", "-n", least=1, most=INT32, help="At most N records of each state."),
    ] = 10,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the records that members hold, and the next records to deliver. Acquires nothing.

    States: held by a member, again (released, delivered next), new (never delivered).
    """
    wanted = place_of(place)
    if wanted.topic is None or wanted.partition is None or wanted.offset is not None:
        raise CommandError(f"{place}: name one partition, as in TOPIC:PARTITION", USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = read_group(cluster, "share peek", http, timeout, group, wanted)
    [row] = found["partitions"]
    rows = list(_records(cluster, row, most, found["isolation"]))
    if json:
        output.show_json(rows)
        return
    shown = [
        {
            **each,
            "until": None if each["until_ms"] is None else instant(each["until_ms"]),
            "key_text": _preview(each, "key"),
            "value_text": _preview(each, "value"),
        }
        for each in rows
    ]
    output.show_table(shown, _COLUMNS, "No records to deliver", wide=wide)


def _records(
    cluster: Cluster, row: dict[str, Any], most: int, isolation: str
) -> Iterator[dict[str, Any]]:
    """Yields at most ``most`` records of each state. A record that a member has acquired is yielded
    with this member."""
    if row["start_offset"] is None or row["log_end_offset"] is None:
        return
    where = row["topic"], row["partition"]
    leader = cluster.leaders([where[0]])[where]
    level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
    nobody = {"deliveries": 0, "member": None, "client": None, "host": None, "until_ms": None}
    new = {**nobody, "first_offset": row["next_offset"], "last_offset": row["log_end_offset"] - 1}
    for state, ranges in (
        ("held", [each for each in row["in_flight"] if each["state"] == "acquired"]),
        ("again", [each for each in row["in_flight"] if each["state"] == "available"]),
        ("new", [new]),
    ):
        left = most
        for each in ranges:
            if left <= 0:
                break
            for record in _read(leader, where, each, left, level):
                left -= 1
                kept = {name: each[name] for name in nobody}
                yield {**to_json(where, record), "state": state, **kept}


def _read(
    leader: Connection, where: Partition, span: dict[str, Any], most: int, isolation: int
) -> Iterator[Record]:
    """Yields at most ``most`` records of a range of offsets. Control records are skipped."""
    position, left = span["first_offset"], most
    while position <= span["last_offset"]:
        before = position
        answers = fetch(
            leader,
            [where],
            {where: position},
            partition_max_bytes=_MAX_BYTES,
            max_bytes=_MAX_BYTES,
            min_bytes=0,
            max_wait_ms=0,
            isolation=isolation,
        )
        for _, answer in answers:
            data = bytes(answer["records"] or b"")
            for header, _ in iter_stored(data, partial=True):
                for record in [] if header.is_control else records_of(where, data, header):
                    if before <= record.offset <= span["last_offset"]:
                        yield record
                        left -= 1
                        if not left:
                            return
                position = max(position, header.last_offset + 1)
        if position == before:
            return


def _preview(row: dict[str, Any], field: str) -> str | None:
    """Returns the beginning of a key or value. Bytes that are not UTF-8 are shown as base64."""
    text = row.get(field, row.get(f"{field}_base64"))
    return text if text is None or len(text) <= _PREVIEW else f"{text[:_PREVIEW]}..."
