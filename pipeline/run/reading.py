"""Chooses the engine that queries the tables that a job has written, for figures, the report and
Prometheus.

In Spark each query is a Spark job, which costs a second of CPU time even for a few rows. DuckDB
reads files on this machine in a hundredth of this time, whichever engine wrote them.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.engines.dialect import DuckDialect
from pipeline.engines.engine import Engine
from pipeline.run.catalog import Table
from pipeline.run.choice import LIGHT_RECORDS, processes_for
from pipeline.sources.segment_files import is_local
from pipeline.storage.formats import PARQUET
from pipeline.storage.store import Store


class Reader:
    """Queries the tables of a run. If the run's own engine made the tables, this engine queries
    them. Otherwise a DuckDB engine reads the files of the tables."""

    def __init__(self, engine: Engine, store: Store | None) -> None:
        """``engine`` reads the tables. ``store`` is None if ``engine`` has made the tables in this
        run. Otherwise ``engine`` is a DuckDB engine that reads the files of the tables in
        ``store``."""
        self.engine = engine
        self._store = store

    def relation(self, table: Table, own: str) -> str:
        """Returns the name of a relation that has the rows of ``table``. If this run's engine has
        computed the table, returns ``own``, the name of the computed relation. Otherwise opens the
        files of the table as a relation, and returns the table's name."""
        if self._store is None:
            return own
        self.engine.open(table.name, self._store.table_files(table.name), table.schema)
        return table.name


@contextmanager
def reading(engine: Engine, store: Store, records: int) -> Iterator[Reader]:
    """Opens the engine that queries the tables of a history of ``records`` records."""
    is_beside = (
        not isinstance(engine.dialect, DuckDialect)
        and engine.is_here
        and store.format == PARQUET
        and is_local(store.folder)
        and records <= LIGHT_RECORDS
        and importlib.util.find_spec("duckdb") is not None
    )
    if not is_beside:
        yield Reader(engine, None)
        return
    from pipeline.engines.duck import DuckEngine

    with tempfile.TemporaryDirectory(prefix="muster-pipeline-") as scratch:
        duck = DuckEngine(scratch, processes_for(records))
        try:
            yield Reader(duck, store)
        finally:
            duck.close()
