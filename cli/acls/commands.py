"""`muster acls`: list, add, remove and explain access control entries, with any Kafka broker."""

from __future__ import annotations

import typer

from cli.acls.changing import add, remove
from cli.acls.explaining import explain
from cli.acls.selecting import list_entries

app = typer.Typer(
    help="List, add and remove ACLs; explain why an operation is allowed or denied.",
    no_args_is_help=True,
)
app.command("list")(list_entries)
for command in (add, remove, explain):
    app.command()(command)
