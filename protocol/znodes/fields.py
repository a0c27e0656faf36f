"""Helpers for reading nodes: they parse the data of a node as a JSON object, and read fields with a
required type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
_PARTITION_DIGITS_MAX = 6
"""The maximum number of digits of a partition number. It must be bounded, because brokers create
state for all partitions up to the largest number."""


class BadNode(ValueError):
    """The data of a node is invalid. The message has the path of the node and the problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"ZooKeeper's node {path} {problem}")
        self.path = path


class Fields:
    """The fields of a node's JSON object. Each lookup checks the type of the field and raises
    BadNode."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        try:
            there = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadNode(path, f"is not JSON: {str(error)[:100]}") from None
        if not isinstance(there, dict):
            raise BadNode(path, "is not a JSON object")
        self.all: Mapping[str, Any] = there

    def bad(self, name: str, wanted: str) -> BadNode:
        """Returns the error for a field with a wrong value."""
        return BadNode(self._path, f"has {name}={str(self.all.get(name))[:100]!r}, not {wanted}")

    def number(self, name: str, default: int | None = None, most: int = INT32_MAX) -> int:
        """Returns a whole number from 0 to ``most``. The field may also be a string, because older
        writers used strings for some numbers."""
        value = self.all.get(name, default)
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                raise self.bad(name, "a number") from None
        if not isinstance(value, int) or isinstance(value, bool) or not -most - 1 <= value <= most:
            raise self.bad(name, "a number")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """Returns a field. Raises BadNode if it is not a list of numbers."""
        return _numbers(self, name, self.all.get(name))

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a field. Raises BadNode if it is not a string."""
        value = self.all.get(name, default)
        if not isinstance(value, str):
            raise self.bad(name, "a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Returns a field; None if it is null or missing. Raises BadNode if it is neither null nor
        a string."""
        value = self.all.get(name)
        if value is not None and not isinstance(value, str):
            raise self.bad(name, "a string")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """Returns a field that must be an object of strings; empty if it is missing. The error
        shows no value, because a value may be a secret."""
        value = self.all.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise BadNode(self._path, f"has a field {name} that is not an object of strings")
        return value

    def replicas(self, name: str) -> dict[int, tuple[int, ...]]:
        """Returns the broker ids of each partition, ordered by partition; empty if the field is
        missing."""
        value = self.all.get(name) or {}
        if not isinstance(value, dict) or not all(_is_number(each) for each in value):
            raise self.bad(name, "an object with the replicas of each partition")
        found = {int(each): _numbers(self, name, ids) for each, ids in value.items()}
        return dict(sorted(found.items()))

    def partitions(self, name: str) -> list[dict[str, Any]]:
        """Returns a list of objects, each with at least the fields ``topic`` and ``partition``."""
        value = self.all.get(name)
        if not isinstance(value, list) or not all(_is_partition(each) for each in value):
            raise self.bad(name, "a list of topics with partitions")
        return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PARTITION_DIGITS_MAX


def _is_partition(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("topic"), str)
        and is_int32(value.get("partition"))
    )


def is_int32(value: Any) -> bool:
    """Returns True if ``value`` is a whole number that fits an int32 field of a request."""
    return type(value) is int and -INT32_MAX - 1 <= value <= INT32_MAX


def _numbers(fields: Fields, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(is_int32, value)):
        raise fields.bad(name, "a list of numbers")
    return tuple(value)


def partition_list(places: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Returns partitions as the JSON value that `Fields.partitions` reads."""
    return [{"topic": topic, "partition": partition} for topic, partition in places]


def encode(value: Mapping[str, Any]) -> bytes:
    """Returns JSON in Kafka's format: no spaces, UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
