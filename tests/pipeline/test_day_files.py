"""Files by day: every row once, in the folder that Spark looks for it in, few files open."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StructField, StructType

from pipeline import day_files
from pipeline.day_files import DAYS_AT_ONCE, DayFiles, folder_of

SCHEMA = pa.schema([("number", pa.int64()), ("day", pa.date32())])
FAR_DAYS = (0, -1, 20_454, 2_932_896, 2_932_897, -719_528, -719_529, -800_000, 50_000_000)


def rows(numbers: range, days: list[date | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(days, pa.date32())], schema=SCHEMA
    )


def read(folder: Path, file: str) -> list[int]:
    numbers: list[int] = pq.ParquetFile(folder / file).read()["number"].to_pylist()
    return numbers


def test_rows_of_a_batch_go_to_the_files_of_their_days(tmp_path: Path) -> None:
    new_year = date(2026, 1, 1)
    with DayFiles(str(tmp_path), "part-00003", SCHEMA) as files:
        files.add(rows(range(3), [new_year, None, new_year]))
        files.add(rows(range(0), []))
        files.add(rows(range(3, 5), [new_year, new_year + timedelta(1)]))

    assert {file: read(tmp_path, file) for file in files.files} == {
        "day=2026-01-01/part-00003-000.snappy.parquet": [0, 2, 3],
        "day=__HIVE_DEFAULT_PARTITION__/part-00003-001.snappy.parquet": [1],
        "day=2026-01-02/part-00003-002.snappy.parquet": [4],
    }


def test_many_days_in_any_order_lose_no_row_and_keep_few_files_open(tmp_path: Path) -> None:
    days = [date(2026, 1, 1) + timedelta(7 * n % 20) for n in range(200)]
    with DayFiles(str(tmp_path), "part", SCHEMA) as files:
        for number, day in enumerate(days):
            files.add(rows(range(number, number + 1), [day]))
            assert len(files._open) <= DAYS_AT_ONCE

    found = [
        (number, file.split("/")[0]) for file in files.files for number in read(tmp_path, file)
    ]
    assert sorted(found) == [(number, f"day={day}") for number, day in enumerate(days)]
    assert sorted(files.files) == sorted(
        str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet")
    )


@pytest.mark.parametrize(("bound", "most"), [("ROW_GROUP_ROWS", 10), ("ROW_GROUP_BYTES", 80)])
def test_rows_do_not_wait_beyond_a_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(day_files, bound, most)
    with DayFiles(str(tmp_path), "part", SCHEMA) as files:
        for first in range(0, 44, 4):
            files.add(rows(range(first, first + 4), [date(2026, 1, 1)] * 4))

    meta = pq.ParquetFile(tmp_path / files.files[0]).metadata
    assert [meta.row_group(n).num_rows for n in range(meta.num_row_groups)] == [12, 12, 12, 8]


def test_after_an_error_no_file_looks_whole(tmp_path: Path) -> None:
    files = DayFiles(str(tmp_path), "part", SCHEMA)

    def fails() -> None:
        with files:
            files.add(rows(range(1), [date(2026, 1, 1)]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with pytest.raises(pa.ArrowInvalid):
        read(tmp_path, files.files[0])


@pytest.mark.pipeline
def test_a_days_folder_is_named_and_read_as_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType([StructField("number", LongType()), StructField("day", DateType())])
    by_spark, ours = tmp_path / "spark", tmp_path / "ours"
    days = pa.array([*FAR_DAYS, None], pa.int32()).cast(pa.date32())
    frame = spark.createDataFrame([(n,) for n in [*FAR_DAYS, None]], "number long").withColumn(
        "day", F.expr("date_from_unix_date(cast(number as int))")
    )
    frame.write.partitionBy("day").parquet(str(by_spark))
    with DayFiles(str(ours), "part", SCHEMA) as files:
        files.add(pa.RecordBatch.from_arrays([days.cast(pa.int32()).cast(pa.int64()), days],
                                             schema=SCHEMA))  # fmt: skip

    assert {folder_of(day) for day in days} == {f.name for f in by_spark.iterdir() if f.is_dir()}
    told = F.unix_date("day")
    back = spark.read.schema(schema).parquet(str(ours)).select("number", told).collect()
    assert sorted(tuple(row) for row in back if row[0] is not None) == sorted(
        (n, n) for n in FAR_DAYS
    )
    assert [tuple(row) for row in back if row[0] is None] == [(None, None)]
