"""Sends the markers of ending transactions, repeatedly, until each partition has its marker.

`MarkerSender` is the ticket that gets a `SendMarkers` reply once the Prepare record of a
transaction is stable. When all partitions have the marker, the sender notifies the shard, which
completes the transaction. A partition whose log is poisoned delays only transactions with this
partition. If the producer has a newer epoch in a partition, another writer has ended the
transaction there. The other partitions still get their markers, since no other writer would send
them.

A partition rejects a marker if it has had a marker of a higher coordinator epoch. In a standalone
broker, the shard then begins a higher epoch and sends the marker again (duties.py). In a cluster,
another broker coordinates and ends the transaction. Then this broker sends no more markers, and
does not complete the transaction, unless it is elected again.

Nothing is stored on disk. After a load the shard requests all markers again; a second marker in a
partition does no harm.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.cores.hosted_shard import Phase
from broker.cores.transactions.kind import StableLater, not_stable
from broker.cores.transactions.sending import Destination, Place, Sending
from broker.loop.slices import Slicer
from broker.time import Time
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from transactions.calls import MarkersRefused, MarkersWritten
from transactions.outcome import SendMarkers

if TYPE_CHECKING:
    from asyncio import Task

    from broker.cores.transactions.runtime import HostedTransactions, TransactionRuntime
    from transactions.shard import TransactionShard

logger = structlog.get_logger(__name__)

AT_ONCE = 16
"""The maximum number of markers that are sent for one transaction before markers of other
transactions are sent. Sending a marker takes about 50 us."""
RETRY_MS_FIRST = 50
RETRY_MS_MAX = 1000
"""The maximum pause in ms before a marker is sent again to a partition that has rejected it."""
REPORT_AFTER = 5
"""The number of failed attempts to send the markers of a transaction after which a log line reports
the transaction. These attempts take some seconds."""

_DONE = (NONE, UNKNOWN_TOPIC_OR_PARTITION)
"""The error codes after which a marker is not sent again: it was written, or the partition no
longer exists."""


class _Ticket:
    """The ticket of a marker, or of the call that completes a transaction."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[int], None]) -> None:
        self.take = take
        """The method of `MarkerSender` that is called with the error code of the reply."""


