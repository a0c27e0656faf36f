"""The timeouts of the group coordinator behave as those of Apache Kafka.

Each scenario runs concurrently on the broker under test, on Kafka 4.3.1 and on Kafka 3.9.2, with
short timeouts. The facts of the broker under test must equal those of one Kafka. Then all brokers
are killed and restarted, and the members continue. All scenarios are in one test, because the test
starts three brokers.
"""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.interop.differential.brokers import targets, three_brokers
from tests.interop.differential.clients import LOADING, NONE, REBALANCE, Client, ScenarioGroup
from tests.interop.differential.retention import RETENTION_SCENARIOS, RETENTION_SETTINGS
from tests.interop.differential.scenarios import INITIAL_DELAY_S, LONG_MS, SCENARIOS, Scenario
from tests.interop.differential.trace import TOPICS
from tests.interop.differential.wire import Target

pytestmark = pytest.mark.proves("kafka 2")

SETTINGS = {
    "group.initial.rebalance.delay.ms": str(int(INITIAL_DELAY_S * 1000)),
    "group.min.session.timeout.ms": "100",
    **RETENTION_SETTINGS,
}
ALL = SCENARIOS + RETENTION_SCENARIOS


@pytest.mark.interop
def test_timed_scenarios_have_the_same_results_as_in_kafka(tmp_path: Path) -> None:
    with three_brokers(tmp_path, SETTINGS) as brokers:
        wrong = asyncio.run(wrong_scenarios(targets(brokers)))
        after_kill = asyncio.run(facts_after_kill(brokers))
    assert not wrong, "\n\n".join(wrong)
    mine, *kafkas = after_kill
    assert mine in kafkas, (mine, kafkas)
    assert mine[0] == f"before: {NONE} {NONE}"


async def wrong_scenarios(asked: list[Target]) -> list[str]:
    """Runs all scenarios. Then repeats, one at a time, each scenario in which the tested broker
    differs from both Kafka brokers. Returns the facts of each broker for the scenarios that differ
    again.

    A difference that disappears was caused by a pause of the machine.
    """
    for target in asked:
        await target.prepare(TOPICS)
    again = await _standing_alone(asked, ALL)
    return list((await _standing_alone(asked, tuple(again))).values())


async def _standing_alone(
    asked: list[Target], scenarios: tuple[Scenario, ...]
) -> dict[Scenario, str]:
    found = await asyncio.gather(*(facts_of(s, target) for s in scenarios for target in asked))
    wrong = {}
    for i, scenario in enumerate(scenarios):
        mine, *kafkas = facts = found[i * len(asked) : (i + 1) * len(asked)]
        if mine not in kafkas or any("too early" in f or "too late" in f for f in mine):
            shown = [f"{t.name}:\n  " + "\n  ".join(f) for t, f in zip(asked, facts, strict=True)]
            wrong[scenario] = "\n".join([scenario.__name__, *shown])
    return wrong


async def facts_of(scenario: Scenario, target: Target) -> list[str]:
    group = ScenarioGroup(target, f"{scenario.__name__}-{uuid.uuid4().hex[:6]}")
    try:
        await scenario(group)
    except (TimeoutError, AssertionError) as error:
        group.saw("ended by", repr(error))
    finally:
        group.close()
    return group.facts


async def facts_after_kill(brokers: dict[str, Broker]) -> list[list[str]]:
    """Kills and restarts the brokers. Returns for each broker facts about one generation of a
    group, before and after the kill."""
    asked = targets(brokers)
    restarted = asyncio.Event()
    readies = [asyncio.Event() for _ in asked]
    going = [
        asyncio.create_task(_before_and_after(target, ready, restarted))
        for target, ready in zip(asked, readies, strict=True)
    ]
    for ready in readies:
        await asyncio.wait_for(ready.wait(), 30)
    await asyncio.to_thread(_start_again, brokers)
    restarted.set()
    return await asyncio.gather(*going)


def _start_again(brokers: dict[str, Broker]) -> None:
    for broker in brokers.values():
        broker.kill()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda broker: broker.start(), brokers.values()))


async def _before_and_after(
    target: Target, ready: asyncio.Event, restarted: asyncio.Event
) -> list[str]:
    """Returns the facts about a dynamic and a static member before and after the broker restarts.
    The static member restarts too."""
    group = ScenarioGroup(target, f"restart-{uuid.uuid4().hex[:6]}")
    a, s = group.client("a"), group.client("s", "i-s")
    await group.form(a, s, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    group.saw("before:", await a.heartbeat(), await s.heartbeat())
    ready.set()
    await restarted.wait()

    async def loading(client: Client) -> int:
        answer = await client.ask("OffsetFetch", 5, topics=None)
        return int((await answer)["error_code"] in LOADING)

    again = group.client("s", "i-s")
    await group.until(lambda: loading(again), 0)
    answer = await again.join_request(LONG_MS, LONG_MS, member_id="")
    group.saw("s is back:", await again.joined(answer), again.generation == s.generation)
    group.saw("s synchronises:", (await (await again.sync()))["assignment"])
    group.saw("old s:", await again.heartbeat(s.member_id))
    group.saw("new s:", await again.heartbeat(), "a:", await a.heartbeat())
    answer = await a.join_request(LONG_MS, LONG_MS)
    group.saw("new s heartbeats until", await again.beats_until(REBALANCE))
    of_s = await again.join_request(LONG_MS, LONG_MS)
    group.saw("a, the leader, joins:", await a.joined(answer), "s:", await again.joined(of_s))
    group.saw("generation", a.generation, "of", a.members)
    group.close()
    return group.facts
