"""`make pictures`: the report's picture in README, of the history of a small shop at work."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipeline.catalog import JOBS
from pipeline.jobs import Options, run_job
from pipeline.session import open_session
from pipeline.spark_open import open_source
from pipeline.store import Store
from tests.interop.cluster import Cluster
from tests.page.browser import browsing
from tests.page.scene import TOPICS, Shop, shop
from tests.waiting import until

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "report.png"
SIZE = (1040, 1516)


def play(data: Path) -> None:
    """Seven minutes: members come, go and are killed, one group stops, another is set back."""
    with shop(data) as (broker, life):
        for group in life.groups:
            life.start(group, f"{group}-1")
        pause(40)
        life.start("billing", "billing-2")
        life.start("recommendations", "recommendations-2")
        pause(50)
        life.members["clickstream-archive"].pop().leave()  # nobody reads for it any more
        life.start("billing", "billing-3")
        pause(45)
        life.kill("billing")
        pause(20)
        life.start("billing", "billing-3")
        pause(30)
        set_back(Cluster(broker.bootstrap), life, "fraud-check", "payments")
        for _ in range(5):  # one that cannot make up its mind
            life.start("shipping", "shipping-2")
            pause(18)
            life.members["shipping"].pop().leave()
            pause(12)
        life.kill("recommendations")
        pause(40)


def set_back(cluster: Cluster, life: Shop, group: str, topic: str) -> None:
    """Have the group's members leave, set its offsets to 0 as an operator does, start one again."""
    while life.members[group]:
        life.members[group].pop().leave()
    until(f"{group} is empty", lambda: cluster.describe(group).state == "Empty", 30)
    back = [
        {"partition_index": partition, "committed_offset": 0, "committed_leader_epoch": -1,
         "committed_metadata": ""}
        for partition in range(TOPICS[topic])
    ]  # fmt: skip
    cluster.call(
        "OffsetCommit", 7, group_id=group, generation_id_or_member_epoch=-1, member_id="",
        group_instance_id=None, topics=[{"name": topic, "partitions": back}],
    )  # fmt: skip
    life.start(group, f"{group}-2")


def draw(data: Path, tables: Path) -> None:
    """Make every table and the report, and take its picture."""
    spark = open_session("local[2]")
    try:
        options = Options(overwrite=True, source="127.0.0.1:9092")
        run_job(
            spark, JOBS["all"], open_source(spark, str(data)), Store(spark, str(tables)), options
        )
    finally:
        spark.stop()
    with browsing("") as browser:
        browser.screen(SIZE)
        browser.driver.get((tables / "report.html").as_uri())
        browser.driver.save_screenshot(str(IMAGE))
        for line in browser.complaints():
            print(line)


def pause(seconds: float) -> None:
    """Let the shop live."""
    time.sleep(seconds)


def main() -> None:
    """Play the scene and write docs/images/report.png."""
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder) / "data")
        draw(Path(folder) / "data", Path(folder) / "tables")


if __name__ == "__main__":
    main()
