"""The requests of all modules of this folder, as one table."""

from __future__ import annotations

from tests.interop.secured.matrix import cells_of
from tests.interop.secured.table import cluster, groups, guards, records, topics, transactions

CELLS = cells_of(
    [
        *records.REQUESTS,
        *topics.REQUESTS,
        *groups.REQUESTS,
        *transactions.REQUESTS,
        *guards.REQUESTS,
        *cluster.REQUESTS,
    ]
)
TOPICS = {"open": 2, "shut": 1}
GROUPS = ["kept", "other"]
TRANSACTIONS = ["pay", "work"]
