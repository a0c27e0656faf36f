"""Converts the pipeline's options to typer options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from pipeline.run.options import Given, Option


def takes(options: Sequence[Option]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds ``options`` to a command. The command gets the values of these
    options as its first argument, a `Given`. Its other parameters are typer options, which the help
    lists after ``options``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *rest = inspect.signature(command, eval_str=True).parameters.values()
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in rest]
        keys = [option.key for option in options]

        def with_options(**values: Any) -> None:
            given: Given = {key: values.pop(key) for key in keys}
            command(given, **values)

        parameters = [_parameter(option) for option in options]
        with_options.__doc__ = command.__doc__
        with_options.__name__ = command.__name__
        with_options.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in [*parameters, *own]}
        return with_options

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    names = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
    kind: Any = bool
    default: Any = False
    if option.metavar is not None:
        kind = list[str] | None if option.repeatable else str | None
        default = option.default
    about = typer.Option(*names, metavar=option.metavar, envvar=option.variable, help=option.help)
    return inspect.Parameter(
        option.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, about],
    )
