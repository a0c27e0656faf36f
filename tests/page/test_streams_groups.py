"""The page shows the tasks of the members of a streams group (KIP-1071)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import KIND
from tests.interop.cluster import Cluster
from tests.interop.streams_group_side import JOINING, heartbeat
from tests.interop.streams_topologies import subtopology, topology
from tests.page.browser import Browser
from tests.page.conftest import INVOICES, group_page, rows
from tests.page.scene import PageBroker
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]


def test_page_shows_the_tasks_of_a_member(browser: Browser, broker: PageBroker) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.call("FindCoordinator", 0, key="counts")
    joining = {**JOINING, "topology": topology(subtopology("0", INVOICES))}

    def beat(epoch: int, **fields: Any) -> dict[str, Any]:
        reply = cluster.call(
            "StreamsGroupHeartbeat", 0, **heartbeat("counts", "m1", epoch, **fields)
        )
        assert not reply["error_code"], reply
        return reply

    epoch = until("the member has joined", lambda: beat(0, **joining)["member_epoch"])
    until("the member has tasks", lambda: beat(epoch)["active_tasks"])
    browser.open(group_page("counts"))
    until("the member is shown", lambda: len(rows(browser, "Members")) == 1)
    [member] = rows(browser, "Members")
    assert "tasks 0_0, 0_1" in member, member
