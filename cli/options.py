"""Options that commands share, said once so that they read alike everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")
]

BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_S = 30.0
