"""`muster cluster check`: problems of a cluster, with advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

from cli import clock, output
from cli.broker_answers import BrokerAnswers
from cli.client.cluster import Cluster, Connection, parse_address
from cli.client.configs import BROKER_RESOURCE, Resource, describe
from cli.cluster.facts import Facts, read_facts, read_session, read_views
from cli.cluster.faults import OTHER_VIEW, UNREACHABLE, Fault, faults
from cli.cluster.reported_faults import Twin, reported_faults
from cli.errors import FOUND, CommandError
from cli.http import EACH_S, every_api
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from client.connection import name_of

AGAIN_S = 1.0
MAY_PASS = {OTHER_VIEW, "STRAY", "NOT_REGISTERED"}
"""The problems that may disappear by themselves while leaders or replicas move. Only a second check
confirms them."""


def check(
    bootstrap: Bootstrap = BOOTSTRAP, timeout: Timeout = TIMEOUT_S, json: Json = False
) -> None:
    """Show problems of any Kafka cluster, worst first; exit with 4 if there are problems.

    Every broker is queried. Problems are partitions without a leader or with too few in-sync
    replicas, brokers that are down or have other metadata than the controller, two brokers with
    the same id, and leaders other than the preferred leader. Muster brokers also report stray
    directories, ZooKeeper nodes that can't be parsed, quotas and credentials that Muster does not
    enforce, and clock differences. Brokers that could not be queried are listed.
    """
    facts, found, unasked = _look(bootstrap, timeout)
    if json:
        output.show_json(
            {
                "cluster": facts.cluster_id,
                "brokers": len(facts.brokers),
                "partitions": len(facts.partitions),
                "faults": [each._asdict() for each in found],
                "unasked": [{"broker": node, "why": why} for node, why in unasked.items()],
            }
        )
    else:
        for each in found:
            output.say_folded(f"{each.verdict}: {each.sentence}")
            output.say_folded(f"    {each.advice}")
        reported = {each.broker for each in found if each.verdict == UNREACHABLE}
        more = {node: why for node, why in unasked.items() if node not in reported}
        for line in _unasked(more, len(facts.brokers)):
            output.say_folded(line)
    name = f"cluster {facts.cluster_id or 'without an id'}"
    if found:
        raise CommandError(f"{name} has {output.counted(len(found), 'problem')}", FOUND)
    if not json:
        brokers = output.counted(len(facts.brokers), "broker")
        partitions = output.counted(len(facts.partitions), "partition")
        output.say(f"{name}  {brokers}  {partitions}  no problems")


def _unasked(unasked: Mapping[int, str], brokers: int) -> Iterator[str]:
    """Yields a line for each check that was skipped because a broker could not be queried."""
    for node, why in unasked.items():
        yield f"broker {node} could not be queried for stray directories and its clock: {why}"
    if len(unasked) == brokers > 1:
        yield "ZooKeeper nodes were not checked: no broker could be queried"


Looked = tuple[Facts, list[Fault], dict[int, str]]
"""The result of one check: the facts, the faults, and by broker id the reason why a broker could
not be queried."""


def _look(bootstrap: str, timeout_s: float) -> Looked:
    """Returns facts and faults. If a fault may be temporary, checks again after AGAIN_S seconds."""
    with closing(Cluster(bootstrap, timeout_s=timeout_s)) as cluster:
        looked = _look_once(cluster, bootstrap)
        if any(each.verdict in MAY_PASS for each in looked[1]):
            clock.sleep(AGAIN_S)
            looked = _look_once(cluster, bootstrap)
    return looked


def _look_once(cluster: Cluster, bootstrap: str) -> Looked:
    facts = read_facts(cluster)
    views = read_views(cluster, facts.brokers.values())
    there = [facts.brokers[node] for node, view in views.items() if isinstance(view, Facts)]
    is_whole = len(there) == len(views)
    session = None if is_whole or not there else read_session(cluster, there[0])
    seen = faults(facts, views, session)
    cluster.deadline = clock.Deadline(cluster.timeout_s)
    asked = BrokerAnswers(every_api(cluster, "cluster check"))
    reported = asked.all("/api/cluster/check")
    nodes = asked.first("/api/cluster/check", cluster.timeout_s, nodes="true") if reported else None
    found = reported_faults(reported, nodes, twins(cluster, bootstrap, facts)) + seen
    return facts, found, dict(sorted(asked.unasked.items())) if len(facts.brokers) > 1 else {}


_LISTENERS = ("advertised.listeners", "listeners")


def twins(cluster: Cluster, bootstrap: str, facts: Facts) -> list[Twin]:
    """Returns the brokers at the addresses in ``bootstrap`` that have the same id as another broker
    of the cluster. Skips addresses where no broker can be reached."""
    known = {each.address for each in facts.brokers.values()}
    found = []
    for text in bootstrap.split(","):
        host, port = parse_address(text)
        here = name_of((host, port))
        if here in known:
            continue
        try:
            limit_s = min(EACH_S, cluster.timeout_s)
            reached = Connection(host, port, cluster.client_id, limit_s, cluster.security)
        except CommandError:
            continue
        for node, listeners in _claimed(reached, facts):
            registered = facts.brokers[node].address
            if listeners and not any(each.endswith(f"//{registered}") for each in listeners):
                found.append(Twin(node, here, registered))
        reached.close()
    return found


def _claimed(reached: Connection, facts: Facts) -> Iterator[tuple[int, list[str]]]:
    """Yields the id and the listeners of the broker to which ``reached`` is connected.

    This function requests the settings of each known broker id, since a broker describes only the
    settings of its own id. If a listener has port 0, its real port is not known; the list of
    listeners is then empty.
    """
    for node in facts.brokers:
        try:
            settings = describe(reached, Resource(BROKER_RESOURCE, str(node)), [*_LISTENERS])
        except CommandError:
            continue
        reported = [str(settings[each]["value"] or "") for each in _LISTENERS if each in settings]
        listeners = [each.strip() for text in reported for each in text.split(",") if each.strip()]
        yield node, [] if any(each.endswith(":0") for each in listeners) else listeners
