"""Each API in the broker's tables of served APIs declares the rights that requests need."""

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
def test_api_row_declares_the_rights_of_its_requests(row: ServedApi) -> None:
    rights = row.rights
    assert rights != UNSAID, "without declared rights any principal may send the request"
    if rights.why_none:
        assert rights == Rights(why_none=rights.why_none)
