"""Random field values for each message and version. A seed determines the values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from protocol.messages import BY_NAME
from protocol.schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
    Type,
    default_of,
    version_range,
)

TEXTS = ("", "a", "orders", "группа", "x" * 140, "𝄞 clef")
BITS = {"b": 8, "h": 16, "H": 16, "i": 32, "q": 64}

ALL = [
    (name, version, is_request)
    for name, api in BY_NAME.items()
    for version in api.versions
    for is_request in (True, False)
]


def fields_of(api: Api, is_request: bool) -> Sequence[Field]:
    return api.request if is_request else api.response


def struct_value(fields: Sequence[Field], version: int, chance: random.Random) -> dict[str, Any]:
    """Returns random values of all fields in decoded form. A field that does not exist in
    ``version`` has its default."""
    value = {}
    for field in fields:
        if version in version_range(field.versions):
            nullable = version in version_range(field.nullable)
            value[field.name] = some(field.type, version, nullable, chance)
        else:
            value.setdefault(field.name, default_of(field))
    return value


def some(type_: Type, version: int, nullable: bool, chance: random.Random) -> Any:
    if nullable and chance.random() < 0.3:
        return None
    if isinstance(type_, Struct):
        return struct_value(type_.fields, version, chance)
    if isinstance(type_, Array):
        count = chance.choice((0, 1, 2, 3))
        return [some(type_.element, version, False, chance) for _ in range(count)]
    if type_ is STRING:
        return chance.choice(TEXTS)
    if type_ in (BYTES, RECORDS):
        return chance.randbytes(chance.choice((0, 1, 200)))
    if type_ is UUID:
        return chance.randbytes(16)
    if type_ is BOOLEAN:
        return chance.random() < 0.5
    if type_ is FLOAT64:
        return float(chance.randrange(1000))
    bits = chance.randrange(1, BITS[type_.format] + 1)
    number = chance.getrandbits(bits)
    return number if type_.format == "H" else number - (1 << (bits - 1))


def mutations(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """Yields ``count`` mutations of ``data``: changed bytes, truncations, additional bytes, and
    huge lengths or counts."""
    huge = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00")
    for _ in range(count):
        wrong = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(wrong) + 1)
            kind = chance.randrange(5)
            if kind == 0 and at < len(wrong):
                wrong[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif kind == 1:
                del wrong[at:]
            elif kind == 2:
                wrong[at:at] = chance.randbytes(chance.choice((1, 4)))
            elif kind == 3:
                wrong[at : at + 4] = chance.choice(huge)
            else:
                wrong[at : at + 5] = b"\xff\xff\xff\xff\x0f"
        yield bytes(wrong)
