"""Fixtures: one Spark session for all tests of the process, and a small history. Also has a
function that returns times."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.session import open_session
from tests.pipeline.small_logs import small_history

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # short work on small frames never regains the second compiler's cost
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yields a Spark session that uses the Java of the extra `pipeline`, as on a machine without
    other Java."""
    with pytest.MonkeyPatch.context() as patch:
        without_java(patch, tmp_path_factory.mktemp("path"))
        session = open_session("local[2, 2]", settings=SMALL)
    yield session
    session.stop()


def without_java(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Sets a PATH with only the programs that Spark's scripts need, and unsets JAVA_HOME."""
    for name in ("bash", "chmod", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    patch.setenv("PATH", str(folder))
    patch.delenv("JAVA_HOME", raising=False)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return small_history(tmp_path / "history")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def at(seconds: float) -> datetime:
    """Returns the time ``seconds`` after 2026-01-01 00:00 UTC."""
    return datetime.fromtimestamp(1_767_225_600 + seconds, UTC)
