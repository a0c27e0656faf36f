"""What a broker has to say beside a test that failed."""

from __future__ import annotations

from musterd.testing.async_muster import AsyncMuster
from musterd.testing.errors import MusterError
from musterd.testing.muster import Muster


def sections(name: str, value: object, since: int) -> list[tuple[str, str]]:
    """Titles and texts, if the value is a broker: its lines after so many, and its groups."""
    broker = value._broker if isinstance(value, AsyncMuster) else value
    if not isinstance(broker, Muster):
        return []
    lines = "\n".join(broker.lines_since(since)) or "it wrote nothing"
    return [(f"{name}: lines of the broker", lines), (f"{name}: its groups", _groups(broker))]


def _groups(broker: Muster) -> str:
    told = []
    try:
        for group in broker.groups():
            told.append(f"{group.group}  {group.state}  members {group.members}")
            told += [f"    {event}" for event in broker.journal(group.group)]
    except MusterError as error:
        told.append(str(error).partition("\n")[0])
    return "\n".join(told) or "there is none"
