"""Formats arguments and text in the help of commands, without Python's types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and all its subcommands, each with its path of words."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


def runs(command: Any) -> bool:
    """Return True if a command can run without a subcommand."""
    alone = getattr(command, "invoke_without_command", False) and not command.no_args_is_help
    return alone or not hasattr(command, "commands")


def tidy(command: Any) -> Any:
    """Hide ``<bool>`` of flags and ``<list[str]>`` of arguments in the help; return the command.

    The usage line names arguments like manuals: ``GROUP``, ``TOPIC...``, ``[GROUP]...``.
    """
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
    """Return the text with each paragraph on one line, because help would keep the line ends."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _tidy_argument(param: Any) -> None:
    name = param.metavar if param.required else f"[{param.metavar}]"
    usage = [name if param.nargs == 1 else f"{name}..."]
    param.get_usage_pieces = lambda _: usage
    param.display_type_rich = lambda ctx: None  # noqa: ARG005 - typer names it
