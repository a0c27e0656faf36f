"""Columns of consecutive partitions, the usual case in a commit: creates such columns, and detects
them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_TUPLE = tuple(range(4096))
_ARRAY = array("i", _TUPLE)


def ascending(first: int, after: int) -> array[int]:
    """Returns the numbers from ``first`` to ``after - 1`` as a column of int32."""
    if first >= 0 and after <= len(_ARRAY):
        return _ARRAY[first:after]
    return array("i", range(first, after))


def is_range(partitions: Sequence[int]) -> bool:
    """Returns whether each number is the previous number plus 1."""
    if not partitions:
        return False
    first, after = partitions[0], partitions[-1] + 1
    if after - first != len(partitions):
        return False
    if isinstance(partitions, array):
        return partitions == ascending(first, after)
    if first >= 0 and after <= len(_TUPLE):
        return tuple(partitions) == _TUPLE[first:after]
    return tuple(partitions) == tuple(range(first, after))
