"""`muster cluster why`: explains a partition's leader and ISR, a broker, or the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli import output
from cli.broker_answers import BrokerAnswers
from cli.client.cluster import Cluster
from cli.cluster.facts import Facts, Replicas, read_facts
from cli.cluster.stories import last_move, left_isr, merged
from cli.cluster.telling import (
    lines_of_broker,
    lines_of_controller,
    lines_of_partition,
    lines_of_waits,
)
from cli.errors import USAGE, CommandError
from cli.http import every_api
from cli.options import BOOTSTRAP, INT32, TIMEOUT_S, Bootstrap, Json, Timeout, whole_number
from cli.patterns import nearest

Value = dict[str, Any]

_PARTITION = re.compile(r"(.+)[:-](\d{1,10})", re.DOTALL | re.ASCII)
_BROKER = re.compile(r"\d{1,10}", re.ASCII)
_CONTROLLER = "controller"


def why(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="A partition such as orders-0, a broker's id, or controller."
        ),
    ],
    last: Annotated[
        int, whole_number("--last", least=1, most=INT32, help="Number of past events to show.")
    ] = 10,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Explain a partition's leader and ISR, or the state of a broker or the controller.

    The reasons are events that the Muster brokers recorded; Apache Kafka brokers record no events.
    """
    place, broker = _PARTITION.fullmatch(what), _BROKER.fullmatch(what)
    if what != _CONTROLLER and place is None and broker is None:
        sentence = f"{what}: write TOPIC-PARTITION such as orders-0, a broker's id, or controller"
        raise CommandError(sentence, USAGE)
    with closing(Cluster(bootstrap, timeout_s=timeout)) as cluster:
        facts = read_facts(cluster)
        asked = BrokerAnswers(every_api(cluster, "cluster why"))
        if place is not None:
            found = _of_partition(facts, asked, place[1], int(place[2]))
            tell = lines_of_partition
        elif what == _CONTROLLER:
            found = _of_controller(facts, asked)
            tell = lines_of_controller
        else:
            found = _of_broker(facts, asked, int(what))
            tell = lines_of_broker
    found["controller"] = facts.controller if facts.controller in facts.brokers else None
    found["unasked"] = [{"broker": node, "why": said} for node, said in asked.unasked.items()]
    if json:
        output.show_json(found)
        return
    for line in tell(found, last):
        output.say_folded(line)
    for node, said in sorted(asked.unasked.items()):
        output.say_folded(f"broker {node} could not be queried: {said}")


def _of_partition(facts: Facts, asked: BrokerAnswers, topic: str, index: int) -> Value:
    partition = facts.partitions.get((topic, index))
    if partition is None:
        topics = {name for name, _ in facts.partitions}
        if topic in topics:
            count = sum(name == topic for name, _ in facts.partitions)
            raise CommandError(
                f"partition {topic}-{index} does not exist; {topic} has partitions 0 to {count - 1}"
            )
        for view in asked.all("/api/cluster").values():
            going = [each for each in view["waits"] or [] if each["what"] == "deletion"]
            if line := lines_of_waits([each for each in going if each["topic"] == topic]):
                raise CommandError(f"topic {topic} is being deleted: {line[0].partition(': ')[2]}")
        meant = nearest([topic], topics)
        hint = f"; did you mean {meant}?" if meant else "; `muster topics list` shows all topics"
        raise CommandError(f"topic {topic} does not exist{hint}")
    responses = asked.all(f"/api/cluster/partitions/{quote(topic, safe='')}/{index}")
    story = merged({node: each["journal"] for node, each in responses.items()})
    epoch = max((each["leader_epoch"] for each in responses.values()), default=-1)
    leader = partition.leader if partition.has_leader else None
    moved = last_move(story, leader)
    return {
        "topic": topic,
        "partition": index,
        "leader": leader,
        "leader_epoch": None if epoch < 0 else epoch,
        "replicas": list(partition.assigned),
        "isr": list(partition.in_sync),
        "adding": list(partition.adding),
        "moving": partition.moving,
        "moved": moved,
        "out": _out(facts, partition, responses, story),
        "waits": _first(responses.values(), "waits"),
        "story": story,
        "topic_story": merged({node: each["topic_journal"] for node, each in responses.items()}),
    }


