"""`muster share why`: shows to which members records were delivered, how the members acknowledged
them, and the records' present state."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.groups.why import finding_lines
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    GroupName,
    Http,
    Json,
    Timeout,
    whole_number,
)
from cli.share.reading import Place, place_of, read_group
from cli.share.sentences import history, of_partition, of_record

Value = dict[str, Any]


def why(
    group: GroupName,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC:PARTITION@OFFSET",
            help="A record, a partition (without the offset) or a topic; default: all.",
        ),
    ] = None,
    last: Annotated[
        int, whole_number("--last", least=1, most=INT32, help="Number of records to show.")
    ] = 10,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show which records were delivered again or archived, to whom, and what the members said.

    The problems of the group come first, such as a member whose locks expire.

    The most often delivered records are first. Needs Muster's HTTP API.
    """
    wanted = place_of(place)
    with closing(Cluster(bootstrap, timeout_s=timeout)) as cluster:
        found = read_group(cluster, "share why", http, timeout, group, wanted)
    if json:
        output.show_json(found)
        return
    for line in story(found, wanted, last):
        output.say_folded(line)


def story(found: Value, wanted: Place, last: int) -> list[str]:
    """Returns lines about the share group ``found``, which the HTTP API has described. The lines
    contain the histories of at most ``last`` records."""
    lines = [f"{found['group']}  {found['state']}  members {len(found['members'])}"]
    limit = found["delivery_count_limit"]
    rows = found["partitions"]
    if wanted.offset is not None:
        for row in rows:
            lines += of_record(row, wanted.offset, limit)
        return lines
    lines += finding_lines(found["findings"], "share why")
    for row in rows:
        lines += of_partition(row)
    records = [(each, row) for row in rows for each in row["histories"]]
    records.sort(key=lambda pair: -pair[0]["deliveries"])
    for each, row in records[:last]:
        lines += history(row, each, limit)
    more = len(records[last:]) + sum(row["more_histories"] for row in rows)
    if more:
        what = output.counted(more, "more range")
        lines.append(f"{what} of records were delivered again or archived; --last N shows more")
    elif not records:
        lines.append("no record was delivered again or archived")
    return lines