class MarkerSender:
    """Sends the markers of transactions. Only the event loop's thread may use this class."""

    def __init__(
        self,
        transactions: Callable[[], TransactionRuntime],
        destination_of: Callable[[str, int], Destination],
        slicer: Slicer,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
    ) -> None:
        """``transactions`` returns the runtime of transactional ids, which is made later than this
        object."""
        self._transactions = transactions
        self._destination_of = destination_of
        self._slicer = slicer
        self._time = time
        self._spawn = spawn
        self._sendings: dict[str, Sending] = {}
        self._queue: deque[Sending] = deque()
        """The transactions of which some markers can be sent now."""
        self._is_due = False
        """True if `ask_due` is scheduled for the next turn of the event loop."""
        self._worker: Task[None] | None = None
        self._stopped = False

    @property
    def sendings(self) -> Mapping[str, Sending]:
        """The transactions whose markers are being sent, by transactional id."""
        return self._sendings

    def late(self, transactional_id: str) -> tuple[Place, ...]:
        """Returns the partitions that rejected the transaction's marker in the last round."""
        sending = self._sendings.get(transactional_id)
        return () if sending is None else sending.late

    def take(self, reply: SendMarkers | StableLater | int) -> None:
        """Sends the markers of a transaction whose Prepare record is stable. For StableLater, waits
        until the record is stable.

        If ``reply`` is an error code, the record is not in the log, and no markers are sent.
        """
        if isinstance(reply, int):
            return
        markers = reply.markers if isinstance(reply, StableLater) else reply
        transactional_id = markers.transactional_id
        hosted = self._transactions().hosted_for(transactional_id)
        if hosted is None or self._stopped:
            return
        if isinstance(reply, StableLater):
            wait = partial(self._await_stable, markers, hosted, hosted.core)
            self._time.call_later(RETRY_MS_MAX / 1000, wait)
            return
        before = self._sendings.get(transactional_id)
        if before is not None and before.timer is not None:
            before.timer.cancel()
        sending = self._sendings[transactional_id] = Sending(markers, hosted)
        self._ask(sending)

    def _await_stable(
        self, markers: SendMarkers, hosted: HostedTransactions, core: TransactionShard
    ) -> None:
        """Passes ``markers`` to this sender as soon as the Prepare record is stable. The wait has
        no time limit.

        If the shard is loaded again during the wait, and the log contains the Prepare record, the
        loaded shard requests the markers again.
        """
        if hosted.core is core and hosted.phase is not Phase.UNLOADED and not self._stopped:
            hosted.partition.when_stable(hosted.accepted, [(self, markers)], not_stable)

    async def wait(self, transactional_id: str, at_most_s: float) -> None:
        """Waits until the transaction is complete, for at most ``at_most_s``."""
        sending = self._sendings.get(transactional_id)
        if sending is None:
            await self._time.sleep(at_most_s)
            return
        with suppress(TimeoutError):
            async with self._time.within(at_most_s):
                await sending.over.wait()

    def stop(self) -> None:
        """Stops sending markers. After the next start, the shards request the markers again."""
        self._stopped = True
        for sending in self._sendings.values():
            if sending.timer is not None:
                sending.timer.cancel()
        self._sendings.clear()
        self._queue.clear()

    # -- a round: one marker to each partition

    def _ask(self, sending: Sending) -> None:
        """Queues the markers of a transaction for the next round. A round sends one marker to each
        partition. It starts after the replies of this turn, at the latest in the next turn."""
        self._queue.append(sending)
        if self._worker is None and not self._is_due:
            self._is_due = True
            get_running_loop().call_soon(self.ask_due)

    def ask_due(self) -> None:
        """Sends the markers that are due: directly while the turn has time left, then in slices.

        The turn calls this method after it has sent its replies. Thus EndTxn is answered before its
        markers are written, but the markers are written before the client's next request arrives.
        """
        if not self._is_due:
            return
        self._is_due = False
        ticks_ns = self._time.ticks_ns
        until_ns = self._slicer.direct_until_ns()
        while self._queue and ticks_ns() < until_ns:
            self._ask_some(self._queue.popleft())
        if self._queue and self._worker is None:
            self._worker = self._spawn(self._ask_in_slices(), "markers")

    async def _ask_in_slices(self) -> None:
        slices = self._slicer.work("markers")
        try:
            await slices.pause()
            while self._queue:
                self._ask_some(self._queue.popleft())
                if slices.over:
                    await slices.pause()
        finally:
            slices.end()
            self._worker = None

    def _ask_some(self, sending: Sending) -> None:
        """Sends the next `AT_ONCE` markers of a transaction. If more are left, moves the
        transaction to the end of the queue."""
        if self._is_outdated(sending):
            return
        todo = sending.todo
        if not todo:
            self._round_over(sending)
            return
        for _ in range(min(AT_ONCE, len(todo))):
            place = todo.popleft()
            sending.waiting += 1
            ticket = _Ticket(partial(self._answered, sending, place))
            self._destination_of(*place).write(*place, sending.marker, ticket)
        if todo:
            self._queue.append(sending)

    def _answered(self, sending: Sending, place: Place, error_code: int) -> None:
        """Handles the error code that a partition returned for a marker."""
        sending.waiting -= 1
        if error_code == INVALID_PRODUCER_EPOCH:
            sending.refused = error_code
        elif error_code not in _DONE:
            sending.again[place] = error_code
        if not sending.waiting and not sending.todo:
            self._round_over(sending)

    def _round_over(self, sending: Sending) -> None:
        if self._is_outdated(sending):
            return
        if not sending.again:
            self._submit_result(sending)
            return
        sending.rounds += 1
        sending.late = tuple(sending.again)
        if sending.rounds == REPORT_AFTER:
            (topic, partition), error_code = next(iter(sending.again.items()))
            logger.warning(
                "transaction marker not accepted by partitions, retrying",
                transactional_id=sending.markers.transactional_id,
                partitions=len(sending.again),
                partition=f"{topic}-{partition}",
                error_code=error_code,
            )
        if TRANSACTION_COORDINATOR_FENCED not in sending.again.values():
            self._later(sending, self._ask_again)
        elif self._transactions().duties.others_coordinate:
            self._give_way(sending)
        else:
            self._outrank(sending)
            self._later(sending, self._ask_again)

    def _give_way(self, sending: Sending) -> None:
        """Stops sending a transaction's markers. Called when a partition already has a marker with
        a higher coordinator epoch, which another broker wrote.

        If this broker is elected again, its epoch is higher, and it sends the markers again.
        """
        if sending.hosted.leader_epoch > sending.marker.coordinator_epoch:
            self._ask_again(sending)
            return
        if sending.rounds < REPORT_AFTER:
            sending.rounds = REPORT_AFTER
            logger.warning(
                "transaction marker superseded by another coordinator, not sent again",
                transactional_id=sending.markers.transactional_id,
                partition=sending.hosted.partition.name,
                epoch=sending.marker.coordinator_epoch,
            )
        self._later(sending, self._give_way)

    def _outrank(self, sending: Sending) -> None:
        """Makes the shard begin a new epoch. It is higher than every coordinator epoch that is
        known to a partition that rejected one of the markers."""
        producer_id = sending.markers.producer_id
        known = [
            self._destination_of(*place).coordinator_epoch(*place, producer_id)
            for place, error_code in sending.again.items()
            if error_code == TRANSACTION_COORDINATOR_FENCED
        ]
        transactions, hosted = self._transactions(), sending.hosted
        if transactions.duties.outranks(hosted, max(known)):
            transactions.renew(hosted)

    def _ask_again(self, sending: Sending) -> None:
        epoch = sending.hosted.leader_epoch
        sending.marker = sending.marker._replace(coordinator_epoch=epoch)
        sending.todo.extend(sending.again)
        sending.again.clear()
        self._ask(sending)

    def _later(self, sending: Sending, work: Callable[[Sending], None]) -> None:
        wait_ms = min(RETRY_MS_FIRST << min(sending.rounds, 10), RETRY_MS_MAX)

        def due() -> None:
            sending.timer = None
            if not self._is_outdated(sending):
                work(sending)

        sending.timer = self._time.call_later(wait_ms / 1000, due)

    # -- the end

    def _submit_result(self, sending: Sending) -> None:
        """Reports to the shard that all markers were written, or that a marker was refused."""
        markers = sending.markers
        names = (markers.transactional_id, markers.producer_id, markers.producer_epoch)
        ticket = _Ticket(partial(self._completed, sending))
        call = (
            MarkersRefused(ticket, *names, sending.refused)
            if sending.refused
            else MarkersWritten(ticket, *names)
        )
        self._transactions().submit(markers.transactional_id, call)

    def _completed(self, sending: Sending, error_code: int) -> None:
        """Handles the shard's reply to `_submit_result`.

        If the log of the shard accepts no writes, submits the result again later. Any other reply
        ends the work for these markers, even an error. After an unload, the shard's next load
        requests the markers again. After a timeout, the result is in the log but not stable. It
        must not be written again, because the next transaction may have started.
        """
        if self._is_outdated(sending):
            return
        if error_code and sending.hosted.phase is Phase.UNWRITABLE:
            sending.rounds += 1
            self._later(sending, self._submit_result)
        else:
            del self._sendings[sending.markers.transactional_id]
            sending.over.set()

    def _is_outdated(self, sending: Sending) -> bool:
        """Returns True if the markers of ``sending`` must no longer be sent, because the shard has
        requested the same markers again, or because the shard was unloaded."""
        transactional_id = sending.markers.transactional_id
        if self._sendings.get(transactional_id) is not sending:
            return True
        if sending.hosted.phase is Phase.UNLOADED:
            del self._sendings[transactional_id]
            return True
        return False
