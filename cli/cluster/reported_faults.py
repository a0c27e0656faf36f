"""Finds the problems that only Muster's HTTP API reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cli.broker_answers import ASKED
from cli.cluster.faults import Fault
from cli.groups.why import some
from cli.output import counted
from cli.times import span

Value = dict[str, Any]

CLOCKS_APART_MS = 1000
"""The maximum clock difference in ms that is not reported as a fault. The uncertainty of the
measurement is first subtracted from the measured difference."""

_SCRAM = "SCRAM-"


class Twin(NamedTuple):
    """Two brokers with the same broker id: the broker at a bootstrap address, and the broker that
    is registered in the cluster."""

    broker: int
    here: str
    registered: str


def reported_faults(
    responses: Mapping[int, Value], nodes: Value | None, twins: list[Twin]
) -> list[Fault]:
    """Returns all problems. ``responses`` contains the response of each broker. ``nodes`` is the
    result of one broker's check of the nodes in ZooKeeper."""
    found = [_twin(each) for each in twins]
    found += [
        _not_registered(node, each) for node, each in responses.items() if each["epoch"] is None
    ]
    if nodes is not None and nodes["bad_nodes"]:
        found.append(_bad_nodes(nodes))
    found += _clocks(responses)
    found += _not_followed(responses)
    found += [_strays(node, each) for node, each in responses.items() if each["strays"]]
    return found


def _twin(twin: Twin) -> Fault:
    sentence = (
        f"broker id {twin.broker} is used twice: by a broker at {twin.here} and by the registered"
        f" broker at {twin.registered}"
    )
    advice = f"stop the broker at {twin.here}, or give it its own broker.id and data directory"
    return Fault("ID_TWICE", sentence, advice, twin.broker, [])


def _not_registered(node: int, responses: Value) -> Fault:
    sentence = (
        f"broker {node} runs but is not registered: its session with ZooKeeper is"
        f" {responses['zookeeper']}"
    )
    advice = (
        f"the other brokers consider broker {node} dead. Check in its log whether the broker"
        " reaches ZooKeeper and whether another broker uses its id"
    )
    return Fault("NOT_REGISTERED", sentence, advice, node, [])


def _bad_nodes(nodes: Value) -> Fault:
    bad = nodes["bad_nodes"]
    count = len(bad) + nodes["more_bad_nodes"]
    texts = [f"{each['path']}: {_problem(each)}" for each in bad]
    sentence = f"{counted(count, 'ZooKeeper node')} can't be parsed: {some(texts)}"
    advice = (
        "brokers skip the node and keep the last known state of its topic or broker. Fix the node"
        " with ZooKeeper's shell, or delete the node if its topic or broker no longer exists"
    )
    return Fault("BAD_NODE", sentence, advice, None, [])


def _problem(bad: Value) -> str:
    """Returns the text of the problem of a ZooKeeper node, without the node's path."""
    return str(bad["why"]).removeprefix(f"ZooKeeper's node {bad['path']} ")


def _clocks(responses: Mapping[int, Value]) -> list[Fault]:
    """Returns a fault for each broker whose clock differs from the median."""
    if len(responses) < 2:
        return []
    offsets = {}
    for node, each in responses.items():
        began_ms, ended_ms = each[ASKED]
        offsets[node] = each["now_ms"] - (began_ms + ended_ms) // 2, (ended_ms - began_ms) // 2
    middle = sorted(offset for offset, _ in offsets.values())[(len(offsets) - 1) // 2]
    least_sure = max(unsure for _, unsure in offsets.values())
    found = []
    for node, (offset, _) in offsets.items():
        apart_ms = abs(offset - middle) - 2 * least_sure
        if apart_ms > CLOCKS_APART_MS:
            way = "ahead of" if offset > middle else "behind"
            sentence = (
                f"the clock of broker {node} is at least {span(apart_ms)} {way} the clocks of the"
                " other brokers"
            )
            advice = (
                "synchronize the clocks of all machines with NTP: retention, record timestamps and"
                " lookups of offsets by time use the broker's clock"
            )
            found.append(Fault("CLOCKS_APART", sentence, advice, node, []))
    return found


def _not_followed(responses: Mapping[int, Value]) -> list[Fault]:
    """Returns faults for configured quotas and credentials that Muster does not enforce. All
    brokers read the same quotas and credentials."""
    quotas, credentials, more = dict[str, list[str]](), dict[str, list[str]](), 0
    for each in responses.values():
        more = max(more, each.get("more_not_followed", 0))  # an older Muster has neither field
        for row in each.get("not_followed", []):
            scram = [name for name in row["settings"] if name.startswith(_SCRAM)]
            others = [name for name in row["settings"] if name not in scram]
            for names, found in ((others, quotas), (scram, credentials)):
                if names:
                    found[row["entity"]] = names
    uncounted = f" (and settings of {more} more users or clients)" if more else ""
    faults = []
    if quotas:
        sentence = f"Muster does not enforce the quotas of {_entities(quotas)}{uncounted}"
        advice = (
            "Apache Kafka brokers throttle these clients, but Muster brokers do not. If the clients"
            " must be throttled, leave their partitions on Apache Kafka; `kafka-configs.sh --alter"
            " --delete-config` removes the quotas"
        )
        faults.append(Fault("QUOTAS_NOT_FOLLOWED", sentence, advice, None, []))
    if credentials:
        sentence = (
            f"Muster does not check the credentials of {_entities(credentials)}"
            f"{'' if quotas else uncounted}"
        )
        advice = (
            "every client that reaches a Muster broker may do everything: restrict the network or"
            " put a proxy in front. `kafka-configs.sh --alter --delete-config` removes the"
            " credentials"
        )
        faults.append(Fault("CREDENTIALS_NOT_FOLLOWED", sentence, advice, None, []))
    return faults


def _entities(settings: Mapping[str, list[str]]) -> str:
    return some(f"{entity} ({', '.join(names)})" for entity, names in sorted(settings.items()))


def _strays(node: int, responses: Value) -> Fault:
    strays = responses["strays"]
    count = len(strays) + responses["more_strays"]
    directories = "1 stray directory" if count == 1 else f"{count} stray directories"
    sentence = (
        f"broker {node} has {directories} of partitions that do not exist or have no replica on the"
        f" broker: {some(strays)}"
    )
    advice = (
        "the broker does not read or delete stray directories. They belong to a topic that was"
        " deleted while the broker was down, or to another cluster. Check the directories, stop the"
        " broker, and delete them"
    )
    return Fault("STRAY", sentence, advice, node, [])
