"""Every API says in its row what its requests need, in every table that a broker may have."""

from __future__ import annotations

import pytest

from broker.apis.cluster_table import SERVED_IN_CLUSTER
from broker.apis.guard.guard import OWN
from broker.apis.table import SERVED
from broker.apis.without_transactions import SERVED_WITHOUT_TRANSACTIONS
from broker.net.needs import UNSAID
from broker.net.request import ServedApi

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
    assert not (rights.why_none and (rights.needs or rights.each or rights.hides or rights.own))
    if rights.own and not rights.is_in_handler:
        assert row.api.key in OWN


def test_code_of_an_apis_own_is_said_in_its_row() -> None:
    said = {key for key, row in SERVED.items() if row.rights.own and not row.rights.is_in_handler}
    assert said == set(OWN)
