"""Converts requests and responses to JSON, with the field names of the protocol tables.

Bytes become `{"text": ...}` if they are UTF-8 without control characters, else `{"base64": ...}`. A
UUID is written in Kafka's form. Records are listed by batch, at most `RECORDS_SHOWN` for each
partition. Fields that do not exist in a version are omitted.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

from protocol import errors
from protocol.errors import NAMES, ProtocolError
from protocol.headers import decode_response_header
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records
from protocol.schema import RECORDS, UUID, Api, Array, Field, Struct, Type, version_range

RECORDS_SHOWN = 100
"""The maximum number of records that are shown for one partition of a request or response."""
SHOWN_BYTES = 4096
"""The maximum number of bytes that are shown of one key, value or other bytes field."""
_DECOMPRESSED_MAX = 16 * 1024 * 1024

View = dict[str, Any]


def request_view(api: Api, version: int, body: bytes) -> View:
    """Returns the body of a request as JSON; ``{"unreadable": reason}`` if it can't be decoded."""
    try:
        value = api.decode_request(version, body)
    except ProtocolError as error:
        return {"unreadable": str(error)}
    return _struct(api.request, version, value)


def answer_view(api: Api, version: int, frame: bytes) -> View:
    """Returns the body of a response as JSON; ``frame`` begins with the response header."""
    if api.key == API_VERSIONS.key and frame[4:6] == errors.UNSUPPORTED_VERSION.to_bytes(2):
        version = 0  # no client can read another version of this response
    try:
        _, position = decode_response_header(api.key, version, frame)
        value = api.decode_response(version, frame, position)
    except ProtocolError as error:
        return {"unreadable": str(error)}
    return _struct(api.response, version, value)


def error_names(view: Any) -> list[str]:
    """Returns the names of all errors in a response, without duplicates. Errors of outer levels
    come first."""
    found: dict[str, None] = {}
    todo = [view]
    for part in todo:
        if isinstance(part, dict):
            for name, value in part.items():
                if name in ("error_code", "partition_error_code") and value:
                    found[NAMES.get(value, str(value))] = None
                elif isinstance(value, dict | list):
                    todo.append(value)
        elif isinstance(part, list):
            todo.extend(each for each in part if isinstance(each, dict | list))
    return list(found)


def whole(data: bytes | None) -> View | None:
    """Returns all bytes: as text if possible, else as base64."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
    if any(each < " " and each not in "\t\n\r" for each in text):
        return {"base64": b64encode(data).decode()}
    return {"text": text}


def bytes_view(data: bytes | None) -> View | None:
    """Returns at most the first `SHOWN_BYTES` bytes, as `whole` represents them. If ``data`` has
    more bytes, adds their total number as ``size``."""
    if data is None or len(data) <= SHOWN_BYTES:
        return whole(data)
    return {**(whole(data[:SHOWN_BYTES]) or {}), "size": len(data)}


def uuid_text(data: bytes) -> str:
    """Returns a UUID in the form in which Kafka's tools write it."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def record_view(record: Record, view: Callable[[bytes | None], View | None] = whole) -> View:
    """Returns one record as JSON. The function ``view`` converts the bytes of its key, value and
    headers."""
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "key": view(record.key),
        "value": view(record.value),
        "headers": [
            [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), view(value)]
            for name, value in record.headers
        ],
    }


def _struct(fields: Sequence[Field], version: int, value: View) -> View:
    return {
        field.name: _value(field.type, version, value[field.name])
        for field in fields
        if version in version_range(field.versions) and field.name in value
    }


def _value(type_: Type, version: int, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, Struct):
        return _struct(type_.fields, version, value)
    if isinstance(type_, Array):
        return [_value(type_.element, version, each) for each in value]
    if type_ is UUID:
        return uuid_text(value)
    if type_ is RECORDS:
        return _records(bytes(value))
    return bytes_view(bytes(value)) if isinstance(value, bytes | bytearray | memoryview) else value


def _records(data: bytes) -> View:
    """Returns the batches of one partition as JSON, with at most `RECORDS_SHOWN` records."""
    records: list[Record] = []
    note: str | None = None
    try:
        for header, _ in iter_stored(data, partial=True):
            if header.is_control and header.magic == 2:
                continue
            records += stored_records(data, header, _DECOMPRESSED_MAX)
            if len(records) > RECORDS_SHOWN:
                note = f"only the first {RECORDS_SHOWN} records are shown"
                break
    except CorruptRecords as error:
        note = f"further records were not recorded or can't be read: {error}"
    view: View = {
        "size": len(data),
        "records": [record_view(each, bytes_view) for each in records[:RECORDS_SHOWN]],
    }
    return view if note is None else {**view, "note": note}
