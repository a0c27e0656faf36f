"""Options that several commands have."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from cli.errors import USAGE, CommandError
from cli.usage import commands

INT16, INT32, INT64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1
"""The maximum values of a replication factor, a partition number and an offset."""
LONGEST = 19
A_DAY_S = 86_400

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="MUSTER_BOOTSTRAP",
        help="Brokers to connect to first.",
    ),
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        envvar="MUSTER_HTTP",
        help="Address of Muster's HTTP API; by default the address that the broker advertises.",
    ),
]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
SomeGroups = Annotated[
    list[str] | None,
    typer.Argument(metavar="GROUP", help="Group ids, or patterns such as 'bill*'."),
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group of the cluster.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topic names.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide", "-w", help="Show all columns and full names, even beyond the terminal's width."
    ),
]


def whole_number(*names: str, help: str, least: int = 0, most: int = INT64) -> Any:
    """Returns an option for a whole number from ``least`` to ``most``."""

    def parsed(text: object) -> int:
        found = str(text)
        digits = found.removeprefix("-")
        whole = digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST
        if not whole or not least <= int(found) <= most:
            raise typer.BadParameter(f"must be a whole number{_between(least, most)}")
        return int(found)

    return typer.Option(*names, metavar="N", parser=parsed, help=help)


def _between(least: int, most: int) -> str:
    if most == INT64:
        return " of 64 bits" if least < 0 else f", {least} or greater"
    return f" from {least} to {most}"


def seconds(*names: str, help: str, least: float) -> Any:
    """Returns an option for a number of seconds from ``least`` to one day."""

    def parsed(text: object) -> float:
        try:
            found = float(str(text))
        except ValueError:
            found = math.nan
        if not least <= found <= A_DAY_S:
            raise typer.BadParameter(f"must be {least:g} to {A_DAY_S} seconds (a day)")
        return found

    return typer.Option(*names, metavar="SECONDS", parser=parsed, help=help)


Timeout = Annotated[float, seconds("--timeout", least=0.1, help="How long to wait for a response.")]
Every = Annotated[
    float, seconds("--every", least=0.05, help="Seconds between two updates of the view.")
]
DryRunAtBroker = Annotated[
    bool, typer.Option("--dry-run", help="Let the broker validate the change, but change nothing.")
]

OF_EVERY_COMMAND = ("--bootstrap", "--http")
"""Options that are also accepted before the command's name: `muster -b HOST:PORT topics list`."""


def taken_before(command: Any) -> Any:
    """Makes every subcommand accept the options in OF_EVERY_COMMAND also before the subcommand's
    name. The same option after the name takes precedence."""
    for path, each in commands(command):
        for param in each.params:
            if path and set(param.opts) & set(OF_EVERY_COMMAND):
                param.callback = _else_from_before
    return command


def _else_from_before(context: Any, param: Any, value: Any) -> Any:
    source = context.get_parameter_source(param.name)
    before = context.find_root().params.get(param.name)
    return before if before and (source is None or source.name != "COMMANDLINE") else value


_EMPTY_ALLOWED = "GROUP"
"""The argument that may be empty: Kafka allows a group with an empty id. Muster's HTTP API has no
path for this group."""


def without_empty_names(command: Any) -> Any:
    """Makes empty arguments of all subcommands a usage error. Returns the command."""
    for _, each in commands(command):
        needs_http = each.name in ("why", "watch")
        for param in each.params:
            is_free = param.metavar == _EMPTY_ALLOWED and not needs_http
            if param.param_type_name == "argument" and not is_free:
                param.callback = _not_empty
    return command


def _not_empty(context: Any, param: Any, value: Any) -> Any:
    if value == "" or (isinstance(value, list | tuple) and "" in value):
        sentence = f"{param.metavar} is empty; see {context.command_path} --help"
        raise CommandError(sentence, USAGE)
    return value


BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_S = 30.0


def name_and_value(option: str, text: str) -> tuple[str, str]:
    """Returns name and value of the text NAME=VALUE. An error begins with ``option``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"{option}{text}: write it as NAME=VALUE", USAGE)
    return name.strip(), value.strip()
