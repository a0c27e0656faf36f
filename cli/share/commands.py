"""`muster share`: describes share groups, explains deliveries, and shows the next records."""

from __future__ import annotations

import typer

from cli.share.describing import describe
from cli.share.peek import peek
from cli.share.why import why

app = typer.Typer(
    help="Describe and explain share groups: holders and deliveries of records.",
    no_args_is_help=True,
)
for command in (describe, why, peek):
    app.command()(command)
