"""The security settings of connections, from the file that `--command-config` or
MUSTER_COMMAND_CONFIG names."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cached_property
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


class _Choice:
    """The chosen file of client properties, which is read at the first connection to a cluster."""

    def __init__(self, file: Path, option: str) -> None:
        self._file = file
        self._option = option

    @cached_property
    def security(self) -> Security:
        """The security settings in the file. Raises CommandError if the file is invalid."""
        return security_in(self._file, self._option)


VARIABLE = "MUSTER_COMMAND_CONFIG"
_chosen: ContextVar[_Choice | None] = ContextVar("security", default=None)

_HELP = "Kafka client properties: security.protocol, ssl.*, sasl.*."
CommandConfig = Annotated[Path | None, typer.Option(OPTION, metavar="FILE", help=_HELP)]
SOURCE_OPTION = "--source-config"
SourceConfig = Annotated[
    Path | None,
    typer.Option(
        SOURCE_OPTION, metavar="FILE", help="Kafka client properties for the cluster of --source."
    ),
]
_NAMED = 5
"""The maximum number of ignored properties that one warning names."""


def chosen() -> Security:
    """Returns the default security settings. The first call reads the file that `--command-config`
    or MUSTER_COMMAND_CONFIG names. Raises CommandError if the file is invalid."""
    choice = _chosen.get()
    return PLAINTEXT if choice is None else choice.security


def choose(file: Path | None, option: str = OPTION) -> None:
    """Makes the security settings in ``file`` the default of this process. If ``file`` is None, the
    default is PLAINTEXT. The file is read when the settings are first used. Error messages about
    the file name ``option``."""
    _chosen.set(None if file is None else _Choice(file, option))


def secure(file: Path | None) -> None:
    """Makes the settings in ``file`` the default, if a file is given."""
    if file is not None:
        choose(file)


def taking_it(command: Any) -> Any:
    """Adds the option --command-config to every subcommand that has --bootstrap. Returns the
    command."""
    for param in command.params:
        if param.name == "command_config":
            param.callback = _choose
    for _, each in commands(command):
        names = [param.name for param in each.params]
        if "bootstrap" in names and "command_config" not in names:
            each.params.insert(names.index("bootstrap") + 1, _behind_a_name())
    return command


def _behind_a_name() -> Any:
    def given(command_config: CommandConfig = None) -> None:
        """Does nothing. The enclosing function copies the option --command-config from this
        signature."""

    alone = typer.Typer(add_completion=False)
    alone.command()(given)
    option = typer.main.get_command(alone).params[0]
    option.expose_value = False
    option.envvar = VARIABLE  # for its help: the parent command has already read the variable
    option.callback = _secure_if_typed
    return option


def _choose(context: Any, param: Any, file: str) -> str:
    option = VARIABLE if _is_of_variable(context, param) else OPTION
    choose(Path(file) if file else None, option)
    return file


def _secure_if_typed(context: Any, param: Any, file: str | None) -> None:
    if file is not None and not _is_of_variable(context, param):
        secure(Path(file))


def _is_of_variable(context: Any, param: Any) -> bool:
    source = context.get_parameter_source(param.name)
    return source is not None and source.name == "ENVIRONMENT"


def of_source(file: Path | None) -> Security:
    """Returns the security settings for the cluster of --source: from the file of --source-config,
    else the default."""
    return chosen() if file is None else security_in(file, SOURCE_OPTION)


def security_in(file: Path, option: str = OPTION) -> Security:
    """Returns the security settings in a file of client properties. Warns of ignored properties."""
    from client.settings import read_settings

    try:
        settings = read_settings(file)
    except ClientError as error:
        raise CommandError(f"{option}: {error}", USAGE) from None
    return security_of(settings, option)


def security_of(settings: Settings | None, option: str = OPTION) -> Security:
    """Returns the security settings in ``settings``; the default if None. Warns of ignored
    properties."""
    if settings is None:
        return chosen()
    if settings.unknown:
        named, more = settings.unknown[:_NAMED], len(settings.unknown) - _NAMED
        also = f" and {more} more" if more > 0 else ""
        output.warn(f"{option}: ignored properties: {', '.join(named)}{also}")
    return settings.security
