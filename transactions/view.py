"""Read access to a shard of transactional ids: `TransactionView`, DescribeTransactions and
ListTransactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from protocol.errors import NONE, TRANSACTIONAL_ID_NOT_FOUND
from transactions.add_partitions import verify
from transactions.calls import DescribeTransaction, ListTransactions
from transactions.outcome import DescribeReply, ListedTransaction, ListReply
from transactions.step import ShardState, Step
from transactions.tables import DESCRIBE
from transactions.transaction import Transaction


class TransactionView:
    """A read-only view of a shard. The view copies no state."""

    __slots__ = ("_state", "transactions")

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.transactions: Mapping[str, Transaction] = MappingProxyType(state.transactions)

    def known(self) -> int:
        """The number of transactional ids, also valid during a load."""
        return len(self._state.transactions)

    def live_records(self) -> int:
        """Returns the number of records in the log that no later record supersedes."""
        return len(self._state.transactions)

    def get(self, transactional_id: str) -> Transaction | None:
        """Returns the current state of a transactional id, or None for an unknown id."""
        return self._state.transactions.get(transactional_id)

    def open(self) -> Iterator[str]:
        """Yields the ids in ONGOING and PREPARE_*, in the order in which their transactions
        began."""
        return iter(self._state.open)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int
    ) -> int:
        """Returns NONE if a batch of this producer may be appended to this partition now.

        Otherwise returns the error of the first failed check: INVALID_PRODUCER_ID_MAPPING,
        PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or TRANSACTION_ABORTABLE.
        """
        transaction = self._state.transactions.get(transactional_id)
        return verify(transaction, producer_id, epoch, topic, partition)


def describe_transaction(step: Step, call: DescribeTransaction) -> DescribeReply:
    transaction = step.state.transactions.get(call.transactional_id)
    error = TRANSACTIONAL_ID_NOT_FOUND if transaction is None else DESCRIBE[transaction.state]
    if transaction is None or error != NONE:
        return DescribeReply(error, call.transactional_id)
    value = transaction.value
    return DescribeReply(
        NONE,
        call.transactional_id,
        value.state.wire_name,
        value.timeout_ms,
        value.start_ms,
        value.producer_id,
        value.producer_epoch,
        value.partitions,
    )


def list_transactions(step: Step, call: ListTransactions) -> ListReply:
    """Lists the transactions of one shard.

    An id without a transaction has start time -1. As in Kafka, it therefore counts as open for
    longer than any duration.
    """
    began_before_ms = step.now.wall_ms - call.duration_ms
    known = step.state.transactions
    among = known.values() if call.among is None else filter(None, map(known.get, call.among))
    listed = [
        ListedTransaction(each.transactional_id, each.producer_id, each.state.wire_name)
        for each in among
        if DESCRIBE[each.state] == NONE
        and (not call.states or each.state.wire_name in call.states)
        and (not call.producer_ids or each.producer_id in call.producer_ids)
        and (call.duration_ms < 0 or each.start_ms < began_before_ms)
    ]
    return ListReply(NONE, listed)
