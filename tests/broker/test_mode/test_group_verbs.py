"""The HTTP verbs that cause group events, such as a rebalance or an expired session. The tests use
real clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Queue
from typing import Any

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaException, TopicPartition

from tests.tested import Tested, tested
from tests.waiting import until
from tests.wire import Wire

HEARTBEAT_MS = 100


class Member:
    """A confluent-kafka consumer that polls in a thread and records its callbacks and errors."""

    def __init__(self, muster: Tested, **more: Any) -> None:
        self.assigned = self.revoked = self.lost = 0
        self.fatal: list[str] = []
        self._commits: Queue[tuple[int, Future[str | None]]] = Queue()
        self._stopped = threading.Event()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": muster.bootstrap,
                "group.id": "billing",
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": 6000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **more,
            }
        )
        self.consumer.subscribe(
            ["orders"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _assigned(self, *_: object) -> None:
        self.assigned += 1

    def _revoked(self, *_: object) -> None:
        self.revoked += 1

    def _lost(self, *_: object) -> None:
        self.lost += 1

    def commit(self, offset: int) -> str | None:
        """Commits an offset of partition 0 in the polling thread and returns the error name."""
        done: Future[str | None] = Future()
        self._commits.put((offset, done))
        return done.result(30)

    def _commit(self, offset: int) -> str | None:
        try:
            (done,) = self.consumer.commit(
                offsets=[TopicPartition("orders", 0, offset)], asynchronous=False
            )
        except KafkaException as raised:
            return str(raised.args[0].name())
        return None if done.error is None else str(done.error.name())

    def _poll(self) -> None:
        while not self._stopped.is_set():
            while not self._commits.empty():
                offset, done = self._commits.get()
                done.set_result(self._commit(offset))
            message = self.consumer.poll(0.05)
            error = None if message is None else message.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._FATAL:
                self.fatal.append(error.str())

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.consumer.close()


@contextmanager
def member(muster: Tested, **more: Any) -> Iterator[Member]:
    """Yields a running member after its group has become Stable."""
    made = Member(muster, **more)
    try:
        until("it has its partitions", lambda: made.assigned, tolerate=())
        yield made
    finally:
        made.stop()


@pytest.fixture
def orders(muster: Tested) -> Tested:
    muster.post("/topics", topics=[{"name": "orders", "partitions": 4}])
    return muster


def group(muster: Tested) -> dict[str, Any]:
    found = muster.get("/groups?group=billing")["groups"]
    return found[0] if found else {"state": "none", "members": 0, "generation_id": -1}


def members(muster: Tested) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = muster.get("/members?group=billing")["members"]
    return found


def errors_of(muster: Tested, *apis: str) -> list[str]:
    rows = muster.get("/requests")["requests"]
    return [row["error"] for row in rows if row["api"] in apis and row["error"]]


def sentences(muster: Tested) -> list[str]:
    return [each["sentence"] for each in muster.get("/journal?group=billing")["events"]]


def is_stable(muster: Tested, count: int) -> bool:
    found = group(muster)
    return (found["state"], found["members"]) == ("Stable", count)


def test_rebalance_verb_reassigns_partitions_and_adds_a_journal_entry(orders: Tested) -> None:
    with member(orders) as one:
        before = group(orders)
        assert before["state"] == "Stable"

        answer = orders.post("/groups/rebalance", group="billing")
        assert answer["generation_id"] == before["generation_id"]
        assert len(answer["members"]) == 1

        until("its partitions are revoked and assigned again", lambda: one.assigned == 2)
        assert (one.revoked, one.lost) == (1, 0)
        until("the group is stable", lambda: is_stable(orders, 1))
        assert group(orders)["generation_id"] == before["generation_id"] + 1
        assert "REBALANCE_IN_PROGRESS" in errors_of(orders, "Heartbeat")
        assert "requested by a test" in sentences(orders)


def test_rebalance_verb_is_refused_for_a_group_without_members(orders: Tested) -> None:
    assert orders.refused("POST", "/groups/rebalance", {"group": "billing"})[0] == 409


def test_member_rejoins_after_the_expire_verb_removed_it(orders: Tested) -> None:
    with member(orders, **{"client.id": "app-1"}) as one:
        (before,) = members(orders)
        answer = orders.post("/groups/expire", member="app-1")
        assert answer == {"group": "billing", "member": before["member"]}
        assert not members(orders)

        until("it has partitions again", lambda: one.assigned == 2)
        assert one.lost == 1
        assert "UNKNOWN_MEMBER_ID" in errors_of(orders, "Heartbeat")
        (after,) = members(orders)
        assert after["member"] != before["member"]
        assert any("expired (requested by a test)" in each for each in sentences(orders))


def test_expire_verb_reassigns_the_partitions_of_the_expired_member(orders: Tested) -> None:
    with Wire(orders.port) as wire:
        joined = wire.call("FindCoordinator", 3, {"key": "billing", "key_type": 0})
        assert joined["error_code"] == 0
    with member(orders, **{"client.id": "app-1"}) as one, member(orders, **{"client.id": "app-2"}):
        until("both have some", lambda: is_stable(orders, 2))
        orders.post("/faults", kind="stop_answering", client_id="app-2")
        orders.post("/groups/expire", member="app-2", group="billing")
        until("one is alone", lambda: is_stable(orders, 1))
        until("it has all", lambda: len(members(orders)[0]["assignment"]) == 4)
        assert one.fatal == []
        orders.delete("/faults/all")


def test_fenced_librdkafka_member_reports_a_fatal_error(orders: Tested) -> None:
    with member(orders, **{"group.instance.id": "orders-1"}) as one:
        (before,) = members(orders)
        assert before["group_instance_id"] == "orders-1"

        answer = orders.post("/groups/fence", group_instance_id="orders-1")
        assert answer == {"group": "billing", "member": before["member"]}

        until("it has a fatal error", lambda: one.fatal)
        assert "FENCED_INSTANCE_ID" in errors_of(orders, "Heartbeat")
        assert "Static consumer fenced by other consumer" in one.fatal[0]
        assert any("took over orders-1" in each for each in sentences(orders))


def test_fenced_kafka_python_member_raises_an_exception(orders: Tested) -> None:
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=orders.bootstrap,
        group_id="billing",
        group_instance_id="orders-1",
        heartbeat_interval_ms=HEARTBEAT_MS,
    )

    def assigned() -> Any:
        # kafka-python forgets a join that completes between two polls, and joins again. With polls
        # shorter than a join on a busy machine, the consumer never gets an assignment.
        consumer.poll(2_000)
        return consumer.assignment()

    until("it has its partitions", assigned)
    orders.post("/groups/fence", group_instance_id="orders-1")
    offsets = {kafka.TopicPartition("orders", 0): kafka.OffsetAndMetadata(1, "", -1)}
    with pytest.raises(kafka.errors.KafkaError) as raised:
        consumer.commit(offsets)
    assert "FENCED_INSTANCE_ID" in errors_of(orders, "OffsetCommit", "Heartbeat")
    assert isinstance(
        raised.value, kafka.errors.CommitFailedError | kafka.errors.FencedInstanceIdError
    )
    consumer.close(autocommit=False)


def test_fence_verb_is_refused_for_a_dynamic_member(orders: Tested) -> None:
    with member(orders, **{"client.id": "app-1"}):
        status, sentence = orders.refused(
            "POST", "/groups/fence", {"group_instance_id": "app-1", "group": "billing"}
        )
        assert status == 409
        assert "is not a static member" in sentence


def test_group_keeps_its_members_and_offsets_when_its_coordinator_moves(
    orders: Tested,
) -> None:
    with member(orders) as one:
        assert one.commit(7) is None
        before = members(orders)[0]["member"]
        asked = len(orders.get("/requests?api=FindCoordinator")["requests"])

        assert orders.post("/groups/move_coordinator", group="billing") == {}

        until("it is told", lambda: "NOT_COORDINATOR" in errors_of(orders, "Heartbeat"))
        until(
            "it looks for the coordinator",
            lambda: len(orders.get("/requests?api=FindCoordinator")["requests"]) > asked,
        )
        until("it heartbeats again", lambda: _heartbeats_well(orders))
        assert [each["member"] for each in members(orders)] == [before]
        (offset,) = orders.get("/committed?group=billing")["offsets"]
        assert (offset["topic"], offset["partition"], offset["offset"]) == ("orders", 0, 7)
        assert one.lost == 0


def _heartbeats_well(muster: Tested) -> bool:
    rows = muster.get("/requests?api=Heartbeat")["requests"]
    return bool(rows) and rows[-1]["response"] is not None and rows[-1]["error"] is None


def test_parked_join_group_gets_not_coordinator_when_the_coordinator_moves(orders: Tested) -> None:
    with Wire(orders.port) as wire:
        wire.call("FindCoordinator", 3, {"key": "billing", "key_type": 0})
        wire.send("JoinGroup", 3, _join(""))
        first = wire.receive()[1]
        assert first["error_code"] == 0
        with Wire(orders.port) as second:
            second.send("JoinGroup", 3, _join(""))
            until("it waits", lambda: group(orders)["state"] == "PreparingRebalance")
            orders.post("/groups/move_coordinator", group="billing")
            assert second.receive()[1]["error_code"] == 16


def _join(member_id: str) -> dict[str, Any]:
    return {
        "group_id": "billing",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def test_group_is_served_again_after_the_end_of_the_fault_that_moves_its_coordinator(
    orders: Tested,
) -> None:
    with member(orders) as one:
        fault = orders.post("/faults", kind="moved", group="billing")
        until("it is told", lambda: "NOT_COORDINATOR" in errors_of(orders, "Heartbeat"))
        assert not is_stable(orders, 1)

        orders.delete(f"/faults/{fault['id']}")
        until("it is a member again", lambda: is_stable(orders, 1) and _heartbeats_well(orders))
        assert one.commit(2) is None
    assert orders.get("/committed?group=billing")["offsets"][0]["offset"] == 2


def test_group_is_served_again_when_a_move_coordinator_fault_with_keep_away_is_deleted(
    orders: Tested,
) -> None:
    fault = orders.post("/groups/move_coordinator", group="billing", keep_away=True)
    with Wire(orders.port) as wire:
        assert wire.call("JoinGroup", 3, _join(""))["error_code"] == 16
        orders.delete(f"/faults/{fault['id']}")
        until("it serves", lambda: wire.call("JoinGroup", 3, _join(""))["error_code"] == 0)


def test_loading_fault_makes_coordinator_return_load_in_progress(orders: Tested) -> None:
    with member(orders) as one:
        assert one.commit(3) is None
        member_id = members(orders)[0]["member"]
        generation = group(orders)["generation_id"]
        fault = orders.post("/faults", kind="loading", group="billing")
        with Wire(orders.port) as wire:
            fetch = {"group_id": "billing", "topics": None}
            assert wire.call("OffsetFetch", 5, fetch)["error_code"] == 14
            beat = {"group_id": "billing", "generation_id": generation, "member_id": member_id}
            assert wire.call("Heartbeat", 3, beat)["error_code"] == 0
            sync = {**beat, "assignments": []}
            assert wire.call("SyncGroup", 3, sync)["error_code"] == 27

            assert orders.delete(f"/faults/{fault['id']}") == {"hits": 0}
            until("it is loaded", lambda: wire.call("OffsetFetch", 5, fetch)["error_code"] == 0)
        assert [each["member"] for each in members(orders)] == [member_id]
        assert (one.lost, one.fatal) == (0, [])


def test_loading_fault_ends_after_the_given_seconds(orders: Tested) -> None:
    orders.post("/faults", kind="loading", group="billing", seconds=0.3)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": orders.bootstrap, "group.id": "billing"}
    )
    assert consumer.committed([TopicPartition("orders", 0)], timeout=20)[0].offset == -1001
    assert "COORDINATOR_LOAD_IN_PROGRESS" in errors_of(orders, "OffsetFetch")
    assert orders.get("/faults") == {"faults": []}
    consumer.close()


def test_reset_stops_the_faults_that_make_a_coordinator_move_or_load(orders: Tested) -> None:
    orders.post("/faults", kind="loading", group="billing")
    orders.post("/reset")
    orders.post("/faults", kind="moved", group="billing")
    orders.post("/reset")
    assert orders.get("/faults") == {"faults": []}
    with Wire(orders.port) as wire:
        wire.call("FindCoordinator", 3, {"key": "billing", "key_type": 0})
        assert wire.call("JoinGroup", 3, _join(""))["error_code"] == 0


@pytest.mark.campaign
def test_coordinator_fault_ends_when_the_broker_is_killed() -> None:
    with tested() as muster:
        muster.post("/faults", kind="moved", group="billing")
        muster.post("/faults", kind="delay", ms=1, api="Metadata")
        muster.post("/kill")
        muster.post("/start")
        assert [each["kind"] for each in muster.get("/faults")["faults"]] == ["delay"]
        with Wire(muster.port) as wire:
            assert wire.call("JoinGroup", 3, _join(""))["error_code"] == 0


def test_disk_full_fault_refuses_records_until_the_fault_ends(orders: Tested) -> None:
    fault = orders.post("/faults", kind="disk_full")
    assert _produced(orders) == "KAFKA_STORAGE_ERROR"
    assert orders.get("/faults")["faults"][0]["hits"] >= 1
    assert orders.delete(f"/faults/{fault['id']}")["hits"] >= 1
    assert until("it takes records", lambda: _produced(orders) is None)


def test_failed_fsync_stops_the_broker_until_the_reset_verb(orders: Tested) -> None:
    orders.post("/topics", topics=[{"name": "synced", "configs": {"flush.messages": 1}}])
    orders.post("/faults", kind="fail_fsync", times=1)
    assert _produced(orders, "synced") is not None
    until("it says why", lambda: "the broker has failed" in orders.refused("GET", "/groups")[1])
    orders.post("/reset")
    assert orders.get("/groups") == {"groups": []}


def _produced(muster: Tested, topic: str = "orders") -> str | None:
    """Produces one record. Returns the error name of the response, or the client's error if no
    response arrived."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": muster.bootstrap, "retries": 0, "message.timeout.ms": 3000}
    )
    got: list[Any] = []
    producer.produce(topic, b"1", on_delivery=lambda error, _: got.append(error))
    producer.flush(10)
    return None if got[0] is None else str(got[0].name())


