"""Arrays of a response that are encoded element by element, so that no list of all elements is
needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from protocol.schema import Array, Field, Struct, Type


class EncodedArray:
    """The encoded elements of an array. A field of a message value may have this object in place of
    a list of elements."""

    __slots__ = ("_write", "count", "data")

    def __init__(self, write: Callable[[bytearray, Any], None]) -> None:
        self._write = write
        self.count = 0
        self.data = bytearray()

    def append(self, value: Any) -> None:
        """Encodes one more element. Raises ProtocolError for a value that can't be encoded."""
        self._write(self.data, value)
        self.count += 1


def element_at(fields: Sequence[Field], path: Sequence[str]) -> Type:
    """Returns the element type of the array at ``path``, which leads through structs and arrays of
    structs."""
    element: Type = Struct(*fields)
    for name in path:
        assert isinstance(element, Struct)
        found = next(field.type for field in element.fields if field.name == name)
        element = found.element if isinstance(found, Array) else found
    return element
