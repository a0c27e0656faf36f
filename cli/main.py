"""The `muster` command: finds the subcommand and imports only its modules. `muster serve` must
start fast, so it does not import typer and rich. The other commands import both."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cli.errors import INTERRUPTED, REFUSED, TERMINATED, USAGE, CommandError, Interrupts
from cli.names import safe
from cli.streams import NobodyReads, discard, prepare
from cli.usage import commands, runs, tidy

if TYPE_CHECKING:
    import typer

_COMMANDS = {
    "acls": "cli.acls.commands",
    "quotas": "cli.quotas.commands",
    "users": "cli.users.commands",
    "topics": "cli.topics.commands",
    "groups": "cli.groups.commands",
    "offsets": "cli.offsets.commands",
    "share": "cli.share.commands",
    "transactions": "cli.transactions.commands",
    "configs": "cli.config.configs",
    "backup": "cli.backup.commands",
    "cluster": "cli.cluster.commands",
    "dev": "cli.dev.commands",
    "top": "cli.top",
    "config": "cli.config.check",
    "logs": "cli.logs.dump",
    "produce": "cli.topics.produce",
    "consume": "cli.topics.consume",
    "pipeline": "cli.pipeline.commands",
}
"""The module of each command. The module contains ``app`` (a typer app), or a function with the
name of the command."""


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from cli.serve import serve

        sys.exit(serve(arguments[1:]))
    prepare()
    # Like Ctrl-C, SIGTERM lets a command leave its group and restore the terminal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    signal.signal(signal.SIGINT, Interrupts.raise_one)
    try:
        sys.exit(run_client(arguments))
    except KeyboardInterrupt:  # during the import of the command
        sys.exit(INTERRUPTED)


def run_client(arguments: list[str]) -> int:
    """Runs any command except ``serve``. Returns its exit code. Raises an exception only if there
    is a bug."""
    from typer.exceptions import Abort, TyperException

    completes = "_MUSTER_COMPLETE" in os.environ
    comes_late = arguments[:1] != ["serve"] and _from_the_command_on(arguments)[:1] == ["serve"]
    if comes_late and not completes:
        return _failed("write options of serve after `serve`; see muster serve --help", USAGE)
    words = _words_to_complete() if completes else arguments
    command = command_of(words[:1] if words and words[0] in _COMMANDS else _COMMANDS)
    if completes:
        from cli.completion import with_names

        command = with_names(command)
    try:
        code = int(command.main(arguments, prog_name="muster", standalone_mode=False) or 0)
        sys.stdout.flush()
    except CommandError as error:
        return _failed(str(error), error.exit_code)
    except TyperException as error:
        return _wrong_use(error, arguments)
    except Abort as error:  # Ctrl-C at a question
        # typer converts an EOFError, here a bug of a command, to an Abort
        if isinstance(error.__context__, EOFError):
            raise error.__context__ from None
        return _failed("interrupted, nothing was done", INTERRUPTED)
    except NobodyReads:  # as after `| head`
        return 0
    # an argument that is not text, or text that is not a valid host name
    except UnicodeError as error:
        return _failed(f"{getattr(error, 'object', error)!s:.80} is not UTF-8", USAGE)
    except OSError as error:
        discard()
        return _failed(f"{error.filename or 'standard output'}: {error.strerror}", REFUSED)
    return code


def _words_to_complete() -> list[str]:
    """Returns the complete words of the command line that the shell wants to complete."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split(" ")[1:-1]


def _failed(sentence: str, code: int) -> int:
    print(f"muster: {safe(sentence)}", file=sys.stderr)
    return code


