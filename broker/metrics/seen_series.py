"""Removes from a scrape the series that its reader may not see.

For a series with a label for a group or topic, the reader needs DESCRIBE permission on that group
or topic. For any other series, the reader needs DESCRIBE permission on the cluster.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

_LABEL = re.compile(rb'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(.)")
_GROUPS: Final = frozenset((b"consumergroup", b"group", b"group_id"))
_TOPICS: Final = frozenset((b"topic", b"topic_name"))


class Sight(NamedTuple):
    """The permissions of the reader of a scrape. ``cluster`` is True if the reader may see the
    cluster. ``group`` and ``topic`` return True if the reader may see the group or topic with the
    given name."""

    cluster: bool
    group: Callable[[str], bool]
    topic: Callable[[str], bool]


async def seen(scrape: AsyncIterator[bytes], sight: Sight) -> AsyncIterator[bytes]:
    """Yields the lines of the scrape that the reader may see. Each chunk of ``scrape`` must consist
    of whole lines."""
    verdicts: dict[tuple[bytes, bytes], bool] = {}

    def shows(line: bytes) -> bool:
        if line.startswith(b"#"):
            return True
        named = False
        for name, value in _LABEL.findall(line):
            judge = _judge(name, sight)
            if judge is None:
                continue
            named = True
            verdict = verdicts.get((name, value))
            if verdict is None:
                text = _ESCAPE.sub(_unescaped, value).decode("utf-8", "replace")
                verdict = verdicts[name, value] = judge(text)
            if not verdict:
                return False
        return named or sight.cluster

    async for chunk in scrape:
        kept = b"".join(line for line in chunk.splitlines(keepends=True) if shows(line))
        if kept:
            yield kept


def _judge(label: bytes, sight: Sight) -> Callable[[str], bool] | None:
    if label in _GROUPS:
        return sight.group
    return sight.topic if label in _TOPICS else None


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"\n" if found[1] == b"n" else found[1]
