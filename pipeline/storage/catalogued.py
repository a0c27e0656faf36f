"""Stores tables in a Spark catalog (Iceberg REST, Unity, Glue, Hive), where they grow by day.

Each table is partitioned by the column `day`. In a time series, the day is that of the row's time.
In all other tables, it is the day of the run's as-of time. A run rewrites the newest day of the
table and appends later days; earlier days stay unchanged. Therefore a repeated run does not
duplicate rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from pipeline.engines.engine import Engine, cast
from pipeline.errors import PipelineError, WrongUse
from pipeline.model.params import DAY_MS
from pipeline.storage.store import Store
from pipeline.times import instant

SCHEME: Final = "catalog://"
DAY: Final = "day"
_CLUSTER: Final = "muster.cluster_id"
_NAME: Final = re.compile(r"\w+(\.\w+)+")
_FIRST: Final = date(1970, 1, 1)
"""The value of the day column of a time series in rows without a time."""


@runtime_checkable
class Commands(Protocol):
    """The interface of an engine that supports catalogs."""

    def run(self, sql: str) -> Sequence[Mapping[str, Any]]:
        """Executes a Spark SQL statement. Returns its rows."""

    def types(self, schema: pa.Schema) -> dict[str, str]:
        """Returns the engine's data type of each column, by column name."""


class CatalogStore(Store):
    """The tables of one namespace of a catalog."""

    has_files = False

    def __init__(self, name: str, engine: Commands, using: str | None) -> None:
        """``using`` is the format of new tables; None selects the catalog's default."""
        if not _NAME.fullmatch(name):
            raise WrongUse(
                f"--catalog {name} is invalid: write CATALOG.NAMESPACE; the Spark session must"
                " set spark.sql.catalog.CATALOG, except for spark_catalog.default"
            )
        self.folder = SCHEME + name
        self._namespace = name
        self._engine = engine
        self._using = using
        self._cluster_id: str | None = None
        self._there: list[str] = []
        engine.run("SET spark.sql.sources.partitionOverwriteMode = dynamic")

    def path(self, name: str) -> str:
        """Returns the full name of the table."""
        return f"{self._namespace}.{name}"

    def has(self, name: str) -> bool:
        """Implements `Store.has`. Temporary relations of the session, which Spark lists too, do not
        count."""
        found = self._engine.run(f"SHOW TABLES IN {self._namespace} LIKE '{name}'")
        return any(row["tableName"] == name and not row["isTemporary"] for row in found)

    def since_ms(
        self, series: Sequence[str], asked_ms: int | None, end_ms: int | None
    ) -> int | None:
        """Implements `Store.since_ms`. Returns ``asked_ms`` if it is given. Otherwise determines
        the newest day of each table, and returns the start of the earliest of these days."""
        if asked_ms is not None and asked_ms % DAY_MS:
            raise WrongUse(
                f"--since {instant(asked_ms)} must be midnight UTC, because a catalog is written in"
                " whole days"
            )
        days = [day for name in series if (day := self._newest_day(name)) is not None]
        if asked_ms is not None or not days:
            return asked_ms
        newest_ms = (min(days) - _FIRST).days * DAY_MS
        if end_ms is not None and newest_ms >= end_ms:
            raise PipelineError(
                f"the tables in {self._namespace} already have rows of {min(days)}, but this run"
                " ends before that day: use --overwrite or another namespace"
            )
        return newest_ms

    def check_absent(self, names: Sequence[str], overwrite: bool) -> None:  # noqa: ARG002
        """Creates the namespace of the tables. Unlike other stores, a catalog accepts existing
        tables here, because a job adds rows to them. Only `check_cluster` rejects tables."""
        self._engine.run(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        self._there = [name for name in names if self.has(name)]

    def belong_to(self, cluster_id: str | None) -> None:
        """Implements `Store.belong_to`: stores the cluster id in the properties of new tables."""
        self.check_cluster(cluster_id)
        self._cluster_id = cluster_id

    def check_cluster(self, cluster_id: str | None) -> None:
        for name in self._there if cluster_id is not None else ():
            rows = self._engine.run(f"SHOW TBLPROPERTIES {self.path(name)}")
            noted = {row["key"]: row["value"] for row in rows}.get(_CLUSTER)
            if noted not in (None, cluster_id):
                raise PipelineError(
                    f"{self.path(name)} has rows of cluster {noted}, but the source is cluster"
                    f" {cluster_id}: choose another namespace"
                )

    def grows(self) -> bool:
        """Returns False, because a catalog never contains an archive. Each run writes the table
        `quarantine` itself."""
        return False

    def make(
        self,
        engine: Engine,
        relation: str,
        name: str,
        query: str,
        schema: pa.Schema,
        by: str | None,
        overwrite: bool = False,
        at: str | None = None,
    ) -> None:
        """Implements `Store.make`. With ``overwrite``, replaces the stored rows of each day for
        which the query returns rows."""
        newest = None if overwrite else self._newest_day(name)
        self._create(name, schema)
        columns = [f'"{each}"' for each in schema.names if each != DAY]
        listed = ", ".join(columns)
        rows = f"({cast(query, self._engine.types(schema))}) AS made"
        table = self.path(name)
        if at is None and by is None:
            day = f"DATE '{_FIRST + timedelta(milliseconds=self.as_of_ms)}'"
            self._engine.run(
                f"INSERT OVERWRITE {table} PARTITION ({DAY} = {day}) SELECT {listed} FROM {rows}"
            )
            where = f"{DAY} = {day}"
        else:
            day = f"coalesce(CAST({at or DAY} AS DATE), DATE '{_FIRST}')"
            where = f"{DAY} >= DATE '{newest or _FIRST}'"
            self._engine.run(
                f"INSERT OVERWRITE {table} SELECT * FROM"
                f" (SELECT {listed}, {day} AS {DAY} FROM {rows}) AS dated WHERE {where}"
            )
        read = ", ".join(f'"{each}"' for each in schema.names)
        engine.define(relation, f"SELECT {read} FROM {table} WHERE {where}", keep=False)

    def put(
        self,
        engine: Engine,
        name: str,
        query: str,
        schema: pa.Schema,
        by: str | None,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Implements `Store.put`. Returns an empty list, because a catalog exposes no files."""
        self.make(engine, f"written_{name}", name, query, schema, by, overwrite)
        return []

    def has_file(self, name: str) -> bool:  # noqa: ARG002
        """Returns False, because a catalog contains only tables."""
        return False

    def write_text(self, name: str, text: str) -> None:
        """Does nothing. Such a file marks a run; only stores that rename tables need the mark."""

    def delete(self, name: str) -> None:
        """Does nothing, because `write_text` writes no files."""

    def _create(self, name: str, schema: pa.Schema) -> None:
        kinds = {**self._engine.types(schema), DAY: "date"}
        columns = ", ".join(f'"{each}" {kind}' for each, kind in kinds.items() if each != DAY)
        using = f" USING {self._using}" if self._using else ""
        noted = f" TBLPROPERTIES ('{_CLUSTER}' = '{self._cluster_id}')" if self._cluster_id else ""
        self._engine.run(
            f"CREATE TABLE IF NOT EXISTS {self.path(name)} ({columns}, {DAY} date){using}"
            f" PARTITIONED BY ({DAY}){noted}"
        )

    def _newest_day(self, name: str) -> date | None:
        """Returns the newest day that has rows; None if the table is empty or does not exist."""
        if not self.has(name):
            return None
        [row] = self._engine.run(f"SELECT max({DAY}) AS newest FROM {self.path(name)}")
        newest: date | None = row["newest"]
        return newest
