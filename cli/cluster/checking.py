"""`muster cluster check`: what is wrong with a cluster, and what to do."""

from __future__ import annotations

from cli import clock, output
from cli.client.cluster import Cluster
from cli.cluster.facts import Facts, read_facts, read_views
from cli.cluster.faults import OTHER_VIEW, Fault, faults
from cli.errors import FOUND, CommandError
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout

AGAIN_S = 1.0
"""Views differ for a moment while leaders move: a difference counts that is there twice."""


def check(
    bootstrap: Bootstrap = BOOTSTRAP, timeout: Timeout = TIMEOUT_S, json: Json = False
) -> None:
    """Tell what is wrong, the worst first; exit 4 where something is. Works with any Kafka.

    Each broker is asked. Partitions without a leader, or with too few replicas in sync; brokers
    that are down, or that see the cluster otherwise; leaders that are not the preferred ones.
    """
    facts, found = _look(Cluster(bootstrap, timeout_s=timeout))
    if json:
        output.show_json(
            {
                "cluster": facts.cluster_id,
                "brokers": len(facts.brokers),
                "partitions": len(facts.partitions),
                "faults": [each._asdict() for each in found],
            }
        )
    else:
        for each in found:
            output.say_folded(f"{each.verdict}: {each.sentence}")
            output.say_folded(f"    {each.advice}")
    name = f"cluster {facts.cluster_id or 'without an id'}"
    if found:
        raise CommandError(f"{name} has {output.counted(len(found), 'fault')}", FOUND)
    if not json:
        brokers = output.counted(len(facts.brokers), "broker")
        partitions = output.counted(len(facts.partitions), "partition")
        output.say(f"{name}  {brokers}  {partitions}  nothing is wrong")


def _look(cluster: Cluster) -> tuple[Facts, list[Fault]]:
    """The facts and the faults; looked at once more where brokers differ in their views."""
    facts = read_facts(cluster)
    found = faults(facts, read_views(cluster, facts.brokers.values()))
    if any(each.verdict == OTHER_VIEW for each in found):
        clock.sleep(AGAIN_S)
        facts = read_facts(cluster)
        found = faults(facts, read_views(cluster, facts.brokers.values()))
    return facts, found
