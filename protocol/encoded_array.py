"""Arrays of an answer that are encoded element by element instead of being gathered first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from protocol.schema import Array, Field, Struct, Type


class EncodedArray:
    """The elements of an array, encoded already; stands for the list in a value."""

    __slots__ = ("_write", "count", "data")

    def __init__(self, write: Callable[[bytearray, Any], None]) -> None:
        self._write = write
        self.count = 0
        self.data = bytearray()

    def append(self, value: Any) -> None:
        """Encode one more; ProtocolError for what cannot be said."""
        self._write(self.data, value)
        self.count += 1


def element_at(fields: Sequence[Field], path: Sequence[str]) -> Type:
    """What the array that ``path`` leads to, through structs and arrays of them, is made of."""
    element: Type = Struct(*fields)
    for name in path:
        assert isinstance(element, Struct)
        found = next(field.type for field in element.fields if field.name == name)
        element = found.element if isinstance(found, Array) else found
    return element
