"""Compares Muster with Apache Kafka while members of librdkafka consumer groups restart. Both
brokers run at the same time.

The result is the share of time in which live members own partitions. The scenarios are those of
tests/coordinator/churn, with all times multiplied by 0.6. Real brokers on a busy machine never
repeat a run exactly, so this comparison is less exact than that of tests/coordinator/churn. `make
campaign` runs the first scenario, and `make soak` the others.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.brokers import Broker, KafkaBroker, running
from tests.faults.killing_proxy import KillingProxy
from tests.interop.cluster import Cluster
from tests.interop.programs import Program, ending

pytestmark = [pytest.mark.interop, pytest.mark.proves("kafka 5")]
SCRIPT = Path(__file__).parent / "members" / "churning_members.py"
LASTS_S = 90.0
PARTITIONS = 12
SESSION_MS = 6_000
HEARTBEAT_MS = 500
"""The heartbeat interval in ms. It is short compared with the session timeout, so that two runs on
the same broker have similar results (see `LUCK`)."""
CUT_EVERY_S = 6.0
LUCK = 0.05
"""The maximum difference between the measured shares of time of Muster and of Kafka. Even two runs
on the same broker differ, because the last heartbeat before a crash is sent at a random time."""

Plan = list[tuple[float, str, str]]


def _crash_loop(name: str, first_s: float, up_s: float = 4.2, down_s: float = 1.2) -> Plan:
    plan: Plan = []
    at_s = first_s
    while at_s < LASTS_S:
        plan += [(at_s, name, "start"), (at_s + up_s, name, "kill")]
        at_s += up_s + down_s
    return plan


def _healthy(count: int, kind: str = "healthy") -> Plan:
    return [(0.2 * number, f"{kind}-{number}", "start") for number in range(count)]


def _all_restart() -> Plan:
    plan = _healthy(6)
    for at_s in (20.0, 44.9, 68.3):
        plan += [(at_s, f"healthy-{number}", "kill") for number in range(6)]
        plan += [(at_s + 0.5 + 0.1 * number, f"healthy-{number}", "start") for number in range(6)]
    return plan


def _rolling(count: int = 20) -> Plan:
    plan = _healthy(count)
    for number in range(count):
        at_s = 15 + 3.5 * number
        what = "stop" if number % 4 else "kill"
        plan += [(at_s, f"healthy-{number}", what), (at_s + 1.8, f"healthy-{number}", "start")]
    return plan


PLANS: dict[str, Plan] = {
    "crash_loop_of_one": _healthy(1) + _crash_loop("b", 3),
    "crash_loop_of_three": _healthy(2)
    + [each for number in range(3) for each in _crash_loop(f"b{number}", 3 + 1.7 * number)],
    "crash_loop_of_all": [
        each
        for number in range(4)
        for each in _crash_loop(f"b{number}", 0.3 + 1.9 * number, 10.2 + 1.8 * number)
    ],
    "all_restart_at_once": _all_restart(),
    "rolling_restart_of_20": _rolling(),
    "connections_are_cut": _healthy(6),
    "static_crash_loop": _healthy(1, "static") + _crash_loop("static-b", 3),
}


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KillingProxy]]:
    """Yields two proxies to which the clients connect: one in front of Muster, and one in front of
    Kafka 4.3.1."""
    folder = tmp_path_factory.mktemp("churn")
    made = []
    for kind in (Broker, KafkaBroker):
        proxy = KillingProxy()
        settings = {"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        proxy.broker = kind(folder / kind.__name__, settings)
        made.append(proxy)
    with running(*(each.broker for each in made if each.broker is not None)):
        yield made
    for each in made:
        each.close()


def _members(proxy: KillingProxy, group: str, plan: Plan) -> Program:
    Cluster(proxy.bootstrap).create_topic(group, PARTITIONS)
    settings = {
        "bootstrap": proxy.bootstrap,
        "group": group,
        "topic": group,
        "partitions": PARTITIONS,
        "session_ms": SESSION_MS,
        "heartbeat_ms": HEARTBEAT_MS,
        "lasts_s": LASTS_S,
        "plan": plan,
    }
    return Program(group, [sys.executable, str(SCRIPT), json.dumps(settings)])


def _cut_until(ended: threading.Event, proxies: list[KillingProxy]) -> None:
    chance = Random(1)
    while not ended.wait(CUT_EVERY_S + chance.uniform(-1, 1)):
        for each in proxies:
            each.cut()


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each, marks=[] if each == "crash_loop_of_one" else [pytest.mark.soak])
        for each in PLANS
    ],
)
def test_partitions_have_an_owner_for_as_much_of_the_time_as_in_kafka(
    proxies: list[KillingProxy], name: str, scenario: str
) -> None:
    programs = [_members(each, name, PLANS[scenario]) for each in proxies]
    ended = threading.Event()
    if scenario == "connections_are_cut":
        threading.Thread(target=_cut_until, args=(ended, proxies), daemon=True).start()
    with ending(*programs):
        for each in programs:
            assert each.ended(LASTS_S + 60) == 0, each.story()
    ended.set()
    muster, kafka = (json.loads(each.lines[-1])["share"] for each in programs)
    print(f"{scenario}: Muster {muster:.0%}, Kafka {kafka:.0%}")
    assert muster >= kafka - LUCK
