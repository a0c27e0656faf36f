"""`muster config check`: what Muster makes of a server.properties, before it is used."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from cli import output
from cli.errors import FOUND, CommandError
from cli.files import read_text
from cli.options import Json, Wide

app = typer.Typer(help="Check configuration files.", no_args_is_help=True)

HONOURED = "honoured"
NO_EFFECT = "no effect"
UNKNOWN = "unknown"
BAD = "bad"
_ORDER = (BAD, UNKNOWN, NO_EFFECT, HONOURED)


@app.callback()
def _config() -> None:
    """Keeps `check` a subcommand while it is the only one."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Such as server.properties.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Count unknown settings as faults.")
    ] = False,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Show which settings are honoured, without effect, unknown or bad; exit 4 for bad ones."""
    rows = sorted(rows_of(file), key=lambda row: (_ORDER.index(row["verdict"]), row["setting"]))
    output.show(
        rows, ["setting", "value", "verdict", "why"], f"{file} sets nothing", json, wide=wide
    )
    faults = [row for row in rows if row["verdict"] in ((BAD, UNKNOWN) if strict else (BAD,))]
    if faults:
        counted = output.counted(len(faults), "fault")
        raise CommandError(f"{file} has {counted}, listed first", FOUND)


def rows_of(file: Path) -> list[output.Row]:
    """A row for each setting of a file, and one for what only shows when they are together."""
    from broker.config.config import BadConfig, Config
    from broker.config.properties import parse
    from broker.config.protection import asked_for

    given = parse(read_text(file))
    rows = [_row(name, text) for name, text in given.items()]
    followed = {name: text for name, text in given.items() if asked_for(name, text) is None}
    if not any(row["verdict"] == BAD and row["setting"] in followed for row in rows):
        try:
            Config(followed)
        except BadConfig as error:
            together = {"setting": "(together)", "value": None, "verdict": BAD, "why": str(error)}
            rows.append(together)
    return rows


def _row(name: str, text: str) -> output.Row:
    from broker.config.config_table import BROKER
    from broker.config.config_value import BadValue, parse_value
    from broker.config.protection import asked_for, base_name, may_be_secret

    row: output.Row = {"setting": name, "value": "(hidden)" if may_be_secret(name) else text}
    wanted = asked_for(name, text)
    if wanted is not None:
        why = f"it asks for protection that Muster does not have: {wanted}"
        return {**row, "verdict": BAD, "why": why}
    setting = BROKER.get(name)
    if setting is None:
        if base_name(name) is not None:
            return {**row, "verdict": NO_EFFECT, "why": None}
        near = get_close_matches(name, BROKER, 1, 0.8)
        return {**row, "verdict": UNKNOWN, "why": f"did you mean {near[0]}?" if near else None}
    try:
        parse_value(setting, text)
    except BadValue as error:
        return {**row, "verdict": BAD, "why": str(error).removeprefix(f"{name}={text}: ")}
    return {**row, "verdict": HONOURED if setting.has_effect else NO_EFFECT, "why": None}
