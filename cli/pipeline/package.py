"""`muster pipeline package`: writes the files that spark-submit needs to run jobs on a cluster."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cli import output
from cli.errors import CommandError
from cli.files import not_written
from cli.options import Json
from cli.pipeline.source import check_out
from pipeline.package import ARCHIVE, MAIN_FILE, write_package


def package(
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FOLDER", help="The folder for the code archive and the main file."
        ),
    ] = "",
    master: Annotated[
        str,
        typer.Option(
            "--master", metavar="URL", help="The Spark master that the printed command names."
        ),
    ] = "spark://HOST:7077",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the code archive and main file for spark-submit; print the command that runs a job."""
    check_out(out)
    folder = Path(out)
    there = [name for name in (ARCHIVE, MAIN_FILE) if (folder / name).exists()]
    if there and not overwrite:
        raise CommandError(
            f"{out} already has {', '.join(there)}: choose another --out, or replace them with"
            " --overwrite"
        )
    try:
        archive, main_file = write_package(folder)
    except OSError as error:
        raise not_written(folder, error) from None
    line = [
        *("spark-submit", "--master", master, "--py-files", str(archive), str(main_file)),
        *("commits", "--source", "SOURCE", "--out", "TABLES"),
    ]
    if json:
        output.show_json({"archive": str(archive), "main": str(main_file), "line": line})
    else:
        output.say(shlex.join(line))
