"""Adapts a message to any version: omits the fields that the version does not have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from protocol.schema import Array, Field, Struct, version_range

Value = dict[str, Any]


def fitting(fields: Sequence[Field], version: int, value: Value) -> Value:
    """Returns ``value`` with only the fields that the version has. The codec rejects other
    fields."""
    found: Value = {}
    for name, parts in _names(tuple(fields), version):
        if name in value:
            found[name] = there = value[name]
            if parts is not None and there is not None:
                found[name] = [fitting(parts, version, each) for each in there]
    return found


@cache
def _names(fields: tuple[Field, ...], version: int) -> list[tuple[str, tuple[Field, ...] | None]]:
    """Returns the names of the fields that the version has. For an array of structs, also returns
    the fields of the struct."""
    return [
        (
            field.name,
            field.type.element.fields
            if isinstance(field.type, Array) and isinstance(field.type.element, Struct)
            else None,
        )
        for field in fields
        if version in version_range(field.versions)
    ]
