"""Runs `muster pipeline all`, and reads its tables as dicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset

from pipeline.run.catalog import TABLES
from tests.cli.running import run
from tests.pipeline.truth.told import Told

Row = dict[str, Any]


@dataclass
class Made:
    """The results that clients recorded, and the tables that the pipeline made of the same
    history."""

    told: Told
    source: str
    tables: dict[str, list[Row]]
    summary: dict[str, Any]
    """The summary of the run, as `--json` prints it."""
    data: Path

    @property
    def over_the_wire(self) -> bool:
        """True if the source of the run is a running broker."""
        return ":" in self.source

    @property
    def by_questions(self) -> bool:
        """True if the record times come from ListOffsets requests to a broker. Either this run sent
        the requests, or its source is an archive and the writer of the archive sent them."""
        return self.over_the_wire or self.source.endswith("archive")

    def of(self, table: str, group: str | None = None) -> list[Row]:
        """Returns the rows of a table, for one group or for all groups. If the table has log
        offsets, the rows are in log order."""
        rows = [row for row in self.tables[table] if group in (None, row.get("group_id"))]
        return sorted(rows, key=lambda row: (row.get("log_partition"), row.get("log_offset") or 0))


def make(told: Told, source: str, out: Path, *options: str) -> Made:
    """Runs the job `all` as a command."""
    ran = run("pipeline", "all", "--source", source, "--out", str(out), "--json", *options)
    assert (ran.code, ran.err) == (0, ""), ran.err
    return Made(told, source, {name: read(out, name) for name in TABLES}, ran.json, Path(source))


def read(out: Path, name: str) -> list[Row]:
    """Returns the rows of a table, with the columns of the catalog."""
    schema = TABLES[name].schema
    found = pyarrow.dataset.dataset(out / name, schema, partitioning="hive").to_table()
    rows: list[Row] = found.to_pylist()
    return rows


def by(rows: list[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def place(row: Row) -> tuple[str, str, int]:
    return row["group_id"], row["topic"], row["partition"]


def ms(at: Any) -> float | None:
    """Converts the value of a time column to milliseconds since 1970."""
    return None if at is None else at.timestamp() * 1000
