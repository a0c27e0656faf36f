"""A record as JSON: the output of `consume --json` and the input of `produce --from-json`. Bytes
that are not UTF-8 are written as base64 in a field with another name, such as ``value_base64``
instead of ``value``. Every record, including a tombstone, can be restored exactly."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from cli.client.offsets_at import Partition
from cli.errors import USAGE, CommandError
from protocol.records.section import Record

BASE64 = "_base64"

Json = dict[str, Any]


def to_json(where: Partition, record: Record) -> Json:
    return {
        "topic": where[0],
        "partition": where[1],
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **_written("key", record.key),
        **_written("value", record.value),
        "headers": [
            {**_written("name", name_bytes(name)), **_written("value", value)}
            for name, value in record.headers
        ],
    }


def name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _written(field: str, data: bytes | None) -> Json:
    if data is None:
        return {field: None}
    try:
        return {field: data.decode()}
    except UnicodeDecodeError:
        return {field + BASE64: base64.b64encode(data).decode()}


def from_json(value: object, what: str) -> Record:
    """Returns the record that a JSON value describes. Errors name the record as ``what``.

    The record's value is required; its key is optional. A missing timestamp becomes -1. Topic,
    partition and offset of the original record are ignored.
    """
    if not isinstance(value, dict):
        raise CommandError(f"{what} is not a JSON object", USAGE)
    if not {"value", "value" + BASE64} & value.keys():
        raise CommandError(f"{what}: value is missing; write null for a tombstone", USAGE)
    timestamp = value.get("timestamp_ms", -1)
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or abs(timestamp) >> 63:
        raise CommandError(f"{what}: timestamp_ms must be a whole number", USAGE)
    headers = value.get("headers", [])
    if not isinstance(headers, list):
        raise CommandError(f"{what}: headers must be a list", USAGE)
    return Record(
        0,
        timestamp,
        _read(value, "key", what),
        _read(value, "value", what),
        tuple(_header(each, what) for each in headers),
    )


def _header(value: object, what: str) -> tuple[str, bytes | None]:
    if not isinstance(value, dict):
        raise CommandError(f'{what}: a header must be {{"name": ..., "value": ...}}', USAGE)
    name = _read(value, "name", f"a header of {what}")
    if name is None:
        raise CommandError(f"{what}: a header's name is missing", USAGE)
    return name.decode("utf-8", "surrogateescape"), _read(value, "value", f"a header of {what}")


def _read(value: Json, field: str, what: str) -> bytes | None:
    coded = value.get(field + BASE64)
    text = value.get(field)
    if coded is not None:
        if text is not None:
            raise CommandError(f"{what} has both {field} and {field}{BASE64}", USAGE)
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise CommandError(f"{what}: {field}{BASE64} is not base64", USAGE) from None
    if text is None:
        return None
    if not isinstance(text, str):
        raise CommandError(
            f"{what}: {field} must be a string; write nested JSON as a string", USAGE
        )
    return text.encode("utf-8", "surrogatepass")
