"""Parses the text of a setting's value, checks it against the table, and renders a value as
text."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from broker.config.config_table import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    OFFSETS_RECORDS,
    PASSWORD,
    SHARE_STATE_RECORDS,
    SHORT,
    THROTTLED,
    TRANSACTION_RECORDS,
    Setting,
    Value,
)

_BOUNDS = re.compile(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?")
_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_RECORDS = {
    valid: re.compile(valid.split("-")[0] + r"-[0-9]{1,9}:[0-9]{1,18}")
    for valid in (OFFSETS_RECORDS, TRANSACTION_RECORDS, SHARE_STATE_RECORDS)
}
"""For settings that list records of an internal topic: the syntax of one record in the list (topic,
partition and offset). The key is the text that describes the valid values of the setting."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,100}\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
"""The syntax that Java's `Double.parseDouble` accepts for numbers; unlike Python's, without
``1_000`` and ``NaN``."""
_BITS = {INT: 31, SHORT: 15, LONG: 63}

WIRE_TYPES = {
    "BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8,
    "PASSWORD": 9,
}  # fmt: skip
"""The code of each type of settings, in the field ``config_type`` of DescribeConfigs."""


class BadValue(ValueError):
    """A setting's value is invalid. The exception's text names the setting and its valid values."""


class Fault(NamedTuple):
    """An error in the value of one setting, or between the values of several settings."""

    names: tuple[str, ...]
    """The settings that cause the fault."""
    sentence: str


def parse_value(setting: Setting, text: str) -> Value:
    """Returns ``text`` as a value of the setting's type. Raises BadValue if the type is wrong or
    the value is out of bounds."""
    text = text.strip()
    if setting.type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise BadValue(f"{setting.name}={text}: it must be true or false")
        return text.lower() == "true"
    if setting.type in (INT, SHORT, LONG, DOUBLE):
        return _number(setting, text)
    if setting.type == LIST:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        for part in parts:
            _check_choice(setting, part)
        if setting.valid == THROTTLED and parts != ["*"]:
            _check_replicas(setting, text, parts)
        record = _RECORDS.get(setting.valid)
        if record is not None and not all(map(record.fullmatch, parts)):
            example = setting.valid.split("-")[0] + "-0:42"
            raise BadValue(f"{setting.name}={text}: it must be {setting.valid}, such as {example}")
        return ",".join(parts)
    _check_choice(setting, text)
    return text


def bounds(setting: Setting) -> tuple[int | None, int | None, int | None]:
    """Returns the minimum of a setting, its maximum, and one more valid value that may be outside
    of this range; each is None if the setting has none."""
    found = _BOUNDS.fullmatch(setting.valid)
    if found is None:
        return None, None, None
    low, high, other = (None if part is None else int(part) for part in found.groups())
    return low, high, other


def choices(setting: Setting) -> tuple[str, ...]:
    """Returns the words that a setting accepts; empty if it accepts other texts."""
    if setting.valid.startswith("[") and "..." not in setting.valid:
        return tuple(setting.valid[1:-1].split(", "))
    return ()


def render(setting: Setting, value: Value) -> str | None:
    """Returns the text of a value, as Kafka's tools show it; None for null and for passwords."""
    if value is None or setting.type == PASSWORD:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _number(setting: Setting, text: str) -> int | float:
    low, high, other = bounds(setting)
    bits = _BITS.get(setting.type)
    least, most = (-math.inf, math.inf) if bits is None else (-(1 << bits), (1 << bits) - 1)
    least = least if low is None else low
    most = most if high is None else high
    number: int | float
    if setting.type == DOUBLE and _DECIMAL.fullmatch(text):
        number = float(text)
    elif setting.type != DOUBLE and _WHOLE.fullmatch(text):
        number = int(text)
    else:
        kind = "number" if setting.type == DOUBLE else "whole number"
        raise BadValue(f"{setting.name}={text}: it must be a {kind}")
    if least <= number <= most or number == other:
        return number
    besides = "" if other is None else f", or {other}"
    bound = f"at least {least}" if number < least else f"at most {most}"
    raise BadValue(f"{setting.name}={text}: it must be {bound}{besides}")


def _check_replicas(setting: Setting, text: str, parts: list[str]) -> None:
    if not all(_REPLICA.fullmatch(part) for part in parts):
        raise BadValue(
            f"{setting.name}={text}: it must be * or PARTITION:BROKER,..., such as 0:101,1:102"
        )


def _check_choice(setting: Setting, text: str) -> None:
    allowed = choices(setting)
    if allowed and text not in allowed:
        raise BadValue(f"{setting.name}={text}: it must be one of {', '.join(allowed)}")
