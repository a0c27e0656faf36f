"""One Spark session for a test process, a small history, and times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.session import open_session
from tests.pipeline.small_logs import small_history

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # short work on small frames: what the second compiler would win is never earned back
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2, 2]", settings=SMALL)
    yield session
    session.stop()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return small_history(tmp_path / "history")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def at(seconds: float) -> datetime:
    """So many seconds after 2026-01-01 00:00 UTC."""
    return datetime.fromtimestamp(1_767_225_600 + seconds, UTC)
