"""Expressions for which the SQL of DuckDB and of Spark differ. Both engines understand all other
SQL in `pipeline/sql`.

Functions that DuckDB does not have are defined as macros with Spark's name (`duck.py`):
`unix_millis`, `timestamp_millis`, `try_subtract`, `try_divide`, `try_element_at`,
`get_json_object`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Dialect(Protocol):
    """The SQL of one engine, for expressions that Spark and DuckDB write differently."""

    def struct(self, **fields: str) -> str:
        """Return SQL for a struct of named expressions: ``d.struct(kind="kind",
        at="e.written_at")``."""

    def unnest(self, array: str, alias: str, column: str) -> str:
        """Return SQL that follows a table in FROM and makes one row for each element of an array.
        The element is ``alias.column``. An empty or null array makes no row."""

    def transform(self, array: str, name: str, expression: str) -> str:
        """Return SQL for an array in which each element is replaced by an expression. The
        expression refers to the element by ``name``."""

    def filter(self, array: str, name: str, condition: str) -> str:
        """Return SQL for an array of the elements that meet a condition. The condition refers to
        the element by ``name``."""

    def collect(self, value: str, condition: str | None = None) -> str:
        """Return the SQL aggregate for the sorted array of the values that are not null. The array
        is empty if all values are null."""

    def distinct(self, array: str) -> str:
        """Return SQL for the sorted array of an array's distinct elements."""

    def head(self, array: str, count: int) -> str:
        """Return SQL for at most the first ``count`` elements of an array."""

    def contains(self, array: str, value: str) -> str:
        """Return SQL that is true if a value is in an array, and false for a null array."""

    def size(self, array: str) -> str:
        """Return SQL for the number of elements of an array; null for a null array."""

    def bytes(self, text: str) -> str:
        """Return SQL for the length of a text in bytes of UTF-8."""

    def last(self, value: str, over: str) -> str:
        """Return the SQL window function for the last value that is not null."""

    def total(self, array: str) -> str:
        """Return SQL for the sum of an array of BIGINT; null for a null or empty array."""

    def empty(self) -> str: ...

    def texts(self, json: str) -> str:
        """Return SQL for the array of strings in a JSON text."""

    def topics(self, json: str) -> str:
        """Return SQL that converts a JSON text to an array of structs with the fields `topic`,
        `topic_id` and `partitions`. A field that the text omits is null."""

    def tasks(self, json: str) -> str:
        """Return SQL that converts a JSON text with the tasks of a streams group to an array. The
        array has the type that `topics` returns; in its elements, `topic` is the id of the
        subtopology, and `topic_id` is null."""

    def numbers(self, first: str, last: str) -> str:
        """Return SQL for the array of integers from ``first`` to ``last``, both included; empty if
        last < first."""

    def day(self, at: str) -> str:
        """Return SQL for the date of a timestamp in UTC."""

    def text(self, value: str) -> str:
        """Return SQL for a string literal."""


class Ansi:
    """Expressions that are the same in DuckDB and Spark."""

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def day(self, at: str) -> str:
        """Implements `Dialect.day`, for sessions whose time zone is UTC."""
        return f"CAST({at} AS DATE)"


