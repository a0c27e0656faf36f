"""`muster cluster`: shows the brokers; its subcommands are `describe`, `why` and `check`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.cluster.checking import check
from cli.cluster.describing import describe
from cli.cluster.listing import show_apis, show_brokers
from cli.cluster.why import why
from cli.errors import USAGE, CommandError
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide

app = typer.Typer(invoke_without_command=True)


@app.callback()
def cluster(
    context: typer.Context,
    apis: Annotated[
        bool, typer.Option("--apis", help="Show each broker's APIs and their versions.")
    ] = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the cluster's brokers and its number of topics, partitions and groups."""
    if context.invoked_subcommand is not None:
        _refuse_options(context, context.invoked_subcommand)
    elif apis:
        show_apis(bootstrap, timeout, json, wide)
    else:
        show_brokers(bootstrap, timeout, json, wide)


def _refuse_options(context: typer.Context, command: str) -> None:
    """Rejects options that precede the subcommand, such as --bootstrap, because they would have no
    effect."""
    for param in context.command.params:
        given = context.get_parameter_source(str(param.name))
        if given is not None and given.name == "COMMANDLINE":
            sentence = (
                f"write {param.opts[0]} after `{command}`: options before `{command}` apply only to"
                " `muster cluster` without a subcommand"
            )
            raise CommandError(sentence, USAGE)


for each in (describe, why, check):
    app.command()(each)
