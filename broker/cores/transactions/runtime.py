"""The runtime of transactional ids: its types, and the function that makes it."""

from __future__ import annotations

from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import HostedShard
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.kind import TRANSACTIONS
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from transactions.shard import TransactionShard

TransactionRuntime = Runtime[TransactionShard, TransactionDuties]
HostedTransactions = HostedShard[TransactionShard]
"""The shard for the transactional ids of one partition of ``__transaction_state``, with its log."""


def transaction_runtime(
    settings: RuntimeSettings,
    time: Time,
    slicer: Slicer,
    errors: InternalErrors | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    duties: type[TransactionDuties] = TransactionDuties,
) -> TransactionRuntime:
    """Returns a runtime without shards. In a cluster, ``duties`` is `ClusterTransactionDuties`."""
    return Runtime(TRANSACTIONS, duties, settings, time, slicer, errors, hooks)
