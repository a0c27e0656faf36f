"""Makes the tables of a store available in DuckDB: as views in `views.sql`, or as a database file.

duckdb -init views.sql

A view reads the files of its table: all files in its folder, or the current files of a Delta or
Iceberg table, so no extension is needed. Each run rewrites the views.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.engines.dialect import DuckDialect, type_of
from pipeline.errors import PipelineError, full_disk
from pipeline.model.tables import FORMER_NAMES, QUARANTINE
from pipeline.run.catalog import TABLES
from pipeline.run.queries import QUERIES
from pipeline.sources.segment_files import is_local
from pipeline.storage import s3
from pipeline.storage.store import Store
from pipeline.storage.whole import check_files, table_files

VIEWS: Final = "views.sql"
QUARANTINED: Final = "quarantine"
_SCHEMAS: Final = {name: table.schema for name, table in TABLES.items()} | {QUARANTINED: QUARANTINE}
_text = DuckDialect().text


def write_views(store: Store) -> str | None:
    """Writes a view for each existing table of the store into `views.sql`. Returns the path of this
    file.

    Returns None if DuckDB can't read the store's files. Raises PipelineError if the store has no
    tables.
    """
    if not (is_local(store.folder) or s3.is_s3(store.folder)):
        return None
    names = _there(store)
    lines = [
        f"-- Views of the tables in {store.folder}, and ready queries. Run: duckdb -init {VIEWS}",
        "-- FROM ready_queries; lists the queries. A run of `muster pipeline` rewrites this file.",
        "SET TimeZone = 'UTC';",
    ]
    if s3.is_s3(store.folder):
        lines.append(
            "CREATE OR REPLACE SECRET muster (TYPE s3, PROVIDER credential_chain);  -- for"
            " storage other than Amazon's, see DuckDB's httpfs"
        )
    for name in names:
        rows = _rows_of(name, store.table_urls(name))
        lines.append(f"CREATE OR REPLACE VIEW {name} AS {rows};")
    lines += _ready(names)
    store.write_text(VIEWS, "\n".join(lines) + "\n")
    return store.path(VIEWS)


def write_database(store: Store, file: str, overwrite: bool) -> list[str]:
    """Writes a DuckDB file with all tables and the ready-made queries. Returns the names of the
    tables.

    The file is written atomically. Raises PipelineError if the file exists and may not be replaced,
    or if the store has no tables.
    """
    import duckdb  # the driver of a cluster may not have it

    names = _there(store)
    if os.path.exists(file) and not overwrite:
        raise PipelineError(f"{file} exists: replace it with --overwrite")
    partial = f"{file}.partial"
    for left in (partial, f"{partial}.wal"):
        if os.path.exists(left):
            os.unlink(left)
    try:
        with duckdb.connect(partial) as database:
            database.execute("SET TimeZone = 'UTC'")
            for name in names:
                files = table_files(store.table_files(name), may_have_none=store.grows())
                check_files(files)
                database.execute(f"CREATE TABLE {name} AS {_rows_of(name, files)}")
            for statement in _ready(names):
                database.execute(statement)
    except (duckdb.IOException, duckdb.PermissionException) as error:
        if (full := full_disk(error)) is not None:
            raise PipelineError(f"{file} can't be written: no space left at {full}") from None
        raise PipelineError(f"{file} can't be written: {error}") from None
    os.replace(partial, file)
    return names


def _there(store: Store) -> list[str]:
    names = [name for name in _SCHEMAS if store.has(name)]
    if not names:
        raise PipelineError(f"{store.folder} has no tables: make them with `muster pipeline all`")
    return names


def _rows_of(table: str, files: Sequence[str]) -> str:
    """Returns the query that reads the files of a table with the columns of its schema."""
    types = {field.name: type_of(field.type) for field in _SCHEMAS[table]}
    values = {name: f'"{name}"' for name in types}
    for name, former in FORMER_NAMES.get(table, {}).items() if files else ():
        values[name] = f'coalesce("{name}", "{former}")'
        types[former] = types[name]
    columns = ", ".join(
        f'CAST({value} AS {types[name]}) AS "{name}"' for name, value in values.items()
    )
    nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in types.items())
    none = f"SELECT {nothing} WHERE false"
    if not files:
        return none
    listed = ", ".join(map(_text, files))
    return (
        f"SELECT {columns} FROM (({none}) UNION ALL BY NAME SELECT * FROM read_parquet([{listed}],"
        " hive_partitioning = true, hive_types_autocast = false, union_by_name = true)) AS there"
    )


def _ready(names: Sequence[str]) -> Iterator[str]:
    """Yields SQL statements that create views. Some views show a table with the names that its
    columns had earlier, others are ready-made queries. Omits views of tables that do not exist."""
    for name in FORMER_NAMES:
        if name in names:
            renamed = ", ".join(f'{new} AS "{old}"' for new, old in FORMER_NAMES[name].items())
            yield f"CREATE OR REPLACE VIEW old_{name} AS SELECT * RENAME ({renamed}) FROM {name};"
    queries = [query for query in QUERIES if set(query.tables) <= set(names)]
    for query in queries:
        yield f"CREATE OR REPLACE VIEW {query.name} AS {query.sql.strip()};"
    if queries:
        listed = ", ".join(f"({_text(query.name)}, {_text(query.what)})" for query in queries)
        yield (
            "CREATE OR REPLACE VIEW ready_queries AS"
            f" SELECT * FROM (VALUES {listed}) AS listed(name, what);"
        )
