"""Tests that the interrupt of an engine cancels the queries of all its threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine
from pipeline.engines.spark import SparkEngine
from tests.waiting import until

pytestmark = pytest.mark.pipeline


def interrupted(engine: Engine, column: str) -> BaseException:
    """Interrupts a query that would run for hours, and returns the exception that ends the query.

    The engine ignores an interrupt before the query starts, so the function interrupts repeatedly
    until the query ends.
    """
    endless = f"SELECT count(*) AS n FROM range(1000000000000) WHERE {column} % 7 = 8"
    ended: list[BaseException] = []

    def ask() -> None:
        engine.begin("endless")
        try:
            engine.ask(endless)
        except BaseException as error:  # noqa: BLE001 - it is what is asked for
            ended.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()

    def has_ended() -> bool:
        engine.interrupt()
        return bool(ended)

    until("the query has ended", has_ended, 60)
    asking.join()
    return ended[0]


def test_interrupt_of_duckdb_ends_the_queries_of_all_threads(tmp_path: Path) -> None:
    engine = DuckEngine(str(tmp_path))

    assert "nterrupted" in str(interrupted(engine, "range"))
    assert engine.ask("SELECT 1 AS one") == [{"one": 1}]
    engine.close()


def test_interrupt_of_spark_cancels_the_jobs_of_all_threads(spark: SparkSession) -> None:
    engine = SparkEngine(spark)

    assert "cancel" in str(interrupted(engine, "id")).lower()
    assert engine.ask("SELECT 1 AS one") == [{"one": 1}]


class Interrupted:
    """A DuckDB cursor that raises KeyboardInterrupt, as Ctrl-C does, while it registers a
    stream."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def register(self, *_: object) -> None:
        raise RuntimeError("Query interrupted")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def test_duckdb_raises_keyboard_interrupt_on_ctrl_c_during_a_read(tmp_path: Path) -> None:
    engine = DuckEngine(str(tmp_path))
    engine._mine.cursor = Interrupted(engine._db)

    with pytest.raises(KeyboardInterrupt):
        engine.read("history", [], pa.schema([("n", pa.int64())]))
    engine.close()
