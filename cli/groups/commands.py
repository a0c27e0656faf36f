"""`muster groups`: list, describe, explain, reset, delete and evict, with any Kafka broker."""

from __future__ import annotations

import typer

from cli.groups.deletion import delete
from cli.groups.describing import describe, members
from cli.groups.evict import evict
from cli.groups.lag import lag
from cli.groups.listing import list_groups
from cli.groups.reset import reset
from cli.groups.watch import watch
from cli.groups.why import why

app = typer.Typer(
    help="List, describe, explain, watch, fix (reset, evict) and delete consumer groups.",
    no_args_is_help=True,
)
app.command("list")(list_groups)
for command in (describe, members, lag, reset, delete, evict, why, watch):
    app.command()(command)
