"""`muster pipeline views`: makes the tables readable in DuckDB, by views or in one database
file."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from cli import output
from cli.options import Json
from cli.pipeline.engine import NO_MEANS, running
from cli.pipeline.source import check_out


def views(
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="The folder of the tables.")
    ] = "",
    duckdb: Annotated[
        str,
        typer.Option(
            "--duckdb", metavar="FILE", help="Also write a DuckDB file that contains all tables."
        ),
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a DuckDB file that exists.")
    ] = False,
    json: Json = False,
) -> None:
    """Write views.sql, with which DuckDB reads the tables in a folder, and ready-made queries."""
    check_out(out)
    with running(NO_MEANS, 0, out) as (engine, _):
        from pipeline.run.output_location import store_of
        from pipeline.run.views import write_database, write_views

        with closing(store_of(out, engine)) as store:
            store.reserve()
            where = write_views(store)
            tables = write_database(store, duckdb, overwrite) if duckdb else []
    if json:
        output.show_json({"views": where, "duckdb": duckdb or None, "tables": tables or None})
        return
    if where:
        say_views(where)
    if duckdb:
        output.say(f"{duckdb} has {output.counted(len(tables), 'table')}")


def say_views(where: str) -> None:
    if "://" in where:
        output.say(
            f"to query the tables in DuckDB, copy {where} to this folder, then run duckdb -init"
            " views.sql"
        )
    else:
        output.say(
            f"to query the tables in DuckDB, run duckdb -init {where}, then FROM ready_queries;"
        )
