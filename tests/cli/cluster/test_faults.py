"""The faults of a cluster that `muster cluster check` finds in Metadata responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cli.cluster import checking
from cli.cluster.describing import described
from cli.cluster.facts import Facts, Moves, Session, facts_of
from cli.cluster.faults import Fault, faults
from cli.errors import CommandError

Partition = tuple[int, list[int], list[int]]
"""Leader, replicas and ISR of a partition."""
WELL: Mapping[str, list[Partition]] = {
    "orders": [(1, [1, 2, 3], [1, 2, 3]), (2, [2, 3, 1], [2, 3, 1])],
    "events": [(3, [3, 1, 2], [3, 1, 2])],
}


def answer(
    topics: Mapping[str, list[Partition]], brokers: tuple[int, ...] = (1, 2, 3), controller: int = 2
) -> dict[str, Any]:
    return {
        "cluster_id": "c1",
        "controller_id": controller,
        "brokers": [
            {"node_id": each, "host": "10.0.0.1", "port": 9000 + each, "rack": f"r{each}"}
            for each in brokers
        ],
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": index,
                        "leader_id": leader,
                        "replica_nodes": replicas,
                        "isr_nodes": isr,
                    }
                    for index, (leader, replicas, isr) in enumerate(partitions)
                ],
            }
            for name, partitions in topics.items()
        ],
    }


def seen(
    topics: Mapping[str, list[Partition]] = WELL,
    *more: Any,
    moves: Moves | None = None,
    min_isr: int = 2,
) -> Facts:
    """Returns the facts of a Metadata response. All topics have the same min.insync.replicas."""
    return facts_of(answer(topics, *more), moves or {}, dict.fromkeys(topics, min_isr))


def judged(facts: Facts, views: Mapping[int, Facts | str] | None = None) -> list[Fault]:
    """Returns the faults that `muster cluster check` finds. By default, all brokers return the same
    metadata."""
    return faults(facts, dict.fromkeys(facts.brokers, facts) if views is None else views)


def verdicts(found: list[Fault]) -> list[tuple[str, int | None]]:
    return [(each.verdict, each.broker) for each in found]


def test_healthy_cluster_has_no_faults() -> None:
    assert judged(seen()) == []


def test_fault_of_a_broker_that_is_down_is_listed_after_more_severe_faults() -> None:
    topics = {
        "orders": [(1, [1, 2, 3], [1, 2]), (2, [2, 3, 1], [2]), (-1, [3], [3])],
        "events": [(1, [3, 1, 2], [1, 2])],
    }
    found = judged(seen(topics, (1, 2)))

    assert verdicts(found) == [("LEADERLESS", None), ("UNDER_MIN_ISR", None), ("BROKER_DOWN", 3),
                               ("UNDER_REPLICATED", 1)]  # fmt: skip
    leaderless, under_min, down, lagging = found
    assert leaderless.sentence == (
        "1 partition has no leader and can't be read or written: orders:2"
    )
    assert leaderless.advice.startswith("start broker 3 to bring back the last in-sync replicas")
    assert under_min.partitions == [{"topic": "orders", "partitions": [1]}]
    assert under_min.advice == "bring brokers 1 or 3 back into the ISR"
    assert (
        down.sentence == "broker 3 is down and has replicas of 4 partitions: events:0, orders:0-2"
    )
    assert down.advice.startswith("start broker 3, so that its replicas catch up")
    assert lagging.sentence == ("broker 1 is out of the ISR of 1 partition: orders:1")


def test_fault_of_a_leaderless_partition_refers_to_the_controller_log() -> None:
    [found] = judged(seen({"orders": [(-1, [1, 2], [1, 2])]}))

    assert found.verdict == "LEADERLESS"
    assert "controller's log" in found.advice


def test_replicas_added_by_a_reassignment_are_not_under_replicated() -> None:
    topics = {"orders": [(1, [1, 2, 3], [1, 2])]}

    assert judged(seen(topics, moves={("orders", 0): (3,)})) == []
    assert verdicts(judged(seen(topics))) == [("UNDER_REPLICATED", 3)]


def test_advice_for_under_min_isr_is_to_wait_when_a_reassignment_adds_replicas() -> None:
    topics = {"orders": [(1, [1, 2], [1])]}
    [found] = judged(seen(topics, moves={("orders", 0): (2,)}))

    assert found.verdict == "UNDER_MIN_ISR"
    assert found.advice == "wait: the replicas that a reassignment adds are not in sync yet"


def test_min_insync_replicas_above_the_replica_count_is_not_a_fault() -> None:
    assert judged(seen({"orders": [(1, [1], [1])]}, min_isr=2)) == []


def test_non_preferred_leader_is_a_fault_only_if_the_preferred_leader_is_in_sync() -> None:
    topics = {"orders": [(2, [1, 2], [1, 2]), (2, [1, 2], [2])]}
    found = judged(seen(topics, min_isr=1))

    assert verdicts(found) == [("UNDER_REPLICATED", 1), ("NOT_PREFERRED", None)]
    assert found[1].partitions == [{"topic": "orders", "partitions": [0]}]


@pytest.mark.parametrize("controller", [-1, 9])
def test_missing_controller_is_a_fault(controller: int) -> None:
    found = judged(seen(WELL, (1, 2, 3), controller))
    assert verdicts(found) == [("NO_CONTROLLER", None)]


def test_broker_with_different_metadata_or_no_response_is_a_fault() -> None:
    facts = seen()
    stale = {**WELL, "events": [(1, [3, 1, 2], [3, 1, 2])]}
    views: dict[int, Facts | str] = {
        1: seen(stale, (1, 2)),
        2: facts,
        3: "no broker answers at 10.0.0.1:9003",
    }
    found = judged(facts, views)

    assert verdicts(found) == [("UNREACHABLE", 3), ("OTHER_VIEW", 1)]
    assert found[0].sentence == (
        "broker 3 is registered but unreachable: no broker answers at 10.0.0.1:9003; the"
        " broker leads 1 partition: events:0"
    )
    assert found[0].partitions == [{"topic": "events", "partitions": [0]}]
    assert found[1].sentence == (
        "broker 1 does not list broker 3 and reports other leaders for 1 partition: events:0"
    )


@pytest.mark.parametrize(
    ("session", "advice"),
    [
        (
            Session("ZooKeeper", "zookeeper.session.timeout.ms", 18_000),
            "if the broker runs, check that clients can reach its advertised listener. If the"
            " broker has died, its session with ZooKeeper expires within 18.0 s"
            " (zookeeper.session.timeout.ms), and the broker is reported as down",
        ),
        (None, "check that the broker runs and that clients can reach its advertised listener"),
    ],
)
def test_advice_on_an_unreachable_broker_names_the_zookeeper_timeout(
    session: Session | None, advice: str
) -> None:
    facts = seen()
    views: dict[int, Facts | str] = {1: facts, 2: facts, 3: "no broker answers at 10.0.0.1:9003"}
    assert [each.advice for each in faults(facts, views, session)] == [advice]


def test_unreachable_broker_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts, why = seen(), "no broker answers at 10.0.0.1:9003"
    found = faults(facts, {1: facts, 2: facts, 3: why})
    looked = facts, found, {2: "the broker at 10.0.0.1:9002 is not a Muster broker", 3: why}
    monkeypatch.setattr(checking, "_look", lambda *_: looked)
    with pytest.raises(CommandError):
        checking.check("10.0.0.1:9001", 1.0)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(why) == 1
    assert printed.count("broker 2 could not be queried") == 1


def test_brokers_that_name_different_controllers_are_not_a_fault() -> None:
    """In KRaft mode, each Metadata response names an arbitrary broker as the controller."""
    facts = seen()
    assert judged(facts, {1: seen(WELL, (1, 2, 3), 1), 2: facts}) == []


def test_fault_sentence_names_three_partitions_and_its_json_names_all_partitions() -> None:
    topics = {f"t{number}": [(-1, [3], [3])] for number in range(9)}
    [leaderless, _] = judged(seen(topics, (1, 2)))

    assert leaderless.sentence.endswith("written: t0:0, t1:0, t2:0 and 6 more")
    assert len(leaderless.partitions) == 9


def test_cluster_describe_includes_brokers_that_are_down() -> None:
    topics = {"orders": [(1, [1, 2, 3], [1]), (1, [3, 1], [1])], "events": [(-1, [3], [3])]}
    view = described(seen(topics, (1, 2), 1, moves={("orders", 1): ()}))
    rows = [[*row.values()] for row in view.pop("brokers")]

    assert view == {
        "cluster": "c1",
        "controller": 1,
        "topics": 2,
        "partitions": 3,
        "leaderless": 1,
        "under_replicated": 2,
        "under_min_isr": 2,
        "reassigning": 1,
    }
    assert rows == [
        [1, "10.0.0.1:9001", "r1", True, False, 2, 1, 0, 0],
        [2, "10.0.0.1:9002", "r2", False, False, 0, 0, 1, 1],
        [3, None, None, False, True, 0, 2, 3, 2],
    ]


def test_cluster_describe_shows_unknown_values_as_null() -> None:
    view = described(facts_of(answer(WELL, controller=-1), None, {}))

    assert (view["reassigning"], view["controller"], view["under_min_isr"]) == (None, None, 0)