def _wrong_use(error: Any, arguments: list[str]) -> int:
    """Prints typer's error about the arguments, and returns the exit code. Without arguments, typer
    has already shown the help."""
    sentence = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "muster"
    if sentence.startswith("No such command"):
        hint = _another_word(command.split()[1:], _from_the_command_on(arguments))
        if hint:
            return _failed(hint, USAGE)
    is_group = hasattr(getattr(context, "command", None), "commands")
    if sentence.startswith("No such option") and is_group and command.count(" ") == 1:
        name = getattr(error, "option_name", "")
        if name in ("--bootstrap", "-b", "--http", "--command-config"):
            place = f"write the option before `{command.split()[1]}` or after the subcommand"
            return _failed(f"{command} does not accept {name}: {place}", USAGE)
    if sentence:
        then = " See" if sentence.endswith("?") else "; see"
        return _failed(f"{sentence}{then} {command} --help", int(error.exit_code))
    return int(error.exit_code)


def command_of(names: Collection[str] = _COMMANDS) -> Any:
    """Returns the typer command `muster` with only the subcommands in ``names``."""
    import typer

    from cli.client.security import taking_it
    from cli.options import taken_before, without_empty_names

    command = typer.main.get_command(_app(names))
    return tidy(taking_it(taken_before(without_empty_names(command))))


def _another_word(path: list[str], arguments: list[str]) -> str | None:
    """Returns an error that names the right command for an unknown command; None if no such command
    is known."""
    from cli.words import instead

    noun, (word, *rest) = " ".join(path), arguments[len(path) :]
    hint = instead(noun, word, rest, _every_command())
    return f"`muster {' '.join([*path, word])}` does not exist: {hint}" if hint else None


def _from_the_command_on(arguments: list[str]) -> list[str]:
    """Returns the arguments without the options that precede the command's name."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        has_value = "=" not in arguments[at] and arguments[at] != "--version"
        at += 2 if has_value else 1
    return arguments[at:]


def _every_command() -> list[str]:
    """Returns all commands, such as ``groups reset`` or ``top``."""
    import typer

    tree = commands(typer.main.get_command(_app(list(_COMMANDS))))
    return [" ".join(path) for path, each in tree if runs(each)]


def _version(asked: bool) -> None:
    """Print the version if ``--version`` is given, and exit."""
    import typer

    from cli.version import VERSION

    if asked:
        print(f"muster {VERSION}")
        raise typer.Exit


def _app(names: Collection[str]) -> typer.Typer:
    import typer

    app = typer.Typer(
        help="A Kafka broker that explains its consumer groups, and a client for any Kafka broker.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def _options(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_version, help="Show the version."
        ),
        command_config: str = typer.Option(
            "",
            "--command-config",
            metavar="FILE",
            envvar="MUSTER_COMMAND_CONFIG",
            help="Kafka client properties for TLS and SASL: security.protocol, ssl.*, sasl.*.",
        ),
        bootstrap: str = typer.Option(
            "", "--bootstrap", "-b", metavar="HOST:PORT[,...]", help="Brokers to connect to first."
        ),
        http: str = typer.Option(
            "", "--http", metavar="HOST:PORT", help="Address of Muster's HTTP API."
        ),
    ) -> None:
        """Do nothing, because callbacks handle the options."""

    option = typer.Option

    @app.command("serve")
    def _serve(  # only for help and shell completion: cli/serve.py parses the options
        listen: str = option("", "--listen", metavar="HOST:PORT", help="Address for clients."),
        data: str = option("", "--data", metavar="DIR", help="The data directory."),
        config: str = option("", "--config", metavar="FILE", help="A server.properties."),
        kafka_env: bool = option(
            False, "--kafka-env", help="Also read KAFKA_* environment variables."
        ),
        settings: list[str] = option([], "--set", metavar="KEY=VALUE", help="One setting."),  # noqa: B008
        http: str = option(
            "", "--http", metavar="HOST:PORT", help="Address of the page, /metrics and /api."
        ),
    ) -> None:
        """Run a broker; see `muster serve --help`."""

    for name in names:
        module = import_module(_COMMANDS[name])
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


if __name__ == "__main__":
    main()
