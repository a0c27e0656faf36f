"""Clients on plain sockets, for requests that client libraries do not send. Each client records its
results.

The clients act one at a time, in the thread of the scenario.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
)
from tests.pipeline.truth.told import (
    ABORTED,
    COMMITTED,
    Commit,
    Deletion,
    Generation,
    Person,
    Told,
    Transaction,
)
from tests.waiting import until
from tests.wire import Wire

LONG_MS = 300_000
"""A session timeout in ms that is longer than the scenario, so that no heartbeats are needed."""
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
TRY_AGAIN = {14, 15, 16, 51}
"""Error codes after which a client retries: the coordinator is loading or not available, or is
still ending the previous transaction."""

Offsets = Mapping[tuple[str, int], int]


class Asker:
    """A connection to the broker that records the results of requests."""

    def __init__(self, told: Told, port: int, client_id: str = "asker") -> None:
        self.told = told
        self.wire = Wire(port, client_id)

    def ask(self, name: str, version: int, **value: Any) -> dict[str, Any]:
        """Sends a request. Repeats the request while the response has an error of TRY_AGAIN."""

        def asked() -> dict[str, Any] | None:
            answer = self.wire.call(name, version, value)
            return None if answer.get("error_code") in TRY_AGAIN else answer

        return until(f"{name} is answered", asked, tolerate=())

    def commit(
        self,
        group: str,
        offsets: Offsets,
        metadata: str = "",
        member_id: str = "",
        generation: int = -1,
        by: str | None = None,
    ) -> None:
        """Sends an OffsetCommit without a transaction. The request is from a member if
        ``member_id`` is given."""
        commits = _commits(group, offsets, metadata, by=by)
        with self.told.span(*commits):
            answer = self.ask(
                "OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=generation,
                member_id=member_id, group_instance_id=None, topics=_topics(offsets, metadata),
            )  # fmt: skip
            _check(answer["topics"])

    def forget(self, group: str, topic: str, partition: int) -> None:
        with self.told.span(Commit(group=group, topic=topic, partition=partition)):
            topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
            answer = self.ask("OffsetDelete", 0, group_id=group, topics=topics)
            assert answer["error_code"] == 0, answer
            _check(answer["topics"])

    def until_marked(self, transactional_id: str) -> None:
        """Waits until the state of a transaction is Complete. The broker responds to EndTxn before
        it writes the markers."""

        def marked() -> bool:
            answer = self.ask("DescribeTransactions", 0, transactional_ids=[transactional_id])
            [found] = answer["transaction_states"]
            return str(found["transaction_state"]).startswith("Complete")

        until("the markers are written", marked, tolerate=())

    def delete(self, group: str) -> None:
        """Sends DeleteGroups. The group must not have members."""
        deletion = Deletion(group=group)
        with self.told.span(deletion):
            answer = self.ask("DeleteGroups", 1, groups_names=[group])
            assert answer["results"][0]["error_code"] == 0, answer


class Producer(Asker):
    """A transactional producer that writes only offsets and no records."""

    def __init__(self, told: Told, port: int, transactional_id: str) -> None:
        super().__init__(told, port)
        self.transactional_id = transactional_id
        self.ask("FindCoordinator", 2, key=transactional_id, key_type=1)
        made = self.ask(
            "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=LONG_MS
        )
        assert made["error_code"] == 0, made
        self.producer_id, self.epoch = made["producer_id"], made["producer_epoch"]
        self.transaction: Transaction | None = None

    def begin(self) -> None:
        number = 1 + len(self.told.of(Transaction))
        self.transaction = Transaction(number=number, producer_id=self.producer_id)
        self.told.facts.append(self.transaction)

    def send(self, group: str, offsets: Offsets, metadata: str = "", *, modern: bool) -> None:
        """Sends TxnOffsetCommit. If ``modern`` is True, the request is that of a client with
        transaction.version 2."""
        assert self.transaction is not None
        who = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "group_id": group,
        }
        if not modern:
            assert self.ask("AddOffsetsToTxn", 3, **who)["error_code"] == 0
        commits = _commits(group, offsets, metadata, transaction=self.transaction.number)
        with self.told.span(*commits):
            version = 5 if modern else 3
            topics = _topics(offsets, metadata)

            def sent() -> bool:
                answer = self.ask("TxnOffsetCommit", version, **who, topics=topics)
                codes = {p["error_code"] for t in answer["topics"] for p in t["partitions"]}
                assert codes <= {0, *TRY_AGAIN}, answer
                return codes == {0}

            until("the offsets are taken", sent, tolerate=())

    def end(self, *, commit: bool, modern: bool = False) -> None:
        """Sends EndTxn, and waits until the markers are written."""
        transaction = self.transaction
        assert transaction is not None
        self.told.facts.remove(transaction)
        transaction.outcome = COMMITTED if commit else ABORTED
        with self.told.span(transaction):
            answer = self.ask(
                "EndTxn", 5 if modern else 3, transactional_id=self.transactional_id,
                producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit,
            )  # fmt: skip
            assert answer["error_code"] == 0, answer
            if modern:
                self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
            self.until_marked(self.transactional_id)


class Member(Asker):
    """A member of a classic group. It sends a heartbeat only when the scenario requests one, never
    by itself."""

    def __init__(
        self,
        told: Told,
        port: int,
        group: str,
        client_id: str,
        topics: Sequence[str],
        instance: str | None = None,
        session_ms: int = LONG_MS,
    ) -> None:
        super().__init__(told, port, client_id)
        self.group, self.client_id, self.topics = group, client_id, list(topics)
        self.instance, self.session_ms = instance, session_ms
        self.member_id, self.generation = "", -1
        self.held: dict[str, list[int]] = {}

    @property
    def person(self) -> Person:
        """Returns the member with its ids and partitions, as a `Person`."""
        return Person(self.member_id, self.client_id, self.instance, dict(self.held))

    def join(self) -> int:
        """Sends JoinGroup without waiting for the response, which arrives when all members have
        joined."""
        if not self.member_id and self.instance is None:
            asked = self.ask("JoinGroup", 7, **self._join())
            assert asked["error_code"] == MEMBER_ID_REQUIRED, asked
            self.member_id = asked["member_id"]
        return self.wire.send("JoinGroup", 7, self._join())

    def _join(self) -> dict[str, Any]:
        subscription = encode_subscription(self.topics)
        return {
            "group_id": self.group, "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": LONG_MS, "member_id": self.member_id,
            "group_instance_id": self.instance, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription}],
        }  # fmt: skip

    def joined(self) -> dict[str, Any]:
        answer = self.wire.receive()[1]
        assert answer["error_code"] == 0, answer
        self.member_id, self.generation = answer["member_id"], answer["generation_id"]
        return answer

    def rejoin(self) -> None:
        """Sends JoinGroup and SyncGroup without assignments, as a returning static member or a
        member of a converted group."""
        self.join()
        self.joined()
        self.sync({})
        self.synced()

    def sync(self, assignments: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        """Sends SyncGroup. Only the leader passes ``assignments``, which has the partitions by
        member id and topic."""
        listed = [
            {"member_id": who, "assignment": encode_assignment(held)}
            for who, held in assignments.items()
        ]
        self.wire.send("SyncGroup", 4, {
            "group_id": self.group, "generation_id": self.generation,
            "member_id": self.member_id, "group_instance_id": self.instance,
            "assignments": listed,
        })  # fmt: skip

    def synced(self) -> None:
        answer = self.wire.receive()[1]
        assert answer["error_code"] == 0, answer
        self.held = assigned_partitions(answer["assignment"])

    def must_rejoin(self) -> bool:
        """Sends a heartbeat. Returns True if the response requires a rebalance."""
        answer = self.ask(
            "Heartbeat", 3, group_id=self.group, generation_id=self.generation,
            member_id=self.member_id, group_instance_id=self.instance,
        )  # fmt: skip
        assert answer["error_code"] in (0, REBALANCE_IN_PROGRESS), answer
        return bool(answer["error_code"])

    def takes(self, offsets: Offsets, metadata: str = "") -> None:
        self.commit(self.group, offsets, metadata, self.member_id, self.generation, self.client_id)

    def leave(self) -> None:
        """Sends LeaveGroup. If this is the last member, the group becomes Empty in a new
        generation."""
        who = [{"member_id": self.member_id, "group_instance_id": self.instance}]
        answer = self.ask("LeaveGroup", 3, group_id=self.group, members=who)
        assert answer["error_code"] == 0, answer
        assert answer["members"][0]["error_code"] == 0, answer


def rebalance(partitions: Mapping[str, int], *members: Member) -> None:
    """Makes all members join and sync, and assigns the partitions round robin. At most one of the
    members may be new."""
    told, group = members[0].told, members[0].group
    made = Generation(group=group)
    with told.span(made):
        for member in sorted(members, key=lambda each: each.generation):
            if member.generation >= 0:
                until(f"{member.client_id} is asked to rejoin", member.must_rejoin)
            member.join()
        answers = {member: member.joined() for member in members}
        [leader] = [m for m, answer in answers.items() if answer["leader"] == m.member_id]
        ids = [member.member_id for member in members]
        shares: dict[str, dict[str, list[int]]] = {who: {} for who in ids}
        for topic, count in partitions.items():
            for partition in range(count):
                shares[ids[partition % len(ids)]].setdefault(topic, []).append(partition)
        leader.sync(shares)
        for member in members:
            if member is not leader:
                member.sync({})
        for member in members:
            member.synced()
        made.number = leader.generation
        made.members = [member.person for member in members]


def emptied(told: Told, asker: Asker, group: str, *leaving: Member) -> None:
    """Makes the last members leave a group, and waits until the broker reports the state Empty."""
    made = Generation(group=group, number=1 + max(member.generation for member in leaving))
    with told.span(made):
        for member in leaving:
            member.leave()
        until(f"{group} is empty", lambda: state(asker, group) == "Empty")


def state(asker: Asker, group: str) -> str:
    """Returns the state of a classic group according to DescribeGroups."""
    [found] = asker.ask("DescribeGroups", 4, groups=[group])["groups"]
    assert found["error_code"] == 0, found
    return str(found["group_state"])


def fresh_id() -> str:
    """Returns a new member id in the form that clients of KIP-848 groups generate."""
    return uuid.uuid4().hex


def _commits(group: str, offsets: Offsets, metadata: str, **more: Any) -> list[Commit]:
    return [
        Commit(group=group, topic=topic, partition=partition, offset=offset, metadata=metadata,
               **more)
        for (topic, partition), offset in offsets.items()
    ]  # fmt: skip


def _topics(offsets: Offsets, metadata: str) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, []).append(
            {"partition_index": partition, "committed_offset": offset,
             "committed_leader_epoch": -1, "committed_metadata": metadata}
        )  # fmt: skip
    return [{"name": topic, "partitions": partitions} for topic, partitions in found.items()]


def _check(topics: Sequence[Mapping[str, Any]]) -> None:
    codes = {p["error_code"] for topic in topics for p in topic["partitions"]}
    assert codes == {0}, topics
