"""`muster cluster describe`: shows for each broker how many replicas lead, follow or are out of
sync."""

from __future__ import annotations

from collections.abc import Iterable

from cli import output
from cli.client.cluster import Cluster
from cli.cluster.facts import Facts, Replicas, read_facts
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide

_COLUMNS = [
    "broker",
    "address",
    "rack",
    "controller",
    "down",
    "leads",
    "preferred",
    "out_of_isr",
    "follows",
]
_TROUBLES = {
    "leaderless": "without a leader",
    "under_replicated": "under-replicated",
    "under_min_isr": "below min.insync.replicas",
    "reassigning": "being reassigned",
}


def describe(
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show how many partitions each broker leads and follows, in any Kafka cluster.

    PREFERRED counts the partitions that have the broker as preferred leader. OUT-OF-ISR counts the
    broker's replicas that are not in sync. DOWN brokers are listed, because they have replicas.
    """
    view = described(read_facts(Cluster(bootstrap, timeout_s=timeout)))
    if json:
        output.show_json(view)
        return
    counts = [output.counted(int(str(view[f"{noun}s"])), noun) for noun in ("topic", "partition")]
    troubles = [f"{view[name]} {words}" for name, words in _TROUBLES.items() if view[name]]
    title = "  ".join([f"cluster {view['cluster'] or 'without an id'}", *counts, *troubles])
    output.show_table(view["brokers"], _COLUMNS, "No brokers", title, wide=wide)


def described(facts: Facts) -> output.Row:
    """Returns the totals of a cluster, with a row for each broker, including brokers that are
    down."""
    partitions = list(facts.partitions.values())
    return {
        "cluster": facts.cluster_id,
        "controller": facts.controller if facts.controller >= 0 else None,
        "topics": facts.topics,
        "partitions": len(partitions),
        "leaderless": sum(not each.has_leader for each in partitions),
        "under_replicated": sum(bool(each.lagging) for each in partitions),
        "under_min_isr": sum(each.under_min_isr for each in partitions),
        "reassigning": sum(each.moving for each in partitions) if facts.moves_known else None,
        "brokers": [
            _row(facts, node, partitions) for node in sorted([*facts.brokers, *facts.down])
        ],
    }


def _row(facts: Facts, node: int, partitions: Iterable[Replicas]) -> output.Row:
    broker = facts.brokers.get(node)
    here = [each for each in partitions if node in each.assigned]
    return {
        "broker": node,
        "address": broker.address if broker else None,
        "rack": broker.rack if broker else None,
        "controller": node == facts.controller,
        "down": broker is None,
        "leads": sum(each.leader == node for each in here),
        "preferred": sum(each.assigned[0] == node for each in here),
        "follows": sum(each.leader != node for each in here),
        "out_of_isr": sum(node not in each.in_sync for each in here),
    }
