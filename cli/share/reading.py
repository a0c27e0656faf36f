"""Reads a share group from Muster's HTTP API, and parses the partition or record that a user
names."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote

from cli.errors import USAGE, CommandError
from cli.http import Api

Value = dict[str, Any]

_PLACE = re.compile(r"([^:@]+)(?::(\d{1,10})(?:@(\d{1,19}))?)?")


class Place(NamedTuple):
    """The part of a share group that a command shows. None in a field means everything."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def place_of(text: str | None) -> Place:
    """Returns the place for the text ``TOPIC``, ``TOPIC:PARTITION`` or
    ``TOPIC:PARTITION@OFFSET``."""
    if text is None:
        return Place()
    found = _PLACE.fullmatch(text)
    if found is None:
        raise CommandError(f"{text}: write it as TOPIC:PARTITION or TOPIC:PARTITION@OFFSET", USAGE)
    topic, partition, offset = found.groups()
    return Place(
        topic,
        None if partition is None else int(partition),
        None if offset is None else int(offset),
    )


def read_group(api: Api, group: str, place: Place) -> Value:
    """Returns the share partitions of a group. Raises CommandError if the group does not read
    ``place``."""
    asked = {name: value for name, value in place._asdict().items() if value is not None}
    found: Value = api.get(f"/api/share/{quote(group, safe='')}", **asked)
    if place.topic is not None and not found["partitions"]:
        where = place.topic if place.partition is None else f"{place.topic}:{place.partition}"
        raise CommandError(f"share group {group} does not read {where}")
    return found


def who(entry: Value) -> str:
    member, client = entry["member"], entry["client"]
    if client is None:
        return f"former member {member}"
    name = member if member.startswith(client) else f"{client} ({member})"
    return f"{name} from {entry['host']}"


def span_of(entry: Value) -> str:
    """Returns offsets as text, such as ``offset 5`` or ``offsets 5 to 7``."""
    first, last = entry["first_offset"], entry["last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def deliveries(number: int) -> str:
    return "1 delivery" if number == 1 else f"{number} deliveries"
