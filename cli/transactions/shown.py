"""The fields of a transaction, as all commands show them in tables and JSON."""

from __future__ import annotations

from cli import output
from cli.client.transaction_reads import Described
from cli.names import owned
from cli.times import span


def row_of(found: Described, now_ms: int) -> output.Row:
    """Returns the fields of a transactional id, from its coordinator's description."""
    is_open = found.is_open and found.started_ms >= 0
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "open_ms": max(0, now_ms - found.started_ms) if is_open else None,
        "started_ms": found.started_ms if is_open else None,
        "timeout_ms": found.timeout_ms,
        "partitions": owned(found.topics),
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator.address,
    }


def for_people(row: output.Row) -> output.Row:
    """Returns a row for a table: durations are texts, and the number of partitions replaces the
    list of partitions."""
    partitions = sum(len(each["partitions"]) for each in row["partitions"] or ())
    return {
        **row,
        "open": None if row["open_ms"] is None else span(row["open_ms"]),
        "timeout": None if row["timeout_ms"] is None else span(row["timeout_ms"]),
        "touched": partitions or None,
    }
