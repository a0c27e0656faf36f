"""Checks golden files: decodes and encodes every vector and compares values and bytes.

    check_golden.py FILE...

Each line of a file is one vector: an API's message (``api``), an internal record (``record``), or a
message set or record batch (``magic``). The tool prints a line per bad vector and ``N vectors, M
bad``. It exits with 1 if a vector is bad, with 2 if a file can't be read.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from golden_batches import check_batches

from protocol import log_records
from protocol.codec import Message
from protocol.errors import ProtocolError
from protocol.messages import BY_NAME
from protocol.schema import (
    BYTES,
    RECORDS,
    UUID,
    Array,
    Field,
    Struct,
    Type,
    default_of,
    version_range,
)


def camel(name: str) -> str:
    """Returns a field name as golden files spell it: group_instance_id becomes groupInstanceId."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def to_golden(fields: Sequence[Field], version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Converts a decoded value to the notation of golden files. Tagged fields with their default
    value are omitted."""
    said = {}
    for field in fields:
        if version not in version_range(field.versions):
            continue
        part = value[field.name]
        if field.tag is not None and part == default_of(field):
            continue
        said[camel(field.name)] = _to_golden(field.type, version, part)
    return said


def _to_golden(type_: Type, version: int, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, Struct):
        return to_golden(type_.fields, version, value)
    if isinstance(type_, Array):
        return [_to_golden(type_.element, version, element) for element in value]
    if type_ is UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if type_ is BYTES:
        return base64.b64encode(value).decode()
    # Golden values have "" for records that are not null; only the hex has the bytes.
    return "" if type_ is RECORDS else value


def from_golden(
    fields: Sequence[Field], value: dict[str, Any], decoded: dict[str, Any]
) -> dict[str, Any]:
    """Converts a golden value to the notation of the codec. A field of type records gets the bytes
    of the same field in ``decoded``."""
    names = {camel(field.name): field for field in fields}
    return {
        names[name].name: _from_golden(names[name].type, part, decoded[names[name].name])
        for name, part in value.items()
    }


def _from_golden(type_: Type, value: Any, decoded: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, Struct):
        return from_golden(type_.fields, value, decoded)
    if isinstance(type_, Array):
        pairs = zip(value, decoded, strict=True)
        return [_from_golden(type_.element, element, part) for element, part in pairs]
    if type_ is UUID:
        return base64.urlsafe_b64decode(value + "==")
    if type_ is BYTES:
        return base64.b64decode(value)
    return decoded if type_ is RECORDS else value


def check_message(vector: dict[str, Any]) -> str | None:
    """Checks a vector of a message or of an internal record. Returns the error, or None if the
    vector is correct."""
    version = vector["version"]
    message: Message
    if "api" in vector:
        api = BY_NAME[vector["api"]]
        is_request = vector["type"] == "request"
        fields = api.request if is_request else api.response
        message = api.message(version, is_request=is_request)
    else:
        record = log_records.BY_NAME[vector["record"]]
        fields = record.fields
        message = record.message(version)
    data = bytes.fromhex(vector["hex"])
    decoded = message.decode(data)
    if to_golden(fields, version, decoded) != vector["value"]:
        return f"decoded as {to_golden(fields, version, decoded)}"
    for value in (decoded, from_golden(fields, vector["value"], decoded)):
        encoded = message.encode(value)
        if encoded != data:
            return f"encoded as {encoded.hex()}"
    return None


def check(vector: dict[str, Any]) -> str | None:
    """Checks one vector. Returns the error, or None if the vector is correct."""
    try:
        if "api" in vector or "record" in vector:
            return check_message(vector)
        if "magic" in vector:
            return check_batches(vector)
        return "the vector has no field api, record or magic"
    except (ProtocolError, KeyError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    vectors = bad = 0
    for name in arguments:
        try:
            lines = Path(name).read_text().splitlines()
        except OSError as error:
            print(f"{name}: {error.strerror}", file=sys.stderr)
            return 2
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            vectors += 1
            try:
                wrong = check(json.loads(line))
            except json.JSONDecodeError as error:
                wrong = f"not JSON: {error}"
            if wrong is not None:
                bad += 1
                print(f"{name}:{number}: {wrong:.500}")
    print(f"{vectors} vectors, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
