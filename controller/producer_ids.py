"""AllocateProducerIds: allocates blocks of 1000 producer ids by conditional writes of
`/latest_producer_id_block`."""

from __future__ import annotations

from collections import deque

from controller.calls import AllocateProducerIds
from controller.facts import ProducerIdsRead, Result, WriteResult
from controller.outcome import ProducerIdsReply, ReadProducerIds, SetProducerIds
from controller.work import Work
from protocol import errors

BLOCK = 1000
LAST_ID = 2**63 - 1


class ProducerIds:
    """Allocates blocks of producer ids to brokers that request a block, one broker at a time."""

    __slots__ = ("_node", "_waiting", "_work", "_working")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._waiting: deque[tuple[int, int]] = deque()
        """For each broker that waits for a block: the number of its parked ticket, and its broker
        id."""
        self._node: ProducerIdsRead | None = None
        """The content of the znode when it was last read or written; None if the znode must be
        read."""
        self._working = False
        """True while the znode is being read or written."""

    def allocate(self, call: AllocateProducerIds) -> None:
        """Allocates the next block to a broker. The reply is sent after the block was written to
        the znode."""
        work = self._work
        broker = work.cluster.brokers.get(call.broker_id)
        if broker is None:
            work.reply(call.ticket, ProducerIdsReply(errors.BROKER_ID_NOT_REGISTERED))
        elif broker.epoch != call.broker_epoch:
            work.reply(call.ticket, ProducerIdsReply(errors.STALE_BROKER_EPOCH))
        else:
            number = work.park(call.ticket, ProducerIdsReply(errors.NOT_CONTROLLER))
            self._waiting.append((number, call.broker_id))
            self._next()

    def read(self, node: ProducerIdsRead) -> None:
        self._node = node
        self._working = False
        self._next()

    def unknown(self) -> None:
        """Rejects the requests of the waiting brokers because the znode can't be read. The next
        request of a broker reads the znode again."""
        self._working = False
        waiting, self._waiting = self._waiting, deque()
        for number, _ in waiting:
            self._work.answer(number, ProducerIdsReply(errors.COORDINATOR_LOAD_IN_PROGRESS))

    def _next(self) -> None:
        if self._working or not self._waiting:
            return
        self._working = True
        if self._node is None:
            self._work.read(ReadProducerIds())
            return
        number, broker_id = self._waiting.popleft()
        first = self._node.block_end + 1
        last = first + BLOCK - 1
        if last > LAST_ID:
            self._working = False
            self._work.answer(number, ProducerIdsReply(errors.UNKNOWN_SERVER_ERROR))
            self._next()
            return
        write = SetProducerIds(
            self._work.number(), broker_id, first, last, self._node.znode_version
        )

        def landed(result: WriteResult) -> None:
            self._working = False
            if result.result is Result.OK:
                self._node = ProducerIdsRead(last, result.version)
                self._work.answer(number, ProducerIdsReply(errors.NONE, first, BLOCK))
            else:
                self._node = None
                self._waiting.appendleft((number, broker_id))
            if result.result is Result.FAILED:
                self._work.retry(self._next)
            else:
                self._next()

        self._work.write(write, landed)
