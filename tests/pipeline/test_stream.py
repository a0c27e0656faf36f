"""The offsets topic followed into a table: killed anywhere, no row is lost and none doubled."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.spark_open import open_source
from pipeline.store import Store
from pipeline.stream import batch_writer, finish, follow
from tests import waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.pipeline.conftest import Frame, at
from tests.pipeline.killing import killed_at
from tests.raw_connection import RawConnection

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

PARTITIONS = 50
FOLLOWER = """
import sys
from pipeline.session import open_session
from pipeline.stream import finish, follow
from pipeline.store import Store
where, out, jars = sys.argv[1:]
spark = open_session("local[2]", settings={"spark.jars": jars})
finish(follow(spark, where, Store(spark, out), available_now=True, records_per_batch=150))
"""


def commit(broker: Broker, groups: range) -> None:
    """Each group commits 50 partitions of one topic."""
    cluster = Cluster(broker.bootstrap)
    with RawConnection(cluster.port) as connection:
        for group in groups:
            part = {"committed_offset": group, "committed_leader_epoch": -1,
                    "committed_metadata": ""}  # fmt: skip
            partitions = [{"partition_index": p, **part} for p in range(PARTITIONS)]

            def answered(group: int = group, partitions: object = partitions) -> bool:
                answer = connection.call(
                    "OffsetCommit",
                    7,
                    group_id=f"streamed-{group}",
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=[{"name": "streamed", "partitions": partitions}],
                )
                [topic] = answer["topics"]
                return {p["error_code"] for p in topic["partitions"]} == {0}

            waiting.until(f"the commit of group {group} is taken", answered)


@pytest.fixture
def followed(brokers: Callable[..., Broker]) -> Broker:
    broker = brokers({"offsets.topic.num.partitions": "3"})
    Cluster(broker.bootstrap).create_topic("streamed", PARTITIONS)
    with RawConnection(broker.port) as connection:
        waiting.until(
            "a coordinator is found",
            lambda: connection.call("FindCoordinator", 1, key="x", key_type=0)["error_code"] == 0,
        )
    return broker


def check(spark: SparkSession, broker: Broker, out: Path) -> None:
    """The table is the log: every record once, by any reader of Parquet."""
    table = spark.read.parquet(str(out / "events"))
    places = table.groupBy("log_partition", "log_offset").agg(F.count("*").alias("times"))
    assert places.where("times > 1").isEmpty(), "a row is there twice"
    wanted = open_source(spark, broker.bootstrap).events()
    found = open_source(spark, str(out)).events()
    assert found.count() == wanted.count()
    assert found.exceptAll(wanted).isEmpty()


def test_a_stream_goes_on_where_it_ended(
    spark: SparkSession, followed: Broker, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    for groups in (range(8), range(8, 12)):
        commit(followed, groups)
        query = follow(spark, followed.bootstrap, store, available_now=True, records_per_batch=150)
        finish(query)
        check(spark, followed, tmp_path)
        for progress in query.recentProgress:
            assert progress.numInputRows <= 160, "a batch is bounded"
    batches = list((tmp_path / "events").iterdir())
    assert len(batches) >= 4
    assert store.cluster_id() == open_source(spark, followed.bootstrap).cluster_id
    with pytest.raises(PipelineError, match="choose another --out"):
        Store(spark, str(tmp_path)).belong_to("another-cluster")


def test_killed_at_random_moments_it_neither_loses_nor_doubles(
    spark: SparkSession, followed: Broker, tmp_path: Path
) -> None:
    """The whole process group, by SIGKILL, at different steps of the first batches."""
    commit(followed, range(24))
    out, chance = tmp_path / "out", random.Random(os.urandom(4).hex())
    jars = spark.sparkContext.getConf().get("spark.jars")
    command = [sys.executable, "-c", FOLLOWER, followed.bootstrap, str(out), jars]
    moments = ["_events_checkpoint/offsets/{}", ".events.partial/batch={}", "events/batch={}",
               "_events_checkpoint/commits/{}"]  # fmt: skip
    killed = 0
    for first in (0, 3):
        moment = out / chance.choice(moments).format(first + chance.randrange(3))
        with open(tmp_path / "log", "a") as log:
            job = subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True)
        killed += killed_at(moment, job, within_s=400)
    assert killed, (tmp_path / "log").read_text()[-2000:]
    finish(
        follow(spark, followed.bootstrap, Store(spark, str(out)), available_now=True,
               records_per_batch=150)
    )  # fmt: skip
    check(spark, followed, out)


def _rows(frame: Frame) -> DataFrame:
    commit = {"log_partition": 1, "kind": "commit", "group_id": "g", "written_at": at(0)}
    damage = {"file": None, "position": None, "reason": "why"}
    return frame(
        [
            {"log_offset": 0, **commit},
            {"log_offset": 1, **commit},
            {"log_partition": 0, "log_offset": 7, "kind": "damaged", "damage": damage},
        ]
    )


@pytest.mark.parametrize("crash_at", range(1, 8))
def test_a_batch_cut_short_at_any_step_is_written_once(
    spark: SparkSession, frame: Frame, tmp_path: Path, crash_at: int
) -> None:
    """Each step of the file system's fails in turn, and the batch comes again."""

    class Crash(Exception):
        pass

    class Steps:
        """The store's file system, which ends before one of its changes."""

        def __init__(self, files: object) -> None:
            self.files, self.left = files, crash_at

        def __getattr__(self, name: str) -> object:
            if name in ("rename", "mkdirs", "delete"):
                self.left -= 1
                if not self.left:
                    raise Crash(name)
            return getattr(self.files, name)

    rows = _rows(frame)
    crashing = Store(spark, str(tmp_path))
    crashing._files = Steps(crashing._files)
    with contextlib.suppress(Crash):
        batch_writer(crashing)(rows, 0)
    store = Store(spark, str(tmp_path))
    batch_writer(store)(rows, 0)
    batch_writer(store)(rows, 0)
    table = spark.read.parquet(str(tmp_path / "events"))
    assert sorted((r.log_partition, r.log_offset) for r in table.collect()) == [
        (0, 7), (1, 0), (1, 1)
    ]  # fmt: skip
    [bad] = spark.read.parquet(str(tmp_path / "quarantine")).collect()
    assert (bad.log_partition, bad.log_offset, bad.reason) == (0, 7, "why")


def test_a_store_that_no_stream_wrote_is_left_alone(
    spark: SparkSession, frame: Frame, followed: Broker, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    with pytest.raises(PipelineError, match="cannot be followed"):
        follow(spark, str(tmp_path), store)
    store.write("events", _rows(frame))
    with pytest.raises(PipelineError, match="events that no stream wrote"):
        follow(spark, followed.bootstrap, store)
