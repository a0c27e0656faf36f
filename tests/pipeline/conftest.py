"""One Spark session for a test process, and small frames in the contract's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.contract import EVENTS
from pipeline.session import open_session
from tests.pipeline.small_logs import small_history

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # short work on small frames: what the second compiler would win is never earned back
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

Frame = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2, 2]", settings=SMALL)
    yield session
    session.stop()


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Rows from dicts: a column that a dict leaves out is null."""

    def make(rows: list[dict[str, Any]], schema: StructType = EVENTS) -> DataFrame:
        names = schema.fieldNames()
        for row in rows:
            assert set(row) <= set(names), set(row) - set(names)
        return spark.createDataFrame([tuple(row.get(n) for n in names) for row in rows], schema)

    return make


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return small_history(tmp_path / "history")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def at(seconds: float) -> datetime:
    """So many seconds after 2026-01-01 00:00 UTC."""
    return datetime.fromtimestamp(1_767_225_600 + seconds, UTC)
