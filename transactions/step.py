"""One step of a shard: the state that it works on, and its outcome so far."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.now import Now
from transactions.calls import BROKER, TV1, TV2, Client, Partitions, Ticket
from transactions.config import TransactionConfig
from transactions.events import Cause, Event, Transition
from transactions.outcome import Outcome, Reply, SendMarkers
from transactions.record_codec import run_bytes_at_most
from transactions.states import PREPARED, State
from transactions.transaction import Transaction
from transactions.values import NO_EPOCH, TransactionRun, TransactionValue

BATCH_HEADER_BYTES = 61


class ShardState:
    """What a shard remembers."""

    __slots__ = ("config", "open", "transactions")

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        """Written by ``replay`` alone."""
        self.open: dict[str, Transaction] = {}
        """Those in ONGOING and PREPARE_*, in the order in which they began."""

    @property
    def server_rules(self) -> int:
        """Those of ends that no client asked for."""
        return TV2 if self.config.transaction_version >= TV2 else TV1


class Step:
    """The work on one call: handlers read ``state`` and ``now`` and say what follows."""

    __slots__ = ("events", "now", "records", "replies", "state")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.state = state
        self.now = now
        self.records: list[TransactionRun] = []
        self.replies: list[tuple[Ticket, Reply]] = []
        self.events: list[Event] = []

    def outcome(self) -> Outcome:
        """All that was collected, in order."""
        return Outcome(self.records, self.replies, self.events)

    def reply(self, ticket: Ticket, reply: Reply) -> None:
        """Answers a call."""
        self.replies.append((ticket, reply))

    def fits(self, transactional_id: str, partitions: Partitions) -> bool:
        """Whether all records of a transaction with these partitions can be written."""
        room = self.state.config.max_record_bytes - BATCH_HEADER_BYTES
        return run_bytes_at_most(transactional_id, partitions) <= room

    def write(
        self,
        transactional_id: str,
        value: TransactionValue | None,
        last_epoch: int = NO_EPOCH,
        client: Client = BROKER,
    ) -> None:
        """Lets a transactional id have another value, or be gone."""
        version = 1 if self.state.config.transaction_version else 0
        run = TransactionRun(transactional_id, value, version, last_epoch, client)
        self.records.append(run)

    def tell(
        self,
        transactional_id: str,
        old: TransactionValue | None,
        new: TransactionValue,
        cause: Cause,
        detail: str,
        client: Client = BROKER,
        since_prepare_ms: int = -1,
    ) -> None:
        """Emits the transition."""
        touched: Sequence[tuple[str, Sequence[int]]] = new.partitions or (
            old.partitions if old is not None else ()
        )
        in_transaction = new.state is not State.EMPTY and new.start_ms >= 0
        self.events.append(
            Transition(
                transactional_id,
                None if old is None else old.state,
                new.state,
                new.producer_id,
                new.producer_epoch,
                cause,
                detail,
                client,
                sum(len(ids) for _, ids in touched),
                self.now.wall_ms - new.start_ms if in_transaction else -1,
                since_prepare_ms,
            )
        )

    def send_markers(self, transactional_id: str, value: TransactionValue) -> None:
        """Gives the markers of a Prepare record to the sender, behind all replies so far."""
        self.reply(self.state.config.marker_sender, markers_of(transactional_id, value))


def markers_of(transactional_id: str, value: TransactionValue) -> SendMarkers:
    """The markers of a Prepare record."""
    assert value.state in PREPARED
    return SendMarkers(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.state is State.PREPARE_COMMIT,
        TV2 if value.client_rules >= TV2 else TV1,
        value.partitions,
    )
