"""`muster pipeline`: tables from the history of committed offsets, and repairs of offsets."""

from __future__ import annotations

import typer

from cli.pipeline.compare import compare
from cli.pipeline.events import events
from cli.pipeline.everything import NAME, everything
from cli.pipeline.jobs import JOBS, command_of
from cli.pipeline.migrate import migrate
from cli.pipeline.package import package
from cli.pipeline.replicate import replicate
from cli.pipeline.report import report
from cli.pipeline.restore import restore
from cli.pipeline.views import views

app = typer.Typer(
    help="Make tables and reports from the history of committed offsets; restore, migrate and"
    " replicate offsets.",
    no_args_is_help=True,
)
app.command()(events)
for _name in JOBS:
    if _name == NAME:
        app.command(_name)(everything)
    elif _name != "events":
        app.command(_name)(command_of(_name))
app.command()(compare)
app.command()(report)
app.command()(views)
app.command()(package)
app.command()(restore)
app.command()(migrate)
app.command()(replicate)