class DuckDialect(Ansi):
    """DuckDB's SQL for `Dialect`."""

    def struct(self, **fields: str) -> str:
        return "struct_pack(" + ", ".join(f"{k} := {v}" for k, v in fields.items()) + ")"

    def unnest(self, array: str, alias: str, column: str) -> str:
        return f", unnest({array}) AS {alias}({column})"

    def transform(self, array: str, name: str, expression: str) -> str:
        return f"list_transform({array}, lambda {name}: {expression})"

    def filter(self, array: str, name: str, condition: str) -> str:
        return f"list_filter({array}, lambda {name}: {condition})"

    def collect(self, value: str, condition: str | None = None) -> str:
        also = f" AND ({condition})" if condition else ""
        return f"coalesce(list_sort(list({value}) FILTER (({value}) IS NOT NULL{also})), [])"

    def distinct(self, array: str) -> str:
        return f"list_sort(list_distinct({array}))"

    def head(self, array: str, count: int) -> str:
        return f"list_slice({array}, 1, {count})"

    def contains(self, array: str, value: str) -> str:
        return f"coalesce(list_contains({array}, {value}), false)"

    def size(self, array: str) -> str:
        return f"CAST(len({array}) AS INT)"

    def bytes(self, text: str) -> str:
        return f"strlen({text})"

    def last(self, value: str, over: str) -> str:
        return f"last_value({value} IGNORE NULLS) OVER ({over})"

    def total(self, array: str) -> str:
        return f"list_sum({array})"

    def empty(self) -> str:
        return "[]"

    def texts(self, json: str) -> str:
        return f"from_json({json}, '[\"VARCHAR\"]')"

    def topics(self, json: str) -> str:
        shape = '[{"topic": "VARCHAR", "topic_id": "VARCHAR", "partitions": ["INTEGER"]}]'
        return f"from_json({json}, '{shape}')"

    def tasks(self, json: str) -> str:
        shape = '[{"subtopology_id": "VARCHAR", "partitions": ["INTEGER"]}]'
        return _tasks(self, f"from_json({json}, '{shape}')")

    def numbers(self, first: str, last: str) -> str:
        return f"generate_series({first}, {last})"


class SparkDialect(Ansi):
    """Spark's SQL for `Dialect`."""

    def text(self, value: str) -> str:
        return super().text(value.replace("\\", "\\\\"))

    def struct(self, **fields: str) -> str:
        return "named_struct(" + ", ".join(f"'{k}', {v}" for k, v in fields.items()) + ")"

    def unnest(self, array: str, alias: str, column: str) -> str:
        return f" LATERAL VIEW explode({array}) {alias} AS {column}"

    def transform(self, array: str, name: str, expression: str) -> str:
        return f"transform({array}, {name} -> {expression})"

    def filter(self, array: str, name: str, condition: str) -> str:
        return f"filter({array}, {name} -> {condition})"

    def collect(self, value: str, condition: str | None = None) -> str:
        only = f" FILTER (WHERE {condition})" if condition else ""
        return f"sort_array(collect_list({value}){only})"

    def distinct(self, array: str) -> str:
        return f"sort_array(array_distinct({array}))"

    def head(self, array: str, count: int) -> str:
        return f"slice({array}, 1, {count})"

    def contains(self, array: str, value: str) -> str:
        return f"coalesce(array_contains({array}, {value}), false)"

    def size(self, array: str) -> str:
        return f"CASE WHEN {array} IS NOT NULL THEN size({array}) END"

    def bytes(self, text: str) -> str:
        return f"octet_length({text})"

    def last(self, value: str, over: str) -> str:
        return f"last_value({value}, true) OVER ({over})"

    def total(self, array: str) -> str:
        return f"aggregate({array}, CAST(NULL AS BIGINT), (t, x) -> coalesce(t, 0L) + x)"

    def empty(self) -> str:
        return "array()"

    def texts(self, json: str) -> str:
        return f"from_json({json}, 'array<string>')"

    def topics(self, json: str) -> str:
        shape = "array<struct<topic:string,topic_id:string,partitions:array<int>>>"
        return f"from_json({json}, '{shape}')"

    def tasks(self, json: str) -> str:
        shape = "array<struct<subtopology_id:string,partitions:array<int>>>"
        return _tasks(self, f"from_json({json}, '{shape}')")

    def numbers(self, first: str, last: str) -> str:
        return f"CASE WHEN {first} <= {last} THEN sequence({first}, {last}) ELSE array() END"


def _tasks(d: Dialect, array: str) -> str:
    """Return SQL that converts tasks (an array of structs, each with a subtopology and its
    partitions) into the structs that `Dialect.topics` returns."""
    as_topic = d.struct(
        topic="t.subtopology_id", topic_id="CAST(NULL AS STRING)", partitions="t.partitions"
    )
    return d.transform(array, "t", as_topic)


def type_of(kind: pa.DataType) -> str:
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
