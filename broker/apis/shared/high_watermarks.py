"""The high watermarks of partitions, wherever their leaders are."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from protocol.errors import NONE

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Place = tuple[str, int]
"""The topic and the index of a partition."""


def high_watermarks(
    services: Services, places: Iterable[Place]
) -> Generator[Any, None, dict[Place, int]]:
    """Returns the high watermarks; the result omits a partition whose leader does not respond.

    Other leaders get ListOffsets requests.
    """
    found: dict[Place, int] = {}
    elsewhere: list[Place] = []
    for place in places:
        partition = services.logs.get(*place)
        if partition is not None and partition.serving_error(-1) == NONE:
            found[place] = partition.high_watermark
        else:
            elsewhere.append(place)
        yield None
    remote = services.remote_end_offsets
    if remote is not None and elsewhere:
        yield asyncio.ensure_future(remote.read(elsewhere))
        for place in elsewhere:
            ends = remote.ends(*place)
            if ends is not None:
                found[place] = ends.end
    return found