def _out(
    facts: Facts, partition: Replicas, responses: Mapping[int, Value], story: list[Value]
) -> list[Value]:
    """Returns the out-of-sync replicas, each with the leader's data and the journal entry of its
    removal from the ISR."""
    by_leader = responses.get(partition.leader, {"out": []})["out"]
    now = {each["broker"]: each for each in by_leader}
    found = []
    for replica in partition.assigned:
        if replica not in partition.in_sync:
            known = now.get(replica, {})
            found.append(
                {
                    "broker": replica,
                    "alive": replica in facts.brokers,
                    "left": left_isr(story, replica),
                    "adding": replica in partition.adding,
                    **{
                        field: known.get(field)
                        for field in ("records", "fetched_ms", "caught_up_ms")
                    },
                    "held_up": responses.get(replica, {}).get("held_up"),
                }
            )
    return found


def _of_controller(facts: Facts, asked: BrokerAnswers) -> Value:
    responses = asked.all("/api/cluster")
    here = responses.get(facts.controller, {})
    return {
        "doing": here.get("doing"),
        "waits": here.get("waits"),
        "more_waits": here.get("more_waits", 0),
        "views": [
            {
                "broker": node,
                "controller": each["controller"],
                "controller_epoch": each["controller_epoch"],
                "since_ms": each["controller_since_ms"],
            }
            for node, each in sorted(responses.items())
        ],
        "story": merged({node: each["journal"] for node, each in responses.items()}),
    }


def _of_broker(facts: Facts, asked: BrokerAnswers, broker: int) -> Value:
    there = facts.brokers.get(broker)
    here = [each for each in facts.partitions.values() if broker in each.assigned]
    if there is None and not here:
        known = ", ".join(map(str, facts.brokers))
        raise CommandError(f"broker {broker} does not exist; existing brokers: {known}")
    responses = asked.all(f"/api/cluster/brokers/{broker}")
    clusters = asked.all("/api/cluster")
    own = clusters.get(broker)
    story = merged({node: each["journal"] for node, each in responses.items()})
    return {
        "broker": broker,
        "address": there.address if there else None,
        "rack": there.rack if there else None,
        "alive": there is not None,
        "epoch": own["epoch"] if own else None,
        "zookeeper": own["zookeeper"] if own else None,
        "leads": sum(each.leader == broker for each in here),
        "preferred": sum(each.assigned[0] == broker for each in here),
        "replicas": len(here),
        "out": [_explained(each, story) for each in _out_of(broker, clusters)],
        "out_elsewhere": [
            {"topic": each.topic, "partition": each.partition, "leader": each.leader}
            for each in here
            if broker in each.lagging and each.has_leader and each.leader not in clusters
        ],
        "out_of_isr": sum(broker in each.lagging for each in here),
        "story": story,
        "session_story": _first(responses.values(), "session_journal") or [],
    }


def _out_of(broker: int, clusters: Mapping[int, Value]) -> list[Value]:
    """Returns the partitions in which a broker is out of sync, as the partitions' leaders report
    them. A leader that was elected after the replica left the ISR does not know the reason; the
    reason then comes from another broker."""
    known: dict[tuple[str, int], Value] = {}
    for each in clusters.values():
        for row in each["partitions"]:
            for out in row["out"]:
                if out["broker"] == broker and out["why"] is not None:
                    known.setdefault((row["topic"], row["partition"]), out)
    own = clusters.get(broker, {"partitions": []})["partitions"]
    held_up = {(row["topic"], row["partition"]): row.get("held_up") for row in own}
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "leader": row["leader"],
            **{name: out[name] for name in ("records", "fetched_ms")},
            **_reason(out if out["why"] else known.get((row["topic"], row["partition"]), out)),
            "held_up": held_up.get((row["topic"], row["partition"])),
        }
        for node, each in sorted(clusters.items())
        for row in each["partitions"]
        for out in row["out"]
        if out["broker"] == broker and row["leader"] == node
    ]


def _reason(out: Value) -> Value:
    return {name: out[name] for name in ("since_ms", "cause", "why")}


def _explained(out: Value, story: list[Value]) -> Value:
    """Returns ``out``, the row of an out-of-sync replica. The row may only say that the controller
    removed the replica from the ISR. In this case, cause and reason are replaced by those in
    ``story``, the entries of the controller's journal."""
    if out["cause"] == "controller":
        for entry in reversed(story):
            if entry["cause"] in ("stops", "stopped", "gone", "directory"):
                return {**out, "cause": entry["cause"], "why": entry["why"]}
    return out


def _first(answers: Any, field: str) -> Any:
    """Returns the first value of ``field`` that is not empty; None if all are empty."""
    return next((each[field] for each in answers if each.get(field)), None)
