"""Checks the invariants of a shard of transactional ids."""

from __future__ import annotations

from protocol.deadlines import NEVER
from protocol.records.batch import PRODUCER_EPOCH_MAX
from transactions.shard import TransactionShard
from transactions.states import OPEN, PREPARED, State
from transactions.values import NO_PRODUCER_ID, NO_TIMEOUT_MS


def check_shard(shard: TransactionShard) -> None:
    """Asserts that each transactional id has the fields and the deadlines that its state
    requires."""
    transactions = shard.view.transactions
    assert set(shard.view.open()) == {
        name for name, each in transactions.items() if each.state in OPEN
    }
    for name, each in transactions.items():
        assert each.transactional_id == name
        value = each.value
        assert value.state is not State.DEAD
        assert 0 <= value.producer_epoch <= PRODUCER_EPOCH_MAX
        assert (value.start_ms >= 0) == (value.state is not State.EMPTY)
        assert not value.partitions or value.state in OPEN
        assert value.next_producer_id == NO_PRODUCER_ID or value.state in PREPARED
        due_ms = NEVER if each.timeout is None else each.timeout.due_ms
        timed = value.state is State.ONGOING and value.timeout_ms != NO_TIMEOUT_MS
        if timed:
            assert due_ms >= value.start_ms + value.timeout_ms + 1
        assert (due_ms != NEVER) == timed
        idle = value.state not in OPEN
        assert each.due_ms == (value.last_update_ms if idle else NEVER)
