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
"""Matches a slash before an IP address at the beginning of a word, as in Java's ``/127.0.0.1``."""
Owned = list[dict[str, Any]]
"""Partitions in the form for JSON: ``[{"topic": "orders", "partitions": [0, 1]}]``."""


def safe(text: str) -> str:
    r"""Returns the text with unprintable characters escaped, such as ``\x1b``. A group id may
    contain line ends, terminal escape sequences, and marks that change the writing direction."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


# ---------------------------------------------------------------------------------- partitions


def partitions_text(topic: str, numbers: Iterable[int]) -> str:
    """Returns partitions as text, in the form in which options accept them: ``orders:0-1,5``; see
    `parse_partitions`."""
    return f"{topic}:{ranges(numbers)}"


def owned(by_topic: Mapping[str, Iterable[int]]) -> Owned:
    """Returns partitions in the form for JSON. Topics without partitions are omitted."""
    return [
        {"topic": topic, "partitions": sorted(numbers)}
        for topic, numbers in sorted(by_topic.items())
        if numbers
    ]


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """Returns topic and partitions of the text ``TOPIC`` or ``TOPIC:0-1,5``. None means all
    partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise CommandError(f"{text!r}: write it as TOPIC or TOPIC:0-1,5", USAGE)
    if not colon:
        return topic, None
    try:
        return topic, partition_numbers(numbers)
    except MisspelledError as error:
        hint = str(error).replace("the partitions as 0-1,5", "it as TOPIC or TOPIC:0-1,5")
        raise CommandError(f"{text}: {hint}", USAGE) from None


# --------------------------------------------------------------------------- hosts and members


def with_plain_hosts(value: Any) -> Any:
    """Returns a JSON value without the slash that Java writes before IP addresses, in all its
    texts."""
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
    """Returns ``rows`` with ``#1``, ``#2`` and so on in place of the member ids, and with the
    client and the host of the member. The number of a member is its position in ``members``."""
    known = {
        each["member"]: {"member": f"#{number}", "client": each["client"], "host": each["host"]}
        for number, each in enumerate(members, 1)
    }
    return [{**row, **known.get(row["member"], {})} for row in rows]
