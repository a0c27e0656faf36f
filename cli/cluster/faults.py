"""Finds the problems in the facts of a cluster, worst first, with sentences and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cli.cluster.facts import Facts, Replicas, Session
from cli.groups.why import some
from cli.names import Owned, owned, partitions_text
from cli.output import counted
from cli.times import span


class Fault(NamedTuple):
    """One problem of a cluster."""

    verdict: str
    sentence: str
    advice: str
    broker: int | None
    """The broker that has the problem; None if the problem concerns several brokers."""
    partitions: Owned


Views = Mapping[int, Facts | str]
"""The metadata of each broker by broker id, or the reason why the broker did not answer."""
OTHER_VIEW = "OTHER_VIEW"
UNREACHABLE = "UNREACHABLE"


def faults(facts: Facts, views: Views, session: Session | None = None) -> list[Fault]:
    """Returns all problems. If ``session`` is given, the advice about brokers that did not respond
    is more precise."""
    found: list[Fault] = []
    for look in (_leaderless, _under_min_isr, _no_controller):
        found += look(facts)
    found += _unreachable(facts, views, session)
    found += _out_of_sync(facts)
    found += _other_views(facts, views)
    found += _not_preferred(facts)
    return found


def _leaderless(facts: Facts) -> list[Fault]:
    hit = _where(facts, lambda each: not each.has_leader)
    awaited = sorted({node for each in hit for node in each.in_sync} - facts.brokers.keys())
    if awaited:
        advice = (
            f"start {_brokers(awaited, 'or')} to bring back the last in-sync replicas; an unclean"
            " election would lose records"
        )
    else:
        advice = (
            "check in the controller's log why no leader is elected although in-sync replicas are"
            " available"
        )
    has = "has" if len(hit) == 1 else "have"
    sentence = f"{_count(hit)} {has} no leader and can't be read or written"
    return _fault("LEADERLESS", sentence, advice, hit)


def _under_min_isr(facts: Facts) -> list[Fault]:
    hit = _where(facts, lambda each: each.under_min_isr)
    lagging = sorted({node for each in hit for node in each.lagging})
    has = "has" if len(hit) == 1 else "have"
    sentence = (
        f"{_count(hit)} {has} fewer in-sync replicas than min.insync.replicas, so writes with"
        " acks=all fail"
    )
    advice = "wait: the replicas that a reassignment adds are not in sync yet"
    if lagging:
        advice = f"bring {_brokers(lagging, 'or')} back into the ISR"
    return _fault("UNDER_MIN_ISR", sentence, advice, hit)


def _no_controller(facts: Facts) -> list[Fault]:
    if facts.controller in facts.brokers:
        return []
    sentence = "the cluster has no controller: leaders are not elected and topics can't change"
    advice = "check in the brokers' logs whether they reach ZooKeeper or the controller quorum"
    return [Fault("NO_CONTROLLER", sentence, advice, None, [])]


def _unreachable(facts: Facts, views: Views, session: Session | None) -> list[Fault]:
    """Returns a fault for each registered broker that did not answer."""
    advice = "check that the broker runs and that clients can reach its advertised listener"
    if session is not None:
        advice = (
            f"if the broker runs, check that clients can reach its advertised listener. If the"
            f" broker has died, its session with {session.keeper} expires within"
            f" {span(session.timeout_ms)} ({session.setting}), and the broker is reported as down"
        )
    found = []
    for node, why in sorted(views.items(), key=lambda item: item[0]):
        if isinstance(why, str):
            led = [key for key, each in facts.partitions.items() if each.leader == node]
            by_topic = _by_topic(led)
            count = counted(len(led), "partition")
            names = some(partitions_text(topic, numbers) for topic, numbers in by_topic.items())
            leads = f"; the broker leads {count}: {names}" if by_topic else ""
            sentence = f"broker {node} is registered but unreachable: {why}{leads}"
            found.append(Fault(UNREACHABLE, sentence, advice, node, owned(by_topic)))
    return found


def _out_of_sync(facts: Facts) -> list[Fault]:
    """Returns a fault for each broker with out-of-sync replicas. Brokers that are down come
    first."""
    lagging = {node for each in facts.partitions.values() for node in each.lagging}
    down = [fault for node in facts.down for fault in _down(facts, node)]
    behind = sorted(lagging - set(facts.down))
    return down + [fault for node in behind for fault in _behind(facts, node)]


def _down(facts: Facts, node: int) -> list[Fault]:
    hit = _where(facts, lambda each: node in each.assigned)
    advice = (
        f"start broker {node}, so that its replicas catch up; if the broker is lost, reassign its"
        " partitions to other brokers"
    )
    sentence = f"broker {node} is down and has replicas of {_count(hit)}"
    return _fault("BROKER_DOWN", sentence, advice, hit, node)


def _behind(facts: Facts, node: int) -> list[Fault]:
    hit = _where(facts, lambda each: node in each.lagging)
    advice = (
        f"broker {node} runs and may be catching up. If the problem persists, read the reason with"
        f" `muster cluster why {node}`; if the broker is overloaded, raise num.replica.fetchers or"
        " replica.lag.time.max.ms"
    )
    sentence = f"broker {node} is out of the ISR of {_count(hit)}"
    return _fault("UNDER_REPLICATED", sentence, advice, hit, node)


def _other_views(facts: Facts, views: Views) -> list[Fault]:
    """Returns a fault for each broker whose metadata shows different brokers, partitions or
    leaders. The controller id is not compared, because in a KRaft cluster brokers return an
    arbitrary id."""
    found: list[Fault] = []
    for node, view in sorted(views.items(), key=lambda item: item[0]):
        if isinstance(view, str):
            continue
        keys = facts.partitions.keys() | view.partitions.keys()
        differing = [key for key in sorted(keys) if _leader(facts, key) != _leader(view, key)]
        parts = []
        if unknown := sorted(facts.brokers.keys() - view.brokers.keys()):
            parts.append(f"does not list {_brokers(unknown, 'and')}")
        if gone := sorted(view.brokers.keys() - facts.brokers.keys()):
            parts.append(f"still lists {_brokers(gone, 'and')}")
        if differing:
            parts.append(f"reports other leaders for {counted(len(differing), 'partition')}")
        if parts:
            by_topic = _by_topic(differing)
            texts = [partitions_text(topic, numbers) for topic, numbers in by_topic.items()]
            where = f": {some(texts)}" if texts else ""
            sentence = f"broker {node} {' and '.join(parts)}{where}"
            advice = (
                f"clients of broker {node} get wrong metadata, because the broker misses the"
                " controller's updates. Check the broker's log and its connection to ZooKeeper or"
                " the controller quorum; restart the broker if the connection works"
            )
            found.append(Fault(OTHER_VIEW, sentence, advice, node, owned(by_topic)))
    return found


def _leader(facts: Facts, key: tuple[str, int]) -> int | None:
    partition = facts.partitions.get(key)
    return None if partition is None else partition.leader


def _not_preferred(facts: Facts) -> list[Fault]:
    """Returns a fault about partitions whose preferred leader is in the ISR but does not lead.
    Other faults report preferred leaders outside the ISR."""
    hit = _where(
        facts,
        lambda each: (
            each.has_leader and each.leader != each.assigned[0] and each.assigned[0] in each.in_sync
        ),
    )
    are = "is" if len(hit) == 1 else "are"
    sentence = f"{_count(hit)} {are} not led by the preferred leader, although it is in sync"
    advice = (
        "`kafka-leader-election.sh --election-type preferred` elects preferred leaders now. With"
        " auto.leader.rebalance.enable=true, the controller elects them when the share of affected"
        " partitions of a broker exceeds leader.imbalance.per.broker.percentage"
    )
    return _fault("NOT_PREFERRED", sentence, advice, hit)


# --------------------------------------------------------------------------------------- words


def _where(facts: Facts, holds: Callable[[Replicas], bool]) -> list[Replicas]:
    return [each for each in facts.partitions.values() if holds(each)]


def _fault(
    verdict: str, sentence: str, advice: str, hit: Iterable[Replicas], broker: int | None = None
) -> list[Fault]:
    """Returns a list with one fault, which names the partitions ``hit``. The list is empty if
    ``hit`` is empty."""
    by_topic = _by_topic(each.key for each in hit)
    if not by_topic:
        return []
    names = some(partitions_text(topic, numbers) for topic, numbers in by_topic.items())
    return [Fault(verdict, f"{sentence}: {names}", advice, broker, owned(by_topic))]


def _by_topic(keys: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in keys:
        found.setdefault(topic, []).append(index)
    return found


def _count(hit: list[Replicas]) -> str:
    return counted(len(hit), "partition")


def _brokers(nodes: list[int], between: str) -> str:
    """Returns broker ids as text, such as ``broker 1`` or ``brokers 1, 2 or 3``. ``between`` is the
    word before the last id, such as ``or``."""
    *first, last = map(str, nodes)
    return f"brokers {', '.join(first)} {between} {last}" if first else f"broker {last}"
