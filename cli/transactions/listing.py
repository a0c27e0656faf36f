"""`muster transactions list`: lists transactional ids. Transactions that have been open for longest
come first."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import clock, output
from cli.client.cluster import Cluster
from cli.client.transaction_reads import (
    STATES,
    Described,
    Listed,
    describe_transactions,
    list_transactions,
    states_named,
)
from cli.errors import CommandError
from cli.http import find_api
from cli.layout import Column, Columns
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Http, Json, Timeout, Wide, whole_number
from cli.patterns import chosen
from cli.sorting import Sort, Top, in_order
from cli.times import duration_ms
from cli.transactions.shown import for_people, row_of

COLUMNS: Columns = [
    Column("transactional_id", "ID"),
    "state",
    Column("open", "OPEN-FOR"),
    "timeout",
    Column("touched", "PARTITIONS"),
    Column("producer_id", "PRODUCER"),
    Column("producer_epoch", "EPOCH"),
    "client",
    "host",
    "coordinator",
]
SORTED_BY: Columns = [
    Column("transactional_id", "ID"),
    "state",
    Column("open_ms", "OPEN-FOR"),
    Column("timeout_ms", "TIMEOUT"),
    Column("producer_id", "PRODUCER"),
]


def list_ids(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Transactional ids, or patterns such as 'bill*'."),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help=f"Show ids in this state: open, {', '.join(STATES)}.",
        ),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than",
            metavar="TIME",
            help="Show transactions open for longer than a duration, such as 90s, 15m or PT1H.",
        ),
    ] = None,
    producer: Annotated[
        list[int] | None,
        whole_number("--producer-id", help="Show ids with this producer id; repeatable."),
    ] = None,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List transactional ids: state, time open, and number of partitions.

    Muster's HTTP API adds the client of each id.
    """
    states = states_named(state or [])
    least_ms = None if longer_than is None else duration_ms(longer_than, "--longer-than")
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = list_transactions(cluster, states, producer or ())
    if patterns:
        names = set(chosen(patterns, [each.transactional_id for each in found]).names)
        found = [each for each in found if each.transactional_id in names]
    rows = _rows(cluster, found)
    if least_ms is not None:
        rows = [row for row in rows if row["open_ms"] is not None and row["open_ms"] > least_ms]
    rows.sort(key=lambda row: -1 if row["open_ms"] is None else row["open_ms"], reverse=True)
    rows = in_order(rows, sort, top, SORTED_BY)
    filtered = patterns or states or producer or least_ms is not None
    empty = "No transactional id matches" if filtered else "No transactional ids yet"
    _add_clients(cluster, rows, http, timeout)
    shown = rows if json else list(map(for_people, rows))
    output.show(shown, COLUMNS, empty, json, wide=wide)


def _add_clients(
    cluster: Cluster, rows: list[output.Row], http: str | None, timeout_s: float
) -> None:
    """Adds the client that last used each id. Only Muster's HTTP API returns the client."""
    known: dict[str, output.Row] = {}
    if rows:
        try:
            api = find_api(cluster, "transactions list", http, timeout_s)
            found = [] if api is None else api.get("/api/transactions")["transactions"]
            known = {each["id"]: each for each in found}
        except CommandError:
            if http is not None:
                raise
    for row in rows:
        reported = known.get(row["transactional_id"], {})
        row.update(client=reported.get("client"), host=reported.get("host"))


def _rows(cluster: Cluster, found: list[Listed]) -> list[output.Row]:
    """Returns a row for each transactional id. Only ids with an open transaction have all
    fields."""
    asked = {each.transactional_id: each.coordinator for each in found if each.is_open}
    described = describe_transactions(cluster, asked)
    now_ms = clock.now_ms()
    return [_row(each, described.get(each.transactional_id), now_ms) for each in found]


def _row(listed: Listed, described: Described | None, now_ms: int) -> output.Row:
    if described is not None:
        return row_of(described, now_ms)
    return {
        "transactional_id": listed.transactional_id,
        "state": listed.state,
        "open_ms": None,
        "started_ms": None,
        "timeout_ms": None,
        "partitions": [],
        "producer_id": listed.producer_id,
        "producer_epoch": None,
        "coordinator": listed.coordinator.address,
    }
