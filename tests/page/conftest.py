"""Fixtures of a broker and of a browser that shows the broker's web page, and functions that read
this page."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.page.browser import Browser, browsing
from tests.page.scene import PageBroker
from tests.waiting import until

TOPIC = "orders"
INVOICES = "invoices"
PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    broker = PageBroker(tmp_path_factory.mktemp("page") / "data")
    broker.start()
    for topic in (TOPIC, INVOICES):
        Cluster(broker.bootstrap).create_topic(topic, PARTITIONS)
        Feed(broker.bootstrap, topic, PARTITIONS).send(10 * PARTITIONS)
    yield broker
    assert broker.stop() == 0, broker.tail()


@pytest.fixture(scope="module")
def chromium(broker: PageBroker) -> Iterator[Browser]:
    with browsing(broker.http) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Yields the shared browser. Fails the test if the browser's console has a message at the
    end."""
    chromium.complaints()
    yield chromium
    assert chromium.complaints() == []


def group_page(group: str) -> str:
    return "#/groups/" + quote(group, safe="")


def asked(broker: PageBroker, path: str) -> Any:
    with urllib.request.urlopen(f"http://{broker.http}{path}", timeout=10) as answer:
        return json.load(answer)


def rows(browser: Browser, heading: str) -> list[str]:
    """Returns the text of each row of the table with the caption ``heading``."""
    script = """
        const table = [...document.querySelectorAll('table')].find(
            (each) => each.caption && each.caption.textContent === arguments[0]);
        return table ? [...table.tBodies[0].rows].map((row) => row.innerText) : [];
    """
    found: list[str] = browser.ask(script, heading)
    return [" ".join(row.split()) for row in found]


def cells(browser: Browser, heading: str, key: str) -> dict[str, str]:
    """Returns the cells of the table row ``key`` by column title, or an empty dict if this row is
    missing."""
    script = """
        const table = [...document.querySelectorAll('table')].find(
            (each) => each.caption && each.caption.textContent === arguments[0]);
        const row = table && [...table.tBodies[0].rows].find(
            (each) => each.dataset.key === arguments[1]);
        return row ? [...row.cells].map((cell) => [cell.dataset.title, cell.innerText]) : [];
    """
    return {title: " ".join(text.split()) for title, text in browser.ask(script, heading, key)}


def settled(group: Group, broker: PageBroker, members: int) -> None:
    """Waits until a group is stable with ``members`` members and each member owns a partition."""
    path = f"/api/groups/{quote(group.name, safe='')}"
    until(
        f"{group.name} is stable with {members}",
        lambda: (
            (view := asked(broker, path))["state"] == "Stable"
            and len(view["members"]) == members
            and all(each["partitions"] for each in view["members"])
        ),
    )
