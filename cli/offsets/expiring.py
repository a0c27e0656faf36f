"""`muster offsets expiring`: which committed offsets retention will drop."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import output
from cli.http import api_at
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Http, Json, Timeout, Wide
from cli.times import duration_ms, instant, span


def expiring(
    within: Annotated[
        str, typer.Option("--within", metavar="TIME", help="Such as 30m, 12h or 7d.")
    ] = "1d",
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only this group.")
    ] = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show which offsets retention will drop, when and why. Needs Muster's HTTP."""
    within_ms = duration_ms(within, "--within")
    api = api_at(bootstrap, "offsets expiring", http, timeout)
    answer = api.get("/api/offsets/expiring", within_ms=within_ms, group=group)
    rows = sorted(answer["offsets"], key=lambda row: (row["expires_ms"], row["group"]))
    if json:
        output.show_json({**answer, "offsets": rows})
        return
    for row in rows:
        row["expires"] = instant(row["expires_ms"])
        row["in"] = span(row["expires_in_ms"]) if row["expires_in_ms"] else "at the next check"
        row["committed"] = instant(row["committed_ms"])
    columns = ["group", "topic", "partition", "offset", "committed", "expires", "in", "why"]
    output.show_table(rows, columns, f"No offset expires within {within}", wide=wide)
