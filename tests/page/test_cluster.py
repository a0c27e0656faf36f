"""Tests of the page's cluster view. The page of a standalone broker has no link to this view."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.zookeeper_cluster import MUSTER, running
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser, browsing
from tests.page.conftest import cells, rows
from tests.waiting import until

pytestmark = pytest.mark.interop

LINK = "return document.querySelector('[data-view=cluster]').offsetParent !== null"


def test_cluster_view_shows_causes_of_leader_elections_and_replicas_out_of_sync(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "c", dict.fromkeys((1, 2, 3), MUSTER)) as cluster:
        cluster.create("orders", 3, 3)
        leaders = {index: leader for index, (leader, _) in cluster.partitions("orders").items()}
        own = next(index for index, leader in leaders.items() if leader == 3)
        with browsing(cluster.http[1]) as browser:
            browser.open("#/cluster")
            until("all is shown", lambda: len(rows(browser, "Partitions")) == 3)
            until("the way there is", lambda: browser.ask(LINK))
            assert "3 brokers, 3 partitions, all in sync" in browser.text("main")
            assert cells(browser, "Partitions", f"orders-{own}")["Why"] == (
                "elected when the partition was created"
            )
            assert cells(browser, "Brokers", "1")["Broker"] == "1 controller"
            assert "No pending work." in browser.text("main")

            cluster.kill(3)
            moved = "the leader, broker 3, is no longer registered in ZooKeeper"
            until("it is said why", lambda: moved in why(browser, own), 60)
            row = cells(browser, "Partitions", f"orders-{own}")
            assert row["Leader"] in ("1", "2")
            assert row["Out of sync"].startswith("broker 3 for ")
            assert len(rows(browser, "Brokers")) == 2
            assert "3 offline or under-replicated" in browser.text("main")
            assert "cluster why" in browser.text(".command code")
            for size in (DESK, PHONE):
                browser.open("#/cluster", size=size)
                until("it is drawn", lambda: len(rows(browser, "Partitions")) == 3)
                assert violations(browser) == []
                width = browser.ask("return document.documentElement.scrollWidth")
                assert width <= size[0], size
            browser.complaints()


def why(browser: Browser, index: int) -> str:
    return cells(browser, "Partitions", f"orders-{index}")["Why"]


def test_standalone_broker_has_no_link_to_the_cluster_view(browser: Browser) -> None:
    browser.open("#/topics")
    until("the broker is known", lambda: browser.text("#where").startswith("broker "))
    assert not browser.ask(LINK)
