"""The jobs on real histories: those of Apache Kafka's folders come out exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.jobs import JOBS, Options, run_job
from pipeline.sources.open import open_source
from pipeline.store import Store
from tests.pipeline.small_logs import KAFKA_DIR_NAMES, expected, unpacked

pytestmark = pytest.mark.pipeline

WHOLE = "kafka-4.3.1-killed"
"""The one on which every job is run."""


def last_offsets(table: DataFrame) -> dict[str, dict[str, list[Any]]]:
    """By group and place the offset, and the metadata where the table has it."""
    found: dict[str, dict[str, list[Any]]] = {}
    for row in table.orderBy("log_partition", "log_offset").collect():
        found.setdefault(row.group_id, {})[f"{row.topic}/{row.partition}"] = [
            row.committed_offset,
            *([row.metadata] if "metadata" in table.columns else []),
        ]
    return found


@pytest.mark.parametrize("name", [name for name in KAFKA_DIR_NAMES if name != WHOLE])
def test_commits_of_kafkas_folders(spark: SparkSession, tmp_path: Path, name: str) -> None:
    source = open_source(spark, str(unpacked(name, tmp_path / "data")))
    store = Store(spark, str(tmp_path / "tables"))

    summary = run_job(spark, JOBS["commits"], source, store, Options(with_batches=False))

    last = last_offsets(store.read("commits"))
    del last["live-group"]  # it had members when the broker stopped, and is not in the list
    assert last == expected(name)["groups"]
    assert (summary.damaged, summary.unknown) == (0, 0)


def test_every_job_on_kafkas_folder(spark: SparkSession, tmp_path: Path) -> None:
    wanted = expected(WHOLE)
    source = open_source(spark, str(unpacked(WHOLE, tmp_path / "data")))
    store = Store(spark, str(tmp_path / "tables"))

    run_job(spark, JOBS["all"], source, store)

    last = last_offsets(store.read("commits"))
    del last["live-group"]
    assert last == wanted["groups"]
    kept = last_offsets(store.read("expiring_offsets").where("group_id != 'live-group'"))
    assert kept == {
        group: {place: value[:1] for place, value in places.items()}
        for group, places in wanted["groups"].items()
    }
    lag = store.read("lag").where("group_id != 'live-group'")
    final = {
        (row.group_id, f"{row.topic}/{row.partition}"): row.lag_records
        for row in lag.orderBy("minute").collect()
    }
    ends = wanted["topics"]
    assert final == {  # some committed offsets that are not there yet
        (group, place): max(len(ends[place.split("/")[0]][place.split("/")[1]]) - offset, 0)
        for group, places in wanted["groups"].items()
        for place, (offset, _) in places.items()
    }
    [*_, live] = (
        store.read("generations").where("group_id = 'live-group'").orderBy("log_offset").collect()
    )
    assert live.member_count > 0
