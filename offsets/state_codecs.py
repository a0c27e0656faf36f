"""The codec of the records of each type of groups whose state results from their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from offsets import consumer_codec, share_codec, streams_codec
from offsets.consumer_records import ConsumerGroupRun
from offsets.runs import GroupStateRun
from offsets.share_records import ShareGroupRun
from offsets.streams_records import StreamsGroupRun

CODECS: Final[dict[type[GroupStateRun], Any]] = {
    ConsumerGroupRun: consumer_codec,
    ShareGroupRun: share_codec,
    StreamsGroupRun: streams_codec,
}
"""The codec by the class of runs. A codec has ``encode_key``, ``encode_value`` and ``decode``."""


def encoded(run: GroupStateRun) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields the key and the value of each record of a run."""
    codec = CODECS[type(run)]
    for record in run.records:
        yield codec.encode_key(run.group_id, record), codec.encode_value(record)


def decoded(key: bytes, value: bytes | None) -> tuple[type[GroupStateRun], str, Any] | None:
    """Returns the class of runs, the group id and the record in a stored key and value; None if the
    key has another type. Raises Malformed."""
    for made, codec in CODECS.items():
        found = codec.decode(key, value)
        if found is not None:
            return made, *found
    return None
