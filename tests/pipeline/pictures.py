"""`make pictures`: images of the report for README and docs, from a small shop that is running."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.page.browser import PHONE, Browser, browsing
from tests.page.pictures import IMAGES, take
from tests.page.scene import TOPICS, Shop, shop
from tests.waiting import until

SOURCE = "127.0.0.1:9092"
DROWNING = "recommendations"
PICTURES = (
    ("report", "", (1180, 1150), False),
    ("report-group", DROWNING, (1180, 1290), False),
    ("report-phone", DROWNING, PHONE, True),
)
"""For each picture: its name, the group that it shows, the screen size, and whether the dark theme
is used."""
SHOW = """
    const part = [...document.querySelectorAll('.part')].find(
        (each) => each.querySelector('h2').innerText === arguments[0]);
    location.hash = part.querySelector('.gens li').id;
    part.scrollIntoView();
"""
"""JavaScript that scrolls to the section of a group in the report, and opens the members of the
group's current generation."""


def play(broker: str, life: Shop) -> None:
    """Runs the shop for seven minutes, in which members join, leave and are killed. Groups fall
    behind, stop, and are reset."""
    for group in life.groups:
        each_takes_s = 0.012 if group == DROWNING else 0
        life.start(group, f"{group}-1", each_takes_s=each_takes_s)
    pause(40)
    life.start("billing", "billing-2")
    pause(50)
    life.members["clickstream-archive"].pop().leave()  # the group has no members now
    life.start("billing", "billing-3")
    pause(45)
    life.kill("billing")
    pause(20)
    life.start("billing", "billing-3")
    pause(30)
    set_back(Cluster(broker), life, "fraud-check", "payments")
    life.start(DROWNING, f"{DROWNING}-2", each_takes_s=0.012)
    for _ in range(5):  # a member that joins and leaves repeatedly
        life.start("shipping", "shipping-2")
        pause(18)
        life.members["shipping"].pop().leave()
        pause(12)
    life.kill(DROWNING)
    pause(70)


def set_back(cluster: Cluster, life: Shop, group: str, topic: str) -> None:
    """Stops the members of a group, resets its offsets to 0 like an operator, and starts one
    member."""
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


def draw(tables: Path, source: str) -> None:
    """Makes all tables and the report from the running broker, and then the pictures of the
    report."""
    made = run("pipeline", "all", "--source", source, "--out", str(tables))
    assert made.code == 0, made.err
    print(made.out)
    with browsing("") as browser:
        photograph(browser, tables / "report.html", source)
        for line in browser.complaints():
            print(line)


def photograph(browser: Browser, page: Path, source: str, images: Path = IMAGES) -> None:
    """Takes the pictures of a report. Raises AssertionError if the report is not about
    ``source``."""
    for name, group, size, dark in PICTURES:
        browser.system(dark)
        browser.screen(size)
        browser.driver.get(page.as_uri())
        assert browser.text("h1") == browser.title() == f"Offsets of {source}"
        if group:
            browser.ask(SHOW, group)
        told = {"Title": browser.title(), "Source": source}
        take(browser, images / f"{name}.png", **told)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def main() -> None:
    """Runs the clients of an example shop on a broker, and draws docs/images/report*.png."""
    port = int(SOURCE.rpartition(":")[2])
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder) / "data", port) as playing:
        broker, life = playing
        play(broker.bootstrap, life)
        draw(Path(folder) / "tables", broker.bootstrap)


if __name__ == "__main__":
    main()
