"""`muster offsets expiring`: which committed offsets retention will drop."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from cli import output
from cli.errors import USAGE, CommandError
from cli.groups.why import clock, span
from cli.http import Api
from cli.options import HTTP, TIMEOUT_S, Http, Json, Timeout

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def expiring(
    within: Annotated[
        str, typer.Option("--within", metavar="TIME", help="Such as 30m, 12h or 7d.")
    ] = "1d",
    group: Annotated[str | None, typer.Option("--group", help="Of this group alone.")] = None,
    http: Http = HTTP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show which offsets retention will drop, when and why. Needs Muster's HTTP."""
    api = Api(http, "offsets expiring", timeout)
    answer = api.get("/api/offsets/expiring", within_ms=milliseconds(within), group=group)
    rows = sorted(answer["offsets"], key=lambda row: (row["expires_ms"], row["group"]))
    if json:
        output.show_json({**answer, "offsets": rows})
        return
    for row in rows:
        row["expires"] = clock(row["expires_ms"])
        row["in"] = span(row["expires_in_ms"]) if row["expires_in_ms"] else "at the next check"
        row["committed"] = clock(row["committed_ms"])
    columns = ["group", "topic", "partition", "offset", "committed", "expires", "in", "why"]
    output.show_table(rows, columns, f"no offset expires within {within}")


def milliseconds(text: str) -> int:
    """A length of time such as 30m; a CommandError for anything else."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text.strip())
    if match is None:
        raise CommandError(f"--within {text}: write a number and its unit, as in 30m or 7d", USAGE)
    return int(match[1]) * _UNITS_MS[match[2]]
