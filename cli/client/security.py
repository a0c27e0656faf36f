"""How this command reaches brokers: what `--command-config`, or MUSTER_COMMAND_CONFIG, says."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.errors import USAGE, CommandError
from cli.usage import commands
from client.errors import ClientError
from client.security import OPTION, PLAINTEXT, Security

if TYPE_CHECKING:
    from client.settings import Settings

_chosen: ContextVar[Security] = ContextVar("security", default=PLAINTEXT)

_HELP = "Properties of Kafka's clients: security.protocol, ssl.*, sasl.*."
CommandConfig = Annotated[Path | None, typer.Option(OPTION, metavar="FILE", help=_HELP)]
SOURCE_OPTION = "--source-config"
SourceConfig = Annotated[
    Path | None,
    typer.Option(SOURCE_OPTION, metavar="FILE", help="The same for --source, where it differs."),
]
_NAMED = 5
"""Of what a file says in vain."""


def chosen() -> Security:
    """How clusters are reached that say nothing else."""
    return _chosen.get()


def choose(file: Path | None) -> None:
    """Reach clusters as a file says; plainly without one."""
    _chosen.set(PLAINTEXT if file is None else security_in(file))


def secure(file: Path | None) -> None:
    """Reach clusters as a command's own option says, where it was given."""
    if file is not None:
        choose(file)


def taking_it(command: Any) -> Any:
    """The command, in which each that speaks to a cluster takes the option behind its name too."""
    for _, each in commands(command):
        names = [param.name for param in each.params]
        if "bootstrap" in names and "command_config" not in names:
            each.params.insert(names.index("bootstrap") + 1, _behind_a_name())
    return command


def _behind_a_name() -> Any:
    def given(command_config: CommandConfig = None) -> None:
        """It is the option of this that is wanted."""

    alone = typer.Typer(add_completion=False)
    alone.command()(given)
    option = typer.main.get_command(alone).params[0]
    option.expose_value = False
    option.callback = lambda _, __, file: secure(None if file is None else Path(file))
    return option


def of_source(file: Path | None) -> Security:
    """How the cluster of --source is reached: as `--source-config` says, else as every one."""
    return chosen() if file is None else security_in(file, SOURCE_OPTION)


def security_in(file: Path, option: str = OPTION) -> Security:
    """What a file of client properties says; warns of what means nothing here."""
    from client.settings import read_settings

    try:
        settings = read_settings(file)
    except ClientError as error:
        raise CommandError(f"{option}: {error}", USAGE) from None
    return told(settings, option)


def told(settings: Settings | None, option: str = OPTION) -> Security:
    """The security of settings, with a warning of what they say in vain; `chosen` without any."""
    if settings is None:
        return chosen()
    if settings.unknown:
        named, more = settings.unknown[:_NAMED], len(settings.unknown) - _NAMED
        also = f" and {more} more" if more > 0 else ""
        output.warn(f"not used here, of {option}: {', '.join(named)}{also}")
    return settings.security
