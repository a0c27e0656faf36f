"""The tables that `muster pipeline all` makes of a history, read as dicts."""

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
    """The records of the clients, and the pipeline's tables of the same log."""

    told: Told
    source: str
    tables: dict[str, list[Row]]
    summary: dict[str, Any]
    """The summary that `--json` prints."""
    data: Path
    """The broker's data folder."""

    @property
    def over_the_wire(self) -> bool:
        """True if the source is a running broker."""
        return ":" in self.source

    @property
    def by_questions(self) -> bool:
        """True if a broker looked up the record times, in this run or when the archive was made."""
        return self.over_the_wire or self.source.endswith("archive")

    def of(self, table: str, group: str | None = None) -> list[Row]:
        """Returns the rows of a table, of one group or of all groups; they are in log order if the
        table has log offsets."""
        rows = [row for row in self.tables[table] if group in (None, row.get("group_id"))]
        return sorted(rows, key=lambda row: (row.get("log_partition"), row.get("log_offset") or 0))


def make(told: Told, source: str, out: Path, *options: str) -> Made:
    """Runs the job `all` from the command line."""
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
    """Groups rows by a key, in their order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def place(row: Row) -> tuple[str, str, int]:
    """Group, topic and partition of a row."""
    return row["group_id"], row["topic"], row["partition"]


def ms(at: Any) -> float | None:
    """Returns the value of a time column in milliseconds."""
    return None if at is None else at.timestamp() * 1000
