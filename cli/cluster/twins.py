"""Finds a broker that was named by --bootstrap and whose id is registered for another address."""

from __future__ import annotations

from collections.abc import Iterator

from cli.client.cluster import Cluster, Connection, parse_address
from cli.client.configs import BROKER_RESOURCE, Resource, describe
from cli.cluster.facts import Facts
from cli.cluster.told_faults import Twin
from cli.errors import CommandError
from cli.http import EACH_S
from client.connection import name_of

_LISTENERS = ("advertised.listeners", "listeners")


def twins(cluster: Cluster, bootstrap: str, facts: Facts) -> list[Twin]:
    """Those at the addresses of ``bootstrap``; one that does not answer is none."""
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
    """The id that a broker says is its own, with the addresses that it gives to clients.

    A broker describes its own settings alone. Ports that it chooses itself say nothing.
    """
    for node in facts.brokers:
        try:
            settings = describe(reached, Resource(BROKER_RESOURCE, str(node)), [*_LISTENERS])
        except CommandError:
            continue
        told = [str(settings[each]["value"] or "") for each in _LISTENERS if each in settings]
        listeners = [each.strip() for text in told for each in text.split(",") if each.strip()]
        yield node, [] if any(each.endswith(":0") for each in listeners) else listeners
