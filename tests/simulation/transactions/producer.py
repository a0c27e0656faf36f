"""Transactional producers with transaction.version 1 or 2, and their crashes.

A producer makes transactions (`Deed`) one after another: it writes records to some partitions,
commits offsets of its group, and sends EndTxn. As Kafka's clients do, it repeats an unanswered
request with the same bytes and sequence numbers. A second connection may repeat its commits around
the end of the transaction.

Sometimes its process crashes. The next process fences it with InitProducerId, which aborts the open
transaction. A `Zombie` is a process that was declared dead but continues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, cast

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    OPERATION_NOT_ATTEMPTED,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    REQUEST_TIMED_OUT,
    TRANSACTION_ABORTABLE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.errors import NAMES as ERROR_NAMES
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.simulation.transactions.ledger import Deed, Outcome, Place
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.transactions.ledger import Ledger
    from tests.simulation.transactions.second_connection import SecondConnection
    from tests.simulation.whole.living import LivingWorld


class Market(Protocol):
    """The interface through which a transactional client uses the simulation."""

    ledger: Ledger

    @property
    def wall_ms(self) -> int:
        """Returns the wall clock time of the producers in ms."""

    def ends(self) -> dict[Place, int]:
        """Returns the current log end offset of each partition."""

    def may_be_doubled(self, producer: TransactionalProducer, request: WireRequest) -> None:
        """Called when a producer sends a request. The simulation may deliver the request a second
        time, later."""


SOURCE = "out"
SOURCE_PARTITIONS = 3
OUT: tuple[Place, ...] = (("out", 0), ("out", 1), ("out", 2), ("more", 0))
TIMEOUT_S = 8
"""The transaction timeout of all producers, in seconds."""
_AGAIN = (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    UNKNOWN_TOPIC_OR_PARTITION,  # the topic is not created yet
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR,  # the disk of the broker is full
)
_FENCED = (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)


@dataclass
class Step:
    """One request of a transaction, with the state change that follows its success."""

    request: WireRequest
    done: Callable[[dict[str, Any]], None] = lambda _: None


@dataclass
class Standing:
    """The state of one producer process. A crash loses this state."""

    producer_id: int = -1
    epoch: int = -1
    sequences: dict[Place, int] = field(default_factory=dict)
    deed: Deed | None = None
    steps: list[Step] = field(default_factory=list)
    committed: WireRequest | None = None
    """The TxnOffsetCommit request of the current transaction if it was answered, or else None."""
    unsure: bool = False
    """True if the client abandoned a request and does not know its result. With transaction.version
    1, the producer then needs a new epoch."""


class TransactionalProducer(Client):
    """A producer with one transactional id."""

    def __init__(
        self, world: LivingWorld, name: str, host: str, chance: Random, rules: int
    ) -> None:
        super().__init__(world, name, host, chance)
        self.market = cast("Market", world)
        self.rules = rules
        self.group_id = f"group of {name}"
        self.transactional_id = f"id of {name}"
        self.state = Standing()
        self.zombie: Zombie | None = None
        self.second: SecondConnection | None = None
        self.made = 0
        """The number of transactions that the producer has started."""

    # -- the next request

    def act(self) -> None:
        state = self.state
        if not self.calm and self.chance.random() < 0.004:
            self._die()
            return
        if not self.calm and self.chance.random() < 0.006:
            self.drop_connection()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
            return
        if self.rules == 1 and not state.steps and self._is_heard_twice:
            self.think_after(1 * MS)  # its epoch is that of the next deed: a commit may arrive late
            return
        if state.producer_id < 0 or (state.unsure and state.deed is None):
            self._init()
            return
        if not state.steps:
            if self.has_done_enough:
                self.think_after(1 * S)
                return
            self._begin()
        step = state.steps[0]
        if self.chance.random() < 0.01 and not self.calm:
            self._commit_again(step, times=200, quickly=False)
            self.think_after(
                self.chance.choice((2, 6, 15)) * S
            )  # some exceed the transaction timeout
            return
        if self.second is not None and not self.calm and self.chance.random() < 0.3:
            self._commit_again(step, times=self.chance.choice((3, 10)), quickly=True)
        self.market.may_be_doubled(self, step.request)
        self.send(step.request, step)

    @property
    def has_done_enough(self) -> bool:
        """Returns True if the producer must not start another transaction."""
        return self.calm

    def excused(self, deed: Deed) -> bool:
        """Returns True if a fault of the simulation explains why the transaction ``deed`` failed.
        Otherwise the failure is a bug."""
        return self.market.ledger.excused(deed)

    @property
    def _is_heard_twice(self) -> bool:
        return self.second is not None and self.second.is_busy

    def _commit_again(self, step: Step, times: int, *, quickly: bool) -> None:
        """Repeats the last TxnOffsetCommit of the transaction on the producer's second connection,
        at about the time when the transaction ends."""
        state = self.state
        if self.second is not None and state.committed is not None and step is state.steps[-1]:
            self.second.repeat(state.committed, times, quickly=quickly)

    def _init(self) -> None:
        state = self.state
        value = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": TIMEOUT_S * 1000,
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
        }
        version = 4 if state.producer_id >= 0 else self.chance.randint(0, 4)
        if version < 3:
            del value["producer_id"], value["producer_epoch"]
        self.send(WireRequest("InitProducerId", version, value))

    def _die(self) -> None:
        """Ends the producer's process. With some probability, the old process continues as a
        zombie. A new process starts after a pause."""
        self.world.happened["producer died"] += 1
        before, self.state = self.state, Standing()
        if self.zombie is not None and self.chance.random() < 0.5:
            if before.deed is not None and before.deed.outcome is Outcome.OPEN:
                before.deed.outcome = Outcome.UNKNOWN  # the zombie may still commit
            self.zombie.rise(before)
        elif before.deed is not None:
            before.deed.given_up()
        if self.second is not None:
            self.second.dies()
        self.drop_connection()
        self.think_after(self.chance.choice((100 * MS, 1 * S, 5 * S)))

    def _dies_of(self, state: Standing) -> None:
        if self.state is state:
            self._die()
            pauses_s = (1,) if self.calm else (1, 2 * TIMEOUT_S, 8 * TIMEOUT_S)
            self.think_after(self.chance.choice(pauses_s) * S)

    # -- a deed

    def _begin(self) -> None:
        """Plans the requests of the next transaction."""
        state, chance = self.state, self.chance
        self.made += 1
        deed = Deed(self.name, self.made, self.rules)
        deed.producer_ids.add((state.producer_id, state.epoch))
        state.deed = self.market.ledger.begin(deed)
        places = chance.sample(OUT, chance.randint(1, len(OUT)))
        batches = [chance.choice(places) for _ in range(chance.randint(1, 4))]
        offsets = chance.random() < 0.6
        steps: list[Step] = []
        if self.rules == 1:
            touched = dict.fromkeys(batches)
            steps.append(Step(self._add_partitions(list(touched))))
            if offsets:
                value = {**self._who(), "group_id": self.group_id}
                steps.append(Step(WireRequest("AddOffsetsToTxn", chance.randint(0, 3), value)))
        index = 0
        for place in batches:
            count = chance.choice((1, 1, 2, 7))
            values = [deed.value(index + i) for i in range(count)]
            index += count
            steps.append(self._produce(deed, place, values))
        if offsets:
            moved = chance.sample(range(SOURCE_PARTITIONS), chance.randint(1, SOURCE_PARTITIONS))
            deed.offsets = dict.fromkeys(moved, deed.number)
            commit = self._commit_offsets(deed)

            def committed(_: dict[str, Any]) -> None:
                state.committed = commit

            steps.append(Step(commit, committed))
        if chance.random() < 0.9 or self.calm:
            steps.append(self._end(deed, committed=chance.random() < 0.7))
            state.steps = steps
        else:
            # A crash: the transaction timeout or the next process ends the transaction.
            nothing = WireRequest("Metadata", 4, {"topics": []})
            state.steps = [*steps, Step(nothing, lambda _: self._dies_of(state))]

    def _who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.state.producer_id,
            "producer_epoch": self.state.epoch,
        }

    def _add_partitions(self, places: list[Place]) -> WireRequest:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in places:
            by_topic.setdefault(topic, []).append(partition)
        who = {f"v3_and_below_{name}": value for name, value in self._who().items()}
        topics = [{"name": name, "partitions": ids} for name, ids in by_topic.items()]
        value = {**who, "v3_and_below_topics": topics}
        return WireRequest("AddPartitionsToTxn", self.chance.randint(0, 3), value)

    def _produce(self, deed: Deed, place: Place, values: list[bytes]) -> Step:
        state = self.state
        deed.parts.setdefault(place, []).extend(values)
        sequence = state.sequences.get(place, 0)
        state.sequences[place] = sequence + len(values)
        topic, partition = place
        records = [Record(i, self.market.wall_ms, None, value) for i, value in enumerate(values)]
        batch = encode_batch(
            records,
            base_offset=0,
            compression=self.chance.choice((0, 0, 0, 2)),
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [{"index": partition, "records": batch}]
        value = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [{"name": topic, "partition_data": data}],
        }
        version = 12 if self.rules == 2 else self.chance.randint(3, 11)
        return Step(WireRequest("Produce", version, value))

    def _commit_offsets(self, deed: Deed) -> WireRequest:
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_metadata": deed.metadata,
            }
            for partition, offset in deed.offsets.items()
        ]
        topics = [{"name": SOURCE, "partitions": partitions}]
        value = {**self._who(), "group_id": self.group_id, "topics": topics}
        version = 5 if self.rules == 2 else self.chance.randint(0, 4)
        return WireRequest("TxnOffsetCommit", version, value)

    def _end(self, deed: Deed, committed: bool) -> Step:
        state = self.state
        value = {**self._who(), "committed": committed}
        version = 5 if self.rules == 2 else self.chance.randint(0, 4)

        def ended(answer: dict[str, Any]) -> None:
            deed.outcome = Outcome.COMMITTED if committed else Outcome.ABORTED
            self.world.happened[f"TV{self.rules} {deed.outcome.value}"] += 1
            if self.rules == 2:
                _goes_on_with(state, answer["producer_id"], answer["producer_epoch"])
            self._forget(state)

        return Step(WireRequest("EndTxn", version, value), ended)

    def _forget(self, state: Standing) -> None:
        """Removes the finished transaction from ``state``."""
        if state.deed is not None:
            state.deed.given_up()
            if state.deed.outcome is not Outcome.COMMITTED or self.chance.random() < 0.1:
                state.unsure = state.unsure or self.rules == 1
        state.deed, state.steps, state.committed = None, [], None

    # -- responses

    def send(self, request: WireRequest, about: Any = None, expects_answer: bool = True) -> None:
        if request.name == "EndTxn" and request.value["committed"]:
            assert self.state.deed is not None
            self.state.deed.commit_asked = True
        super().send(request, about, expects_answer)

    def lost(self) -> None:
        self.state.unsure = self.state.unsure or self.rules == 1

    def leaves(self, sent: Sent, frame: bytes) -> None:
        if sent.request.name == "InitProducerId":
            answer = sent.answer_in(frame)
            if answer["error_code"] == NONE:
                producer_id, epoch = answer["producer_id"], answer["producer_epoch"]
                self.market.ledger.fence(producer_id, epoch, self.market.ends())

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.take(sent, sent.answer_in(frame))

    def take(self, sent: Sent, answer: dict[str, Any]) -> int:
        code = _worst(sent.request.name, answer)
        self.world.happened[f"{sent.request.name} {ERROR_NAMES[code]}"] += 1
        assert code != UNKNOWN_SERVER_ERROR, f"{self.name}: {sent.request} is answered -1"
        pause_ns = self.chance.choice((1, 5, 30, 200)) * MS
        if sent.request.name == "InitProducerId":
            if code == NONE:
                self.state = Standing(answer["producer_id"], answer["producer_epoch"])
            elif code in _FENCED:
                self.state = Standing()
        elif code == NONE:
            step: Step = sent.about
            if self.state.steps and self.state.steps[0] is step:
                self.state.steps.pop(0)
                step.done(answer)
                if self.wire is None:
                    return code  # the process has crashed
        elif code in _AGAIN:
            pause_ns = self.chance.choice((20, 100)) * MS
        else:
            self.failed(sent.request, code)
        self.think_after(pause_ns)
        return code

    def failed(self, request: WireRequest, code: int) -> None:
        """Abandons the transaction after an error that the producer cannot retry."""
        state, deed = self.state, self.state.deed
        assert deed is not None
        if code == OUT_OF_ORDER_SEQUENCE_NUMBER and not self.excused(deed):
            raise AssertionError(f"{self.name} sent all in order, and {request} is out of order")
        if code in _FENCED:
            deed.given_up()
            self.state = Standing()  # a timeout or another producer has fenced it
        elif code in (TRANSACTION_ABORTABLE, INVALID_TXN_STATE) and request.name != "EndTxn":
            assert self.rules == 1, f"{self.name}: {request.name} gets {ERROR_NAMES[code]}"
            state.steps = [self._end(deed, committed=False)]
        else:
            assert self.excused(deed), (
                f"{self.name}: {request.name} v{request.version} of deed {deed.number} gets"
                f" {ERROR_NAMES[code]}"
            )
            deed.given_up()
            self.state = Standing()


class Zombie(TransactionalProducer):
    """A producer process that was declared dead. It continues with its old state until it receives
    an error."""

    def __init__(self, of: TransactionalProducer, host: str, chance: Random) -> None:
        super().__init__(of.world, f"zombie of {of.name}", host, chance, of.rules)
        self.transactional_id, self.group_id = of.transactional_id, of.group_id

    def rise(self, state: Standing) -> None:
        """Makes the zombie continue with ``state``. This is the state of a producer process that
        was declared dead, but still runs."""
        self.state = state
        self.world.happened["zombie"] += 1
        if not self.sent:
            self.think_after(self.chance.choice((1 * MS, 300 * MS, 2 * S)))

    def act(self) -> None:
        state = self.state
        if not state.steps:
            self.state = Standing()
            self.think_after(5 * S)
            return
        self.send(state.steps[0].request, state.steps[0])

    def failed(self, request: WireRequest, code: int) -> None:
        if self.state.deed is not None:
            self.state.deed.given_up()
        self.state = Standing()


def _goes_on_with(state: Standing, producer_id: int, epoch: int) -> None:
    if (producer_id, epoch) != (state.producer_id, state.epoch):
        state.sequences.clear()
    state.producer_id, state.epoch = producer_id, epoch


def _worst(name: str, answer: dict[str, Any]) -> int:
    """Returns the error code of a response. All partitions of the response must have the same
    code."""
    codes: list[int]
    if name == "Produce":
        topics = answer["responses"]
        codes = [part["error_code"] for each in topics for part in each["partition_responses"]]
    elif name == "TxnOffsetCommit":
        codes = [part["error_code"] for each in answer["topics"] for part in each["partitions"]]
    elif name == "AddPartitionsToTxn":
        codes = [
            part["partition_error_code"]
            for each in answer["results_by_topic_v3_and_below"]
            for part in each["results_by_partition"]
        ]
    else:
        codes = [answer.get("error_code", NONE)]
    # A valid partition is not attempted when another partition fails.
    return next((code for code in codes if code not in (NONE, OPERATION_NOT_ATTEMPTED)), NONE)
