"""The sections that a broker adds to the report of a failed test."""

from __future__ import annotations

import sys

from musterd.testing.errors import MusterError
from musterd.testing.served import Served


def sections(name: str, value: object, since: int) -> list[tuple[str, str]]:
    """Return the sections of a broker for the report, as (title, text): its log lines after the
    first `since` lines, and its groups."""
    broker = _plain(value)
    if broker is None:
        return []
    lines = "\n".join(broker._lines.since(since)) or "no lines"
    return [(f"{name}: the broker's log", lines), (f"{name}: the broker's groups", _groups(broker))]


def _plain(value: object) -> Served | None:
    """Return the object without the asyncio interface: a `Muster` or a `MusterCluster` itself, and
    for an `AsyncMuster` the `Muster` that it uses. Return None for any other object."""
    awaited = sys.modules.get("musterd.testing.async_muster")  # imported by the test that uses it
    if awaited is not None and isinstance(value, awaited.AsyncMuster):
        value = value._broker
    return value if isinstance(value, Served) else None


def _groups(broker: Served) -> str:
    sentences = []
    try:
        for group in broker.groups():
            sentences.append(f"{group.group}  {group.state}  members {group.members}")
            sentences += [f"    {event}" for event in broker.journal(group.group)]
    except MusterError as error:
        sentences.append(str(error).partition("\n")[0])
    return "\n".join(sentences) or "no groups"
