"""Encodes and decodes the records of consumer, share and streams groups."""

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
"""For each class of runs, the codec of its records. A codec has the functions ``encode_key``,
``encode_value`` and ``decode``."""


def encoded(run: GroupStateRun) -> Iterator[tuple[bytes, bytes | None]]:
    codec = CODECS[type(run)]
    for record in run.records:
        yield codec.encode_key(run.group_id, record), codec.encode_value(record)


def decoded(key: bytes, value: bytes | None) -> tuple[type[GroupStateRun], str, Any] | None:
    """Decodes a stored key and value. Returns the class of runs, the group id and the record; None
    if the key has another type. Raises Malformed."""
    for made, codec in CODECS.items():
        found = codec.decode(key, value)
        if found is not None:
            return made, *found
    return None
