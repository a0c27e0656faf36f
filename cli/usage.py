"""Formats arguments and text in the help of commands, without the names of Python types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields a command and all its subcommands, each with the words that lead to it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


def runs(command: Any) -> bool:
    alone = getattr(command, "invoke_without_command", False) and not command.no_args_is_help
    return alone or not hasattr(command, "commands")


def tidy(command: Any) -> Any:
    """Improves the help of a command, and returns the command. Hides ``<bool>`` after flags and
    ``<list[str]>`` after arguments. In the usage line, arguments are spelled as in manuals:
    ``GROUP``, ``TOPIC...``, ``[GROUP]...``."""
    import typer

    for _, each in commands(command):
        each.help = _flowing(each.help or "")
        context = typer.Context(each)
        for param in [*each.params, each.get_help_option(context)]:
            if param.param_type_name == "argument":
                _tidy_argument(param)
            elif param.is_flag:
                param.metavar = ""
            elif param.metavar is None:
                choices = param.display_type(context).strip("<>")
                param.metavar = choices if "|" in choices else "TEXT"
    return command


def _flowing(text: str) -> str:
    """Returns the text with each paragraph on one line, because the help would keep line ends."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _tidy_argument(param: Any) -> None:
    name = param.metavar if param.required else f"[{param.metavar}]"
    usage = [name if param.nargs == 1 else f"{name}..."]
    param.get_usage_pieces = lambda _: usage
    param.display_type_rich = lambda ctx: None  # noqa: ARG005 - typer names it
