"""Builds requests in which the count of one array claims 2**31 - 1 elements."""

from __future__ import annotations

from typing import Any

from protocol.schema import Array, Field, Primitive, Struct, version_range


def array_paths(
    fields: tuple[Field, ...], version: int, path: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    """Returns the path of each array in a message version. Omits arrays that are tagged fields."""
    found = []
    for field in fields:
        if version not in version_range(field.versions) or field.tag is not None:
            continue
        here = (*path, field.name)
        inner: Any = field.type
        if isinstance(inner, Array):
            found.append(here)
            inner = inner.element
        if isinstance(inner, Struct):
            found += array_paths(inner.fields, version, here)
    return found


def claimed(codec: Any, fields: Any, version: int, path: tuple[str, ...], flexible: bool) -> bytes:
    """Returns an encoded request in which the array at ``path`` has the count 2**31 - 1 but no
    elements.

    The function finds the position of the count by comparing two encodings, one with an empty array
    and one with an array of one element. It then replaces the count.
    """
    small = codec.encode(with_array(fields, version, path, 0))
    large = codec.encode(with_array(fields, version, path, 1))
    # The first byte in which the two encodings differ is the last byte of the count.
    at = next(i for i, (a, b) in enumerate(zip(small, large, strict=False)) if a != b)
    if flexible:
        return small[:at] + b"\x80\x80\x80\x80\x08" + small[at + 1 :]
    return small[: at - 3] + b"\x7f\xff\xff\xff" + small[at + 1 :]


def with_array(fields: Any, version: int, path: tuple[str, ...], count: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        if version not in version_range(field.versions) or field.tag is not None:
            continue
        on_path = bool(path) and field.name == path[0]
        inner = field.type
        if isinstance(inner, Array):
            element = inner.element
            if on_path and len(path) == 1:
                value[field.name] = [minimal(element, version)] * count
            elif on_path:
                assert isinstance(element, Struct)
                value[field.name] = [with_array(element.fields, version, path[1:], count)]
            else:
                value[field.name] = []
        elif isinstance(inner, Struct):
            value[field.name] = with_array(
                inner.fields, version, path[1:] if on_path else (), count
            )
    return value


def minimal(element: Any, version: int) -> Any:
    if isinstance(element, Struct):
        return with_array(element.fields, version, (), 0)
    assert isinstance(element, Primitive)
    return element.default