def test_members_verb_lists_the_partitions_that_a_member_waits_for_and_their_owner(
    orders: Tested,
) -> None:
    settings = {"bootstrap.servers": orders.bootstrap, "group.id": "billing"}
    new = {"group.protocol": "consumer", "client.id": "one"}
    one = confluent_kafka.Consumer({**settings, **new})
    two = confluent_kafka.Consumer({**settings, **new, "client.id": "two"})
    one.subscribe(["orders"])
    until("one has all", lambda: one.poll(0.02) is None and len(one.assignment()) == 4)
    two.subscribe(["^ord.*"])
    until(
        "two waits", lambda: two.poll(0.02) is None and _reconciliation(orders, "two")["waits_for"]
    )

    first, second = members(orders)
    (group,) = orders.get("/groups")["groups"]
    one.close()
    two.close()

    given = first["reconciliation"]["revoking"]["orders"]
    awaited = [{"topic": "orders", "partition": each, "member": first["member"]} for each in given]
    assert (group["kind"], group["state"]) == ("consumer", "Reconciling")
    assert second["reconciliation"]["waits_for"] == awaited
    kept = [["orders", each] for each in range(4) if each not in given]
    assert first["assignment"] == kept
    assert len(kept) == 2
    assert (first["subscription"], second["subscription"]) == (["orders"], ["orders"])
    assert first["reconciliation"]["state"] == "UNREVOKED"


def _reconciliation(muster: Tested, client_id: str) -> dict[str, Any]:
    found = {each["client_id"]: each["reconciliation"] for each in members(muster)}
    return found.get(client_id) or {"waits_for": []}
