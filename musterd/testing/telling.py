"""What a broker has to say beside a test that failed."""

from __future__ import annotations

import sys

from musterd.testing.errors import MusterError
from musterd.testing.muster import Muster


def sections(name: str, value: object, since: int) -> list[tuple[str, str]]:
    """Titles and texts, if the value is a broker: its lines after so many, and its groups."""
    broker = _plain(value)
    if broker is None:
        return []
    lines = "\n".join(broker._lines.since(since)) or "it wrote nothing"
    return [(f"{name}: lines of the broker", lines), (f"{name}: its groups", _groups(broker))]


def _plain(value: object) -> Muster | None:
    """The broker that a value is; of an awaited one, that under it."""
    awaited = sys.modules.get("musterd.testing.async_muster")  # who has one has imported it
    if awaited is not None and isinstance(value, awaited.AsyncMuster):
        value = value._broker
    return value if isinstance(value, Muster) else None


def _groups(broker: Muster) -> str:
    told = []
    try:
        for group in broker.groups():
            told.append(f"{group.group}  {group.state}  members {group.members}")
            told += [f"    {event}" for event in broker.journal(group.group)]
    except MusterError as error:
        told.append(str(error).partition("\n")[0])
    return "\n".join(told) or "there is none"
