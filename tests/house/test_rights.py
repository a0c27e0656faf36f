"""Each row in the broker's tables of served APIs declares the rights that a request of this API
needs."""

from __future__ import annotations

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.apis.tables.without_transactions import SERVED_WITHOUT_TRANSACTIONS
from broker.net.request import ServedApi
from broker.net.required_acls import UNSAID, Rights

ROWS = {
    f"{table}: {row.api.name}": row
    for table, rows in (
        ("alone", SERVED),
        ("in a cluster", SERVED_IN_CLUSTER),
        ("without transactions", SERVED_WITHOUT_TRANSACTIONS),
    )
    for row in rows.values()
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_row_of_the_api_tables_declares_the_rights_that_requests_need(row: ServedApi) -> None:
    rights = row.rights
    assert rights != UNSAID, "without declared rights any principal may send the request"
    if rights.why_none:
        assert rights == Rights(why_none=rights.why_none)
