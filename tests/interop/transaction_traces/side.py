"""One broker in one trace: the state of the producers on this broker, and the requests of the
steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
)
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.interop.differential.wire import ANSWERED_WITHIN_S, Target, Wire
from tests.interop.transaction_traces.trace import AWAIT_ABORT, IDS, Step

PAUSE_S = 0.002
SETTLED_WITHIN_S = 8.0
STRANGER = 987_654_321
PASSING = (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
)
"""The errors that a broker returns while it is not ready. A Produce response then contains
NOT_ENOUGH_REPLICAS."""
UNSETTLED = ("PrepareCommit", "PrepareAbort")

Request = dict[str, Any]


@dataclass
class Producer:
    """The producer ids and epochs that a producer has received, and its sequence numbers."""

    given: list[tuple[int, int]] = field(default_factory=lambda: [(-1, -1)])
    sequences: dict[tuple[int, int, str, int], int] = field(default_factory=dict)
    """The number of accepted records. The key is producer id, epoch, topic and partition."""
    fresh: set[tuple[int, int, str, int]] = field(default_factory=set)
    """The partitions that have accepted records of the producer since its last InitProducerId or
    EndTxn. A key also has the producer id and the epoch, as in ``sequences``."""

    def claims(self, who: str, others: tuple[int, int]) -> tuple[int, int]:
        """Returns the producer id and epoch for a request. ``who`` selects them: the producer's
        own, an earlier or later epoch, those of another producer, or none."""
        producer_id, epoch = self.given[-1]
        match who:
            case "none":
                return -1, -1
            case "before":
                return producer_id, max(epoch - 1, 0)
            case "next":
                return producer_id, epoch + 1
            case "other":
                return (others[0] if others[0] >= 0 else STRANGER), max(epoch, 0)
            case _:
                return producer_id, epoch


@dataclass
class Side:
    """One broker in one trace."""

    target: Target
    name: str
    """The name of the trace. It is the prefix of the transactional ids, the group and the topics of
    the trace."""
    wire: Wire
    producers: list[Producer] = field(default_factory=lambda: [Producer() for _ in IDS])
    pid_names: dict[int, str] = field(default_factory=dict)

    def topic(self, word: str) -> str:
        return f"{self.name}-{word}"

    def transactional_id(self, actor: int) -> str:
        return f"{self.name}-{IDS[actor]}"

    async def ask(self, step: Step) -> dict[str, Any]:
        """Sends the request of a step, and repeats it while the broker is not ready. Returns the
        response."""
        if step.api == AWAIT_ABORT:
            await self._until(lambda state: state.startswith("CompleteAbort"), step.actor)
            return {}
        request = getattr(self, "_" + step.api)(step)
        answer: dict[str, Any] = {}
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                while True:
                    answer = await self.wire.send(step.api, step.version, request)
                    if not _codes(answer) & set(PASSING):
                        break
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.target.name}: {step} got only {answer}") from None
        self._learn(step, answer)
        return answer

    async def state(self, actor: int) -> str:
        """Returns the state of a producer's transactional id, or "Dead" if the id is unknown."""
        asked = {"transactional_ids": [self.transactional_id(actor)]}
        answer = await self.wire.send("DescribeTransactions", 0, asked)
        return answer["transaction_states"][0]["transaction_state"] or "Dead"

    async def end_offset(self, partition: tuple[str, int]) -> int:
        topic, index = partition
        asked = {"partition_index": index, "timestamp": -1}
        topics = [{"name": self.topic(topic), "partitions": [asked]}]
        request = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        answer = await self.wire.send("ListOffsets", 2, request)
        end: int = answer["topics"][0]["partitions"][0]["offset"]
        return end

    async def settle(self, actor: int) -> str:
        """Waits until all markers are written: a broker writes them after the EndTxn response.
        Returns the state of the transactional id."""
        return await self._until(lambda state: state not in UNSETTLED, actor)

    async def _until(self, holds: Callable[[str], bool], actor: int) -> str:
        """Waits until ``holds`` returns True for the state of the transactional id. Returns the
        last state."""
        for _ in range(int(SETTLED_WITHIN_S / PAUSE_S)):
            if holds(state := await self.state(actor)):
                break
            await asyncio.sleep(PAUSE_S)
        return state

    def _learn(self, step: Step, answer: dict[str, Any]) -> None:
        producer = self.producers[step.actor]
        if step.api in ("InitProducerId", "EndTxn") and answer.get("producer_id", -1) >= 0:
            given = (answer["producer_id"], answer["producer_epoch"])
            self.pid_names.setdefault(given[0], f"p{len(self.pid_names)}")
            producer.given.append(given)
        if step.api in ("InitProducerId", "EndTxn"):
            producer.fresh.clear()
        if step.api == "Produce" and self._kind(step) != "repeat":
            [topic] = answer["responses"]
            if topic["partition_responses"][0]["error_code"] == 0:
                key = self._key(step)
                last = {"gap": 9}.get(self._kind(step), 2)
                producer.sequences[key] = producer.sequences.get(key, 0) + last
                if self._kind(step) != "plain":
                    producer.fresh.add(key)

    def _kind(self, step: Step) -> str:
        """Returns the kind of a Produce step. A step of kind "repeat" repeats records that the
        producer has sent to the partition in its current transaction. If the producer has sent no
        such record, returns "next" instead."""
        kind: str = step.says["kind"]
        if kind == "repeat" and self._key(step) not in self.producers[step.actor].fresh:
            return "next"
        return kind

    # ------------------------------------------------------------------------------ requests

    def _owner(self, step: Step) -> Request:
        other = self.producers[2 if IDS[step.actor] == "x" else 0].given[-1]
        claims = self.producers[step.actor].claims(step.says["who"], other)
        return {
            "transactional_id": self.transactional_id(step.actor),
            "producer_id": claims[0],
            "producer_epoch": claims[1],
        }

    def _key(self, step: Step) -> tuple[int, int, str, int]:
        owner = self._owner(step)
        topic, partition = step.says["partition"]
        return owner["producer_id"], owner["producer_epoch"], topic, partition

    def _InitProducerId(self, step: Step) -> Request:
        asked = {**self._owner(step), "transaction_timeout_ms": step.says["timeout_ms"]}
        if step.version < 3 or asked["producer_id"] < 0:
            asked["producer_id"] = asked["producer_epoch"] = -1
        return asked

    def _AddPartitionsToTxn(self, step: Step) -> Request:
        owner = self._owner(step)
        named: dict[str, list[int]] = {}
        for topic, partition in step.says["partitions"]:
            named.setdefault(self.topic(topic), []).append(partition)
        topics = [{"name": name, "partitions": ids} for name, ids in named.items()]
        if step.version >= 4:
            verify = step.says.get("verify", False)
            return {"transactions": [{**owner, "verify_only": verify, "topics": topics}]}
        asked = {f"v3_and_below_{key}": value for key, value in owner.items()}
        return {**asked, "v3_and_below_topics": topics}

    def _AddOffsetsToTxn(self, step: Step) -> Request:
        return {**self._owner(step), "group_id": self.topic("g")}

    def _EndTxn(self, step: Step) -> Request:
        return {**self._owner(step), "committed": step.says["committed"]}

    def _TxnOffsetCommit(self, step: Step) -> Request:
        position = {
            "partition_index": 0,
            "committed_offset": step.says["offset"],
            "committed_metadata": "",
        }
        topics = [{"name": self.topic("t"), "partitions": [position]}]
        asked = {**self._owner(step), "group_id": self.topic("g"), "topics": topics}
        if step.version >= 3:
            asked |= {"generation_id": step.says["generation"], "member_id": ""}
        return asked

    def _Produce(self, step: Step) -> Request:
        owner, kind = self._owner(step), self._kind(step)
        topic, partition = step.says["partition"]
        accepted = self.producers[step.actor].sequences.get(self._key(step), 0)
        sequence = {"next": accepted, "repeat": max(accepted - 2, 0), "gap": accepted + 7}
        records = [Record(i, 1_000 + i, None, f"{accepted + i}".encode()) for i in range(2)]
        batch = encode_batch(
            records,
            base_offset=0,
            producer_id=owner["producer_id"] if owner["producer_id"] >= 0 else STRANGER,
            producer_epoch=max(owner["producer_epoch"], 0),
            base_sequence=sequence.get(kind, accepted),
            is_transactional=kind != "plain",
        )
        data = {"partition_data": [{"index": partition, "records": batch}]}
        named = self._named(topic, step.version >= 13, "name")
        transactional_id = None if kind == "plain" else owner["transactional_id"]
        asked = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 10_000}
        return {**asked, "topic_data": [{**named, **data}]}

    def _named(self, topic: str, by_id: bool, key: str) -> Request:
        name = self.topic(topic)
        return {"topic_id": self.target.topic_ids[name]} if by_id else {key: name}

    def _WriteTxnMarkers(self, step: Step) -> Request:
        topic, partition = step.says["partition"]
        producer_id, epoch = self.producers[step.actor].given[-1]
        marker = {
            "producer_id": producer_id if producer_id >= 0 else STRANGER,
            "producer_epoch": max(epoch, 0),
            "transaction_result": False,
            "topics": [{"name": self.topic(topic), "partition_indexes": [partition]}],
            "coordinator_epoch": 0,
        }
        return {"markers": [marker]}

    def _DescribeTransactions(self, step: Step) -> Request:
        return {"transactional_ids": [self.topic(each) for each in step.says["ids"]]}

    def _ListTransactions(self, step: Step) -> Request:
        producer_id, _ = self.producers[step.actor].given[-1]
        mine = [producer_id] if step.says["mine"] else []
        asked: Request = {"state_filters": step.says["states"], "producer_id_filters": mine}
        if step.version >= 1:
            asked["duration_filter"] = step.says["duration_ms"]
        if step.version >= 2:
            asked["transactional_id_pattern"] = f"{self.name}-.*"
        return asked

    def _DescribeProducers(self, step: Step) -> Request:
        topic, partition = step.says["partition"]
        return {"topics": [{"name": self.topic(topic), "partition_indexes": [partition]}]}

    def _Fetch(self, step: Step) -> Request:
        topic, partition = step.says["partition"]
        asked = {
            "partition": partition,
            "fetch_offset": step.says["offset"],
            "partition_max_bytes": 1 << 20,
        }
        named = self._named(topic, step.version >= 13, "topic")
        return {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "isolation_level": int(step.says["committed"]),
            "topics": [{**named, "partitions": [asked]}],
        }

    def _ListOffsets(self, step: Step) -> Request:
        topic, partition = step.says["partition"]
        asked = {"partition_index": partition, "timestamp": step.says["timestamp"]}
        return {
            "replica_id": -1,
            "isolation_level": int(step.says["committed"]),
            "topics": [{"name": self.topic(topic), "partitions": [asked]}],
        }

    def _OffsetFetch(self, step: Step) -> Request:
        group, stable = self.topic("g"), step.says["stable"]
        named = self._named("t", step.version >= 10, "name")
        topics = None if step.says["everything"] else [{**named, "partition_indexes": [0, 1]}]
        if step.version >= 8:
            return {"groups": [{"group_id": group, "topics": topics}], "require_stable": stable}
        return {"group_id": group, "topics": topics, "require_stable": stable}

    def _FindCoordinator(self, step: Step) -> Request:
        key_type = 0 if step.says["group"] else 1
        key = self.topic("g") if step.says["group"] else self.transactional_id(step.actor)
        if step.version >= 4:
            return {"key_type": key_type, "coordinator_keys": [key]}
        return {"key": key, "key_type": key_type}


def _codes(value: Any) -> set[int]:
    if isinstance(value, dict):
        own = {part for key, part in value.items() if key.endswith("error_code")}
        return own.union(*map(_codes, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(_codes, value))
    return set()
