"""Tests of the page of a share group: its partitions, acquired records, and records that were
delivered again or archived."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from selenium.webdriver.common.keys import Keys

from tests.brokers import KIND
from tests.interop.cluster import Cluster, Feed
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser, browsing
from tests.page.conftest import TOPIC, cells, group_page, rows
from tests.page.scene import PageBroker
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

GROUP = "workers-<b>1</b>"
PAGE = group_page(GROUP)
SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.delivery.count.limit": "3",
}
HELD = "Records held by members"
AGAIN = "Records delivered again or archived"
RECORDS = 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    broker = PageBroker(tmp_path_factory.mktemp("shared") / "data", SETTINGS)
    broker.start()
    Cluster(broker.bootstrap).create_topic(TOPIC, 1)
    yield broker
    assert broker.stop() == 0, broker.tail()


@pytest.fixture(scope="module")
def chromium(broker: PageBroker) -> Iterator[Browser]:
    with browsing(broker.http) as browser:
        yield browser


class Worker:
    """A member of a share group that acknowledges each record explicitly."""

    def __init__(self, broker: PageBroker, group: str) -> None:
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "client.id": "worker-1",
                "share.acknowledgement.mode": "explicit",
            }
        )
        self.consumer.subscribe([TOPIC])
        self.records: list[Message] = []

    def has_records(self) -> bool:
        """Returns True if the member has unacknowledged records. Fetches records if it has none."""
        if not self.records:
            self.records = self.consumer.poll(0.2)
        return bool(self.records)

    def end(self, kinds: dict[int, AcknowledgeType]) -> None:
        """Acknowledges all fetched records. ``kinds`` has acknowledge types by offset; the default
        is ACCEPT."""
        for each in self.records:
            self.consumer.acknowledge(each, kinds.get(each.offset(), AcknowledgeType.ACCEPT))
        self.consumer.commit_sync()
        self.records = []


@pytest.fixture(scope="module")
def worker(broker: PageBroker) -> Iterator[Worker]:
    """Yields a member of a share group. It rejected its first record, released one record and
    acquired it again, and accepted all other records."""
    worker = Worker(broker, GROUP)
    feed = Feed(broker.bootstrap, TOPIC, 1)
    until("its first records", lambda: feed.send(1) and worker.has_records(), 60)
    first = worker.records[0].offset()
    rejected = {first: AcknowledgeType.REJECT}
    worker.end(rejected)
    feed.send(RECORDS)
    until("more records", worker.has_records, 60)
    worker.end({worker.records[0].offset(): AcknowledgeType.RELEASE})
    until("the released record", worker.has_records, 60)
    yield worker
    worker.end({})
    worker.consumer.close()


def test_page_of_a_share_group_shows_which_member_has_acquired_which_record(
    browser: Browser, broker: PageBroker, worker: Worker
) -> None:
    browser.open(PAGE)
    until("the record in hand", lambda: len(rows(browser, HELD)) == 1)
    offset = worker.records[0].offset()
    row = cells(browser, HELD, f"{TOPIC}-0-{offset}")
    assert (row["Partition"], row["Offsets"], row["Delivery"]) == (f"{TOPIC}:0", str(offset), "2")
    assert row["Held by"] == "#1 worker-1 on 127.0.0.1"
    until(  # within the first second the page shows "now"
        "the time since the delivery",
        lambda: cells(browser, HELD, f"{TOPIC}-0-{offset}")["Since"].endswith("ago"),
    )
    assert row["Lock ends in"].endswith(" s")
    assert "share group" in browser.text(".title")
    [member] = rows(browser, "Members")
    assert f"{TOPIC}:0 1 record" in member

    partition = cells(browser, "Share partitions", f"{TOPIC}-0")
    assert (partition["Start offset"], partition["Held"]) == (str(offset), "1")
    assert partition["Finished in flight"] == str(RECORDS - 1)

    rejected, released = rows(browser, AGAIN)[::-1]
    assert "archived: rejected" in rejected
    assert "#1 #1 worker-1 on 127.0.0.1 rejected it after" in rejected
    assert f"{TOPIC}:0 {offset} 2 held by a member" in released
    assert "#1 #1 worker-1 on 127.0.0.1 released it after" in released
    browser.ask("document.querySelector('details.commands').open = true")
    text = browser.text("main")
    assert f"muster share describe --bootstrap {broker.bootstrap}" in text
    assert f"muster share why --bootstrap {broker.bootstrap} '{GROUP}' {TOPIC}:0@" in text
    assert "groups reset" not in text


def test_list_of_groups_marks_share_groups(browser: Browser, worker: Worker) -> None:
    browser.open("#/groups")
    until("the group", lambda: len(rows(browser, "Consumer groups")) == 1)
    assert cells(browser, "Consumer groups", GROUP)["Group"] == f"{GROUP} share group"
    browser.press("j")
    browser.press(Keys.ENTER)
    until("its page", lambda: browser.text("h1") == GROUP)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_of_a_share_group_is_accessible_and_fits_the_screen_width(
    browser: Browser, worker: Worker, size: tuple[int, int], dark: bool
) -> None:
    for view in ("#/groups", PAGE):
        browser.open(view, size=size, dark=dark)
        until("it is drawn", lambda: browser.ask("return document.querySelector('td') !== null"))
        assert violations(browser) == [], view
        assert browser.ask("return document.documentElement.scrollWidth") <= size[0], view
