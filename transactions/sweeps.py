"""Work that no client requests: transactions are aborted after their timeout, and unused
transactional ids are removed.

The monotonic clock schedules the checks. Whether an id is due depends on the wall times in the
records, so the time in which the broker was down counts.
"""

from __future__ import annotations

from protocol.now import Now
from transactions.end_txn import abort_fenced
from transactions.events import Cause
from transactions.record_codec import run_bytes_at_most
from transactions.states import State
from transactions.step import ShardState, Step


class Sweeps:
    """The times of two checks of a shard, in monotonic milliseconds: the next check for
    transactions to abort, and the next check for transactional ids to remove."""

    __slots__ = ("abort_at_ms", "expire_at_ms")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.abort_at_ms = now.mono_ms + state.config.abort_interval_ms
        self.expire_at_ms = now.mono_ms + state.config.expire_interval_ms

    def work(self, step: Step, budget: int) -> None:
        """Does due work for at most ``budget`` transactional ids. The next call continues with the
        other due work."""
        config = step.state.config
        if self.abort_at_ms <= step.now.mono_ms:
            budget -= _abort(step, budget)
            if budget <= 0:
                return
            self.abort_at_ms = step.now.mono_ms + config.abort_interval_ms
        if self.expire_at_ms <= step.now.mono_ms and _expire(step, budget):
            self.expire_at_ms = step.now.mono_ms + config.expire_interval_ms


def _abort(step: Step, budget: int) -> int:
    """Aborts transactions whose timeout has passed. Checks at most ``budget`` timers, and returns
    the number of checked timers."""
    timeouts, now_ms = step.state.timeouts, step.now.wall_ms
    looked_at = 0
    while looked_at < budget:
        due_ms = timeouts.next_ms
        if due_ms is None or due_ms > now_ms:
            break
        looked_at += 1
        timeout = timeouts.pop(now_ms)
        if timeout is None:
            continue
        transaction = timeout.transaction
        detail = (
            f"open for {now_ms - transaction.start_ms} ms, but transaction.timeout.ms is"
            f" {transaction.timeout_ms}"
        )
        _, value = abort_fenced(step, transaction, Cause.TIMEOUT, detail)
        if value is None:  # no producer id is in reserve: the next sweep retries
            timeouts.arm(timeout, now_ms + step.state.config.abort_interval_ms)
    return looked_at


def _expire(step: Step, budget: int) -> bool:
    """Removes ids that were unused for transactional.id.expiration.ms.

    Removes at most ``budget`` ids, and only as many as fit into one batch. Returns True if no such
    id remains.
    """
    state = step.state
    cutoff_ms = step.now.wall_ms - state.config.expiration_ms
    room = step.room
    for _ in range(budget):
        used_ms = state.expiries.next_ms
        if used_ms is None or used_ms > cutoff_ms:
            return True
        transaction = state.expiries.pop(cutoff_ms)
        if transaction is None:
            continue
        value = transaction.value
        room -= run_bytes_at_most(transaction.transactional_id, ())
        step.write(transaction.transactional_id, None)
        detail = f"unused for {step.now.wall_ms - value.last_update_ms} ms"
        dead = value._replace(state=State.DEAD)
        step.moved(transaction.transactional_id, value, dead, Cause.EXPIRED, detail)
        if room < run_bytes_at_most("", ()) + 0x7FFF:
            return False  # the next tombstone may not fit in the batch
    return False
