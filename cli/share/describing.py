"""`muster share describe`: shows a share group's partitions, and the records that each member
holds."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from cli import output
from cli.client.cluster import Cluster
from cli.layout import Column, Columns
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, GroupName, Http, Json, Timeout, Wide
from cli.share.reading import Place, deliveries, read_group
from cli.times import instant, span

_PARTITIONS: Columns = [
    "topic",
    "partition",
    Column("start_offset", "START", always=True),
    Column("next_offset", "NEXT"),
    Column("log_end_offset", "END"),
    Column("held", always=True),
    "released",
    Column("unread", always=True),
    Column("again", "DELIVERED-AGAIN"),
    Column("archived", "ARCHIVED"),
]
_HELD: Columns = [
    "topic",
    "partition",
    Column("first_offset", "FIRST"),
    Column("last_offset", "LAST"),
    "deliveries",
    Column("client", "CLIENT"),
    "host",
    "member",
    "since",
    "until",
]


def describe(
    group: GroupName,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show a share group: its partitions, and which member holds which records until when."""
    with closing(Cluster(bootstrap, timeout_s=timeout)) as cluster:
        found = read_group(cluster, "share describe", http, timeout, group, Place())
    if json:
        output.show_json(found)
        return
    output.say(
        f"{found['group']}  {found['state']}  members {len(found['members'])}"
        f"  epoch {found['epoch']}"
    )
    output.say_folded(
        f"a member holds a record for {span(found['lock_duration_ms'])} at most; a record is"
        f" archived after {deliveries(found['delivery_count_limit'])}"
    )
    output.say("")
    output.show_table(
        [_row(each) for each in found["partitions"]], _PARTITIONS, "No share partitions", wide=wide
    )
    output.say("")
    held = [
        {
            **each,
            "topic": row["topic"],
            "partition": row["partition"],
            "since": instant(each["since_ms"]),
            "until": instant(each["until_ms"]),
        }
        for row in found["partitions"]
        for each in row["in_flight"]
        if each["state"] == "acquired"
    ]
    output.show_table(held, _HELD, "No member holds a record", wide=wide)
    more = sum(row["more_in_flight"] for row in found["partitions"])
    if more:
        output.say(f"{output.counted(more, 'more range')} of records in flight are not shown")


def _row(row: dict[str, Any]) -> output.Row:
    histories = row["histories"]
    again = sum(each["deliveries"] > 1 for each in histories)
    archived = sum(each["archived_because"] is not None for each in histories)
    plus = "+" if row["more_histories"] else ""
    return {
        **row,
        "held": row["records"]["acquired"],
        "released": row["records"]["available"] or None,
        "again": f"{again}{plus}" if again else None,
        "archived": f"{archived}{plus}" if archived else None,
    }
