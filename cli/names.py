"""How names are spelled everywhere: partitions, hosts, members, and what can't be printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cli.errors import USAGE, CommandError
from client.spelling import MisspelledError, partition_numbers
from verdicts.spelling import ranges

_SLASH = re.compile(
    r"(?<![\w.:/-])/(?=\d{1,3}(?:\.\d{1,3}){3}(?![\w/])|[0-9a-fA-F]*:[0-9a-fA-F:.]+(?![\w/]))"
)
"""The slash before an address, where it begins a word."""
Owned = list[dict[str, Any]]
"""Partitions as JSON has them: ``[{"topic": "orders", "partitions": [0, 1]}]``."""


def safe(text: str) -> str:
    """The text with what a terminal would obey or hide as escapes, such as ``\\x1b``.

    A group id may hold anything: line ends, escape sequences, marks that turn the reading order.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


# ---------------------------------------------------------------------------------- partitions


def partitions_text(topic: str, numbers: Iterable[int]) -> str:
    """Partitions of a topic as options take them: ``orders:0-1,5``; `parse_partitions` reads it."""
    return f"{topic}:{ranges(numbers)}"


def owned(by_topic: Mapping[str, Iterable[int]]) -> Owned:
    """The JSON form of partitions, by topic."""
    return [
        {"topic": topic, "partitions": sorted(numbers)}
        for topic, numbers in sorted(by_topic.items())
        if numbers
    ]


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """``TOPIC`` or ``TOPIC:0-1,5`` as (topic, partitions or None for all)."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise CommandError(f"{text!r}: write it as TOPIC or TOPIC:0-1,5", USAGE)
    if not colon:
        return topic, None
    try:
        return topic, partition_numbers(numbers)
    except MisspelledError as error:
        hint = str(error).replace("0-1,5", "TOPIC or TOPIC:0-1,5")
        raise CommandError(f"{text}: {hint}", USAGE) from None


# --------------------------------------------------------------------------- hosts and members


def with_plain_hosts(value: Any) -> Any:
    """A JSON value in which no host, in a field or a sentence, has the slash that Java writes."""
    if isinstance(value, str):
        return _SLASH.sub("", value) if "/" in value else value
    if isinstance(value, dict):
        return {field: with_plain_hosts(each) for field, each in value.items()}
    if isinstance(value, list):
        return [with_plain_hosts(each) for each in value]
    return value


def numbered(
    rows: Sequence[dict[str, Any]], members: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rows for a table: what stands in ``member`` by its short name, ``#1``, ``#2``.

    The numbers follow the order of ``members``, whose client and host come beside.
    """
    known = {
        each["member"]: {"member": f"#{number}", "client": each["client"], "host": each["host"]}
        for number, each in enumerate(members, 1)
    }
    return [{**row, **known.get(row["member"], {})} for row in rows]
