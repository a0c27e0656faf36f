"""The few words in which DuckDB's SQL and Spark's differ.

All else in `pipeline/sql` is what both understand. Functions that one of them lacks are macros
there (`duck.py`) under the other's name: `unix_millis`, `timestamp_millis`, `try_subtract`,
`try_divide`, `try_element_at`, `get_json_object`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Dialect(Protocol):
    """How an engine spells what has no common spelling."""

    def struct(self, **fields: str) -> str:
        """A struct of named expressions: ``d.struct(kind="kind", at="e.written_at")``."""

    def unnest(self, array: str, alias: str, column: str) -> str:
        """What follows a table in FROM, one row for each element: ``, LATERAL ...``; no row for an
        empty or null array. The element is ``alias.column``.
        """

    def transform(self, array: str, name: str, expression: str) -> str:
        """Each element, called ``name``, through an expression."""

    def filter(self, array: str, name: str, condition: str) -> str:
        """Those elements, called ``name``, that meet a condition."""

    def collect(self, value: str, condition: str | None = None) -> str:
        """Aggregate: the sorted array of values that are not null; empty for none."""

    def distinct(self, array: str) -> str:
        """The sorted array of its distinct elements."""

    def head(self, array: str, count: int) -> str:
        """The first elements of an array, so many at most."""

    def contains(self, array: str, value: str) -> str:
        """Whether a value is in an array; false for a null array."""

    def size(self, array: str) -> str:
        """How many elements an array has; null for a null one."""

    def bytes(self, text: str) -> str:
        """How many bytes a text has in UTF-8."""

    def last(self, value: str, over: str) -> str:
        """Window: the last value that is not null."""

    def total(self, array: str) -> str:
        """The sum of an array of BIGINT; null for a null or an empty one."""

    def empty(self) -> str:
        """An array without elements, of any type."""

    def texts(self, json: str) -> str:
        """The array of strings that a JSON text is."""

    def numbers(self, first: str, last: str) -> str:
        """The array of integers from one to another, both with it; empty where there are none."""

    def day(self, at: str) -> str:
        """The date of a timestamp in UTC."""

    def text(self, value: str) -> str:
        """A string literal."""


class Ansi:
    """What both spell alike."""

    def text(self, value: str) -> str:
        """See Dialect."""
        return "'" + value.replace("'", "''") + "'"

    def day(self, at: str) -> str:
        """Sessions have the zone UTC."""
        return f"CAST({at} AS DATE)"


class DuckDialect(Ansi):
    """DuckDB's."""

    def struct(self, **fields: str) -> str:
        """See Dialect."""
        return "struct_pack(" + ", ".join(f"{k} := {v}" for k, v in fields.items()) + ")"

    def unnest(self, array: str, alias: str, column: str) -> str:
        """See Dialect."""
        return f", unnest({array}) AS {alias}({column})"

    def transform(self, array: str, name: str, expression: str) -> str:
        """See Dialect."""
        return f"list_transform({array}, lambda {name}: {expression})"

    def filter(self, array: str, name: str, condition: str) -> str:
        """See Dialect."""
        return f"list_filter({array}, lambda {name}: {condition})"

    def collect(self, value: str, condition: str | None = None) -> str:
        """See Dialect."""
        also = f" AND ({condition})" if condition else ""
        return f"coalesce(list_sort(list({value}) FILTER (({value}) IS NOT NULL{also})), [])"

    def distinct(self, array: str) -> str:
        """See Dialect."""
        return f"list_sort(list_distinct({array}))"

    def head(self, array: str, count: int) -> str:
        """See Dialect."""
        return f"list_slice({array}, 1, {count})"

    def contains(self, array: str, value: str) -> str:
        """See Dialect."""
        return f"coalesce(list_contains({array}, {value}), false)"

    def size(self, array: str) -> str:
        """See Dialect."""
        return f"CAST(len({array}) AS INT)"

    def bytes(self, text: str) -> str:
        """See Dialect."""
        return f"strlen({text})"

    def last(self, value: str, over: str) -> str:
        """See Dialect."""
        return f"last_value({value} IGNORE NULLS) OVER ({over})"

    def total(self, array: str) -> str:
        """See Dialect."""
        return f"list_sum({array})"

    def empty(self) -> str:
        """See Dialect."""
        return "[]"

    def texts(self, json: str) -> str:
        """See Dialect."""
        return f"from_json({json}, '[\"VARCHAR\"]')"

    def numbers(self, first: str, last: str) -> str:
        """See Dialect."""
        return f"generate_series({first}, {last})"


class SparkDialect(Ansi):
    """Spark's."""

    def text(self, value: str) -> str:
        """See Dialect."""
        return super().text(value.replace("\\", "\\\\"))

    def struct(self, **fields: str) -> str:
        """See Dialect."""
        return "named_struct(" + ", ".join(f"'{k}', {v}" for k, v in fields.items()) + ")"

    def unnest(self, array: str, alias: str, column: str) -> str:
        """See Dialect."""
        return f" LATERAL VIEW explode({array}) {alias} AS {column}"

    def transform(self, array: str, name: str, expression: str) -> str:
        """See Dialect."""
        return f"transform({array}, {name} -> {expression})"

    def filter(self, array: str, name: str, condition: str) -> str:
        """See Dialect."""
        return f"filter({array}, {name} -> {condition})"

    def collect(self, value: str, condition: str | None = None) -> str:
        """See Dialect."""
        only = f" FILTER (WHERE {condition})" if condition else ""
        return f"sort_array(collect_list({value}){only})"

    def distinct(self, array: str) -> str:
        """See Dialect."""
        return f"sort_array(array_distinct({array}))"

    def head(self, array: str, count: int) -> str:
        """See Dialect."""
        return f"slice({array}, 1, {count})"

    def contains(self, array: str, value: str) -> str:
        """See Dialect."""
        return f"coalesce(array_contains({array}, {value}), false)"

    def size(self, array: str) -> str:
        """See Dialect."""
        return f"CASE WHEN {array} IS NOT NULL THEN size({array}) END"

    def bytes(self, text: str) -> str:
        """See Dialect."""
        return f"octet_length({text})"

    def last(self, value: str, over: str) -> str:
        """See Dialect."""
        return f"last_value({value}, true) OVER ({over})"

    def total(self, array: str) -> str:
        """See Dialect."""
        return f"aggregate({array}, CAST(NULL AS BIGINT), (t, x) -> coalesce(t, 0L) + x)"

    def empty(self) -> str:
        """See Dialect."""
        return "array()"

    def texts(self, json: str) -> str:
        """See Dialect."""
        return f"from_json({json}, 'array<string>')"

    def numbers(self, first: str, last: str) -> str:
        """See Dialect."""
        return f"CASE WHEN {first} <= {last} THEN sequence({first}, {last}) ELSE array() END"


def type_of(kind: pa.DataType) -> str:
    """DuckDB's name of an Arrow type."""
    if pa.types.is_list(kind):
        return f"{type_of(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{field.name} {type_of(field.type)}" for field in kind)
        return f"STRUCT({fields})"
    return _TYPES[str(kind)]


_TYPES = {
    "string": "VARCHAR",
    "binary": "BLOB",
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
}
