"""Every API says in its row what its requests need, in every table that a broker may have."""

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
def test_a_row_says_what_its_requests_need(row: ServedApi) -> None:
    rights = row.rights
    assert rights != UNSAID, "a row without rights lets everybody do everything"
    if rights.why_none:
        assert rights == Rights(why_none=rights.why_none)
