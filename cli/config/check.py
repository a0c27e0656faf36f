"""`muster config check`: shows how Muster treats a server.properties file, without starting a
broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.errors import FOUND, CommandError
from cli.files import read_text
from cli.options import Json, Wide

if TYPE_CHECKING:
    from broker.config.config_value import Fault

app = typer.Typer(help="Check a server.properties file.", no_args_is_help=True)

HONOURED = "honoured"
NO_EFFECT = "no effect"
NOT_FOLLOWED = "not followed"
UNKNOWN = "unknown"
BAD = "bad"
_ORDER = (BAD, UNKNOWN, NOT_FOLLOWED, NO_EFFECT, HONOURED)


@app.callback()
def _config() -> None:
    """Does nothing. Without this callback, typer would run `check` as `muster config`, because
    `check` is the only subcommand."""


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file, such as server.properties.")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Count unknown settings as problems.")
    ] = False,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Show how Muster treats each setting; exit with 4 if a setting prevents a start.

    Verdicts: honoured; no effect (Muster does not need it); not followed (WHY says what Muster
    does instead); unknown (Kafka has no such setting); bad (prevents a start). Problems are listed
    first.
    """
    rows = sorted(rows_of(file), key=lambda row: (_ORDER.index(row["verdict"]), row["setting"]))
    output.show(
        rows, ["setting", "value", "verdict", "why"], f"{file} has no settings", json, wide=wide
    )
    faults = [row for row in rows if row["verdict"] in ((BAD, UNKNOWN) if strict else (BAD,))]
    if faults:
        counted = output.counted(len(faults), "problem")
        raise CommandError(f"{file} has {counted}, listed first", FOUND)


def rows_of(file: Path) -> list[output.Row]:
    """Returns a row for each setting in a file, and a row for each conflict between settings."""
    from broker.config.config import BadConfig, Config
    from broker.startup_faults import startup_faults
    from protocol.properties import parse

    given = parse(read_text(file))
    rows = {name: _row(name, text, given) for name, text in given.items()}
    try:
        faults: Sequence[Fault] = list(startup_faults(Config(given)))
    except BadConfig as error:
        faults = error.faults
    return [*rows.values(), *_together(faults, rows)]


def _together(faults: Sequence[Fault], rows: dict[str, output.Row]) -> list[output.Row]:
    """Adds each fault to the row of the setting that causes it. Returns new rows for conflicts
    between several settings."""
    protecting = {name for name, row in rows.items() if row["verdict"] == BAD}
    together: list[output.Row] = []
    for fault in faults:
        named = [rows[name] for name in fault.names if name in rows]
        if protecting.issuperset(fault.names):
            continue  # each of their rows has it
        if len(named) == 1:
            (row,) = named
            why = _without_setting(fault.sentence, row)
            before = f"{row['why']}; " if row["verdict"] == BAD else ""
            row.update(verdict=BAD, why=before + why)
        else:
            row = {"setting": "(together)", "value": None, "verdict": BAD, "why": fault.sentence}
            together.append(row)
    return together


def _without_setting(sentence: str, row: output.Row) -> str:
    """Returns the text of a fault without the setting's name and value, which the row shows in
    other columns."""
    shown = sentence.removeprefix(f"{row['setting']}={row['value']}: ")
    return shown.removeprefix(f"{row['setting']}: ")


def _row(name: str, text: str, given: Mapping[str, str]) -> output.Row:
    from broker.config.listener_settings import row_of
    from broker.config.not_followed import not_followed
    from broker.config.protection import asked_for, base_name, may_be_secret
    from broker.config.unknown_names import hint

    row: output.Row = {"setting": name, "value": "(hidden)" if may_be_secret(name) else text}
    wanted = asked_for(name, text)
    if wanted is not None:
        why = f"Muster does not support {wanted}, and does not start until you remove this setting"
        return {**row, "verdict": BAD, "why": why}
    setting, base = row_of(name), base_name(name)
    if base is None:
        return {**row, "verdict": UNKNOWN, "why": hint(name)}
    instead = not_followed(base, text, given)
    if instead is not None:
        return {**row, "verdict": NOT_FOLLOWED, "why": instead}
    has_effect = setting is not None and setting.has_effect
    return {**row, "verdict": HONOURED if has_effect else NO_EFFECT, "why": None}
