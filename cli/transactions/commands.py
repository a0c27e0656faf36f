"""`muster transactions`: lists, describes, explains and aborts transactions."""

from __future__ import annotations

import typer

from cli.transactions.abort import abort
from cli.transactions.describing import describe
from cli.transactions.hanging import hanging
from cli.transactions.listing import list_ids
from cli.transactions.why import why

app = typer.Typer(
    help="List, describe, explain and abort transactions; find hanging transactions.",
    no_args_is_help=True,
)
app.command("list")(list_ids)
for command in (describe, why, abort, hanging):
    app.command()(command)
