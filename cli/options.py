"""Options that commands share, so that they read alike everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.errors import USAGE, CommandError

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="MUSTER_BOOTSTRAP",
        help="Any broker of the cluster.",
    ),
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        envvar="MUSTER_HTTP",
        help="Where the Muster serves HTTP, if not where its broker says (http.listener).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Wide = Annotated[
    bool, typer.Option("--wide", "-w", help="Show every column and full names, however wide.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")
]
DryRunAtBroker = Annotated[
    bool, typer.Option("--dry-run", help="Only have the broker check it; change nothing.")
]

BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_S = 30.0


def name_and_value(option: str, text: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE; ``option`` stands before it in the error."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"{option}{text}: write it as NAME=VALUE", USAGE)
    return name.strip(), value.strip()
