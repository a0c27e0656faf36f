"""The few expressions in which DuckDB's SQL and Spark's differ.

Both understand all other SQL in `pipeline/sql`. Functions that DuckDB lacks are macros there
(`duck.py`) with Spark's name: `unix_millis`, `timestamp_millis`, `try_subtract`, `try_divide`,
`try_element_at`, `get_json_object`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Dialect(Protocol):
    """An engine's spelling of the expressions without a common one."""

    def struct(self, **fields: str) -> str:
        """A struct of named expressions: ``d.struct(kind="kind", at="e.written_at")``."""

    def unnest(self, array: str, alias: str, column: str) -> str:
        """The text after a table in FROM that makes one row for each element: ``, LATERAL ...``; an
        empty or null array makes no row. The element is ``alias.column``.
        """

    def transform(self, array: str, name: str, expression: str) -> str:
        """The array with each element, called ``name``, replaced by an expression."""

    def filter(self, array: str, name: str, condition: str) -> str:
        """The elements, called ``name``, that meet a condition."""

    def collect(self, value: str, condition: str | None = None) -> str:
        """Aggregate: the sorted array of values that are not null; empty without values."""

    def distinct(self, array: str) -> str:
        """The sorted array of its distinct elements."""

    def head(self, array: str, count: int) -> str:
        """At most the first ``count`` elements of an array."""

    def contains(self, array: str, value: str) -> str:
        """Whether a value is in an array; false for a null array."""

    def size(self, array: str) -> str:
        """The number of elements of an array; null for a null array."""

    def bytes(self, text: str) -> str:
        """The length of a text in bytes of UTF-8."""

    def last(self, value: str, over: str) -> str:
        """Window: the last value that is not null."""

    def total(self, array: str) -> str:
        """The sum of an array of BIGINT; null for a null or an empty one."""

    def empty(self) -> str:
        """An array without elements, of any type."""

    def texts(self, json: str) -> str:
        """The array of strings in a JSON text."""

    def numbers(self, first: str, last: str) -> str:
        """The integers from ``first`` to ``last``, both included; empty if last < first."""

    def day(self, at: str) -> str:
        """The date of a timestamp in UTC."""

    def text(self, value: str) -> str:
        """A string literal."""


class Ansi:
    """Expressions with the same spelling in both."""

    def text(self, value: str) -> str:
        """See Dialect."""
        return "'" + value.replace("'", "''") + "'"

    def day(self, at: str) -> str:
        """See Dialect. Sessions have the time zone UTC."""
        return f"CAST({at} AS DATE)"


class DuckDialect(Ansi):
    """DuckDB's spelling."""

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
    """Spark's spelling."""

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
