"""The views of transactions on the page: open and ended transactions, and the partitions and groups
that they block."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from selenium.webdriver.common.keys import Keys

from tests.broker.transactional_calls import hang
from tests.brokers import KIND
from tests.interop.cluster import Cluster, Feed
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser, browsing
from tests.page.conftest import PARTITIONS, TOPIC, cells, rows
from tests.page.scene import PageBroker, commit
from tests.waiting import until
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

ID = "billing-<b>1</b>"
PAGE = "#/transactions/billing-%3Cb%3E1%3C%2Fb%3E"
HELD = "Partitions blocked by an open transaction"
IDS = "Transactional ids"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    """Yields a broker that does not verify transactions (KIP-890), so that a transaction can
    hang."""
    broker = PageBroker(
        tmp_path_factory.mktemp("transactions") / "data",
        {"transaction.partition.verification.enable": "false"},
    )
    broker.start()
    Cluster(broker.bootstrap).create_topic(TOPIC, PARTITIONS)
    Feed(broker.bootstrap, TOPIC, PARTITIONS).send(10 * PARTITIONS)
    yield broker
    assert broker.stop() == 0, broker.tail()


@pytest.fixture(scope="module")
def chromium(broker: PageBroker) -> Iterator[Browser]:
    with browsing(broker.http) as browser:
        yield browser


def opened(broker: PageBroker, name: str, partition: int) -> Producer:
    """Returns a producer that has written three records in an open transaction."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "client.id": "till-2"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(TOPIC, b"x", partition=partition)
    assert producer.flush(30) == 0
    return producer


def test_transactions_view_shows_blocked_groups_until_the_transaction_ends(
    browser: Browser, broker: PageBroker
) -> None:
    browser.open("#/transactions")
    producer = opened(broker, ID, 0)
    commit(broker, "invoices", 10, TOPIC, 0)

    def waits() -> str | None:
        return cells(browser, HELD, f"{TOPIC}-0").get("Waiting groups")

    until("who waits", lambda: waits() == "invoices")
    row = cells(browser, HELD, f"{TOPIC}-0")
    assert (row["Blocked records"], row["From offset"], row["By"]) == ("3", "10", ID)
    assert row["Client"] == "till-2 on 127.0.0.1"
    row = cells(browser, IDS, ID)
    assert (row["State"], row["Partitions"], row["Blocked records"]) == ("Ongoing", "1", "3")
    assert "blocked" in browser.text(".title")

    browser.open(PAGE)
    until("its story", lambda: len(rows(browser, "Last transactions")) == 1)
    assert f"{TOPIC}:0 10 10 13 3 yes" in rows(browser, "Partitions")
    assert "Abort the transaction and fence" in browser.text("main")
    producer.commit_transaction(30)
    until("it ended", lambda: "committed, by its client" in browser.text("main"))
    story = cells(browser, "Last transactions", "1")
    assert story["Opened by"] == "till-2 on 127.0.0.1"
    assert story["Readers waited"].startswith(f"invoices at {TOPIC}:0 for ")
    assert rows(browser, "Partitions") == []

    browser.open("#/transactions")
    until("nothing is held back there", lambda: waits() is None)
    assert cells(browser, IDS, ID)["State"] == "Committed"


def test_hanging_transaction_is_shown_with_its_abort_command(
    browser: Browser, broker: PageBroker
) -> None:
    with Wire(broker.port) as wire:
        hang(wire, "gone", TOPIC, 1)
    browser.open("#/transactions")
    until(
        "it hangs",
        lambda: "hanging: no transactional id owns the transaction" in browser.text("main"),
    )
    text = browser.text(".command code")
    assert f"transactions abort --bootstrap {broker.bootstrap}" in text
    assert f"--topic {TOPIC}:1 --start-offset 10" in text


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_transaction_views_are_accessible_and_fit_the_screen_width(
    browser: Browser, broker: PageBroker, size: tuple[int, int], dark: bool
) -> None:
    name = f"wide-{size[0]}-{dark}-" + "x" * 120
    producer = opened(broker, name, 2)
    for view in ("#/transactions", f"#/transactions/{name}"):
        browser.open(view, size=size, dark=dark)
        until("it is drawn", lambda: browser.ask("return document.querySelector('td') !== null"))
        assert violations(browser) == [], view
        assert browser.ask("return document.documentElement.scrollWidth") <= size[0], view
    producer.abort_transaction(30)


def test_transactions_view_and_its_rows_are_reachable_with_the_keyboard(
    browser: Browser, broker: PageBroker
) -> None:
    opened(broker, "by-keys", 3).abort_transaction(30)
    browser.open("#/groups")
    browser.press("x")
    until("the list", lambda: browser.text("h1") == "Transactions")
    browser.open("#/transactions?q=by-keys")
    until("the row", lambda: len(rows(browser, IDS)) == 1)

    def walked() -> bool:
        browser.press("j")
        return browser.focused() == "by-keys"

    until("the focus is there", walked)
    browser.press(Keys.ENTER)
    until("opened", lambda: browser.text("h1") == "by-keys")
    browser.press(Keys.ESCAPE)
    until("up", lambda: browser.text("h1") == "Transactions")
