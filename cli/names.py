"""The spelling of names in output: partitions, hosts, members, and unprintable characters."""

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
"""The slash before an address, at the beginning of a word."""
Owned = list[dict[str, Any]]
"""Partitions in JSON: ``[{"topic": "orders", "partitions": [0, 1]}]``."""


def safe(text: str) -> str:
    """The text with escapes, such as ``\\x1b``, for characters that a terminal would obey or hide.

    A group id may contain anything: line ends, escape sequences, marks that change the reading
    order.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


# ---------------------------------------------------------------------------------- partitions


def partitions_text(topic: str, numbers: Iterable[int]) -> str:
    """Partitions of a topic as options accept them: ``orders:0-1,5``; see `parse_partitions`."""
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
    """A JSON value with all hosts, in fields and sentences, without the slash that Java writes."""
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
    """The rows for a table: ``member`` is replaced by a short name, ``#1``, ``#2``.

    The numbers follow the order of ``members``, whose client and host are added.
    """
    known = {
        each["member"]: {"member": f"#{number}", "client": each["client"], "host": each["host"]}
        for number, each in enumerate(members, 1)
    }
    return [{**row, **known.get(row["member"], {})} for row in rows]
