"""The arguments of the verbs of `/test`: their kinds, and the checks of their values. An argument
arrives as JSON in a body or as text in a query; each kind accepts both. The error for a wrong value
is a sentence with the verb, the argument and the accepted values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from broker.test_mode.refusals import WrongArgument

_SHOWN_MAX = 60


class NotTaken(ValueError):
    """Raised if the value of an argument can't be accepted. The error message begins with
    "ARGUMENT: it must be ", followed by the text of the exception. If ``full`` is True, it begins
    only with "ARGUMENT: "."""

    def __init__(self, text: str, *, full: bool = False) -> None:
        super().__init__(text)
        self.full = full


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of arguments: the values that are accepted, and their conversion."""

    name: str
    """The name of the kind in descriptions and errors, such as ``whole number``."""
    take: Callable[[object], Any]
    """A function that converts a JSON value to the value for the verb's function; raises NotTaken.
    """
    from_text: Callable[[str], object] = str
    """A function that converts text from a query to a JSON value; raises ValueError."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a verb."""

    name: str
    kind: Kind
    help: str
    required: bool = False
    default: Any = None
    keyword: str = ""
    """The name of the function's parameter, if it must differ from the argument's name because the
    argument's name is a Python keyword."""

    def described(self) -> dict[str, Any]:
        """Returns the description of the argument for the response to GET /test."""
        shown = {"name": self.name, "type": self.kind.name, "required": self.required}
        if self.default is not None:
            shown["default"] = self.default
        return {**shown, "help": self.help}


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise NotTaken("a non-empty string")
    return value


def _whole(least: int) -> Callable[[object], int]:
    def take(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 63:
            raise NotTaken("a whole number" + (f", {least} or more" if least > -(1 << 63) else ""))
        return value

    return take


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise NotTaken("a number, 0 or more")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise NotTaken("true or false")
    return value


def _texts(value: object) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise NotTaken('a list of strings, such as ["orders"]')
    return value


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise NotTaken('a list of objects, such as [{"name": "orders"}]')
    return value


def _settings(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise NotTaken('an object of settings, such as {"retention.ms": 1000}')
    return {name: _setting(each) for name, each in value.items()}


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise NotTaken("an object whose values are strings, numbers, true or false")


TEXT = Kind("text", _text)
WHOLE = Kind("whole number", _whole(-(1 << 63)), int)
COUNT = Kind("whole number, 0 or more", _whole(0), int)
POSITIVE = Kind("whole number, 1 or more", _whole(1), int)
NUMBER = Kind("number, 0 or more", _number, float)
FLAG = Kind("true or false", _flag, json.loads)
TEXTS = Kind("list of texts", _texts, json.loads)
SETTINGS = Kind("object of settings", _settings, json.loads)
OBJECTS = Kind("list of objects", _objects, json.loads)


def one_of(what: str, names: Iterable[str]) -> Kind:
    """Returns the kind of arguments whose value must be one of ``names``, in upper or lower case.
    The verb's function gets the value as it is spelled in ``names``."""
    by_folded = {each.casefold(): each for each in names}

    def take(value: object) -> str:
        found = by_folded.get(value.casefold()) if isinstance(value, str) else None
        if found is None:
            near = [by_folded[each] for each in get_close_matches(str(value).casefold(), by_folded)]
            shown = near or sorted(by_folded.values())
            listed = ", ".join(shown[:20])
            hint = f"did you mean {listed}?" if near else f"choose one of {listed}"
            raise NotTaken(f"unknown {what} {_shown(value)}; {hint}", full=True)
        return found

    return Kind(what, take)


def values_of(
    verb: str, arguments: Sequence[Argument], given: Mapping[str, object], *, as_text: bool
) -> dict[str, Any]:
    """Checks and converts the arguments ``given`` of a request for the verb ``verb``. Returns the
    values by parameter name of the verb's function. Raises WrongArgument."""
    known = {each.name: each for each in arguments}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "none"
            raise WrongArgument(f"{verb}: unknown argument {name!r}; its arguments: {takes}")
    values = {}
    for each in arguments:
        keyword = each.keyword or each.name
        value = given.get(each.name)
        if value is None:
            if each.required:
                raise WrongArgument(f"{verb}: {each.name} is missing: {each.help}")
            values[keyword] = each.default
            continue
        values[keyword] = _taken(verb, each, value, as_text=as_text)
    return values


def _taken(verb: str, argument: Argument, value: object, *, as_text: bool) -> Any:
    kind = argument.kind
    meant = value
    if as_text:
        try:
            meant = kind.from_text(str(value))
        except ValueError:
            meant = value
    try:
        return kind.take(meant)
    except NotTaken as error:
        if error.full:
            raise WrongArgument(f"{verb}: {argument.name}: {error}") from None
        shown = _shown(value)
        raise WrongArgument(f"{verb}: {argument.name} is {shown}; it must be {error}") from None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
