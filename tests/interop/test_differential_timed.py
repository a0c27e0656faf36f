"""Where time decides, the group coordinator does what Apache Kafka does, and when it does.

Every scenario runs at once against the broker under test, Kafka 4.3.1 and Kafka 3.9.2, each with
small timeouts; what the broker under test shows must be what one of the Kafkas shows. Then all are
killed and started again, and their members go on.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.brokers import Broker
from tests.interop.differential.brokers import targets, three_brokers
from tests.interop.differential.clients import LOADING, NONE, REBALANCE, Client, ScenarioGroup
from tests.interop.differential.retention import RETENTION_SCENARIOS, RETENTION_SETTINGS
from tests.interop.differential.scenarios import INITIAL_DELAY_S, LONG_MS, SCENARIOS, Scenario
from tests.interop.differential.trace import TOPICS
from tests.interop.differential.wire import Target

pytestmark = pytest.mark.interop
SETTINGS = {
    "group.initial.rebalance.delay.ms": str(int(INITIAL_DELAY_S * 1000)),
    "group.min.session.timeout.ms": "100",
    **RETENTION_SETTINGS,
}
ALL = SCENARIOS + RETENTION_SCENARIOS


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    with three_brokers(tmp_path_factory.mktemp("timed"), SETTINGS) as started:
        yield started


async def facts_of(scenario: Scenario, target: Target) -> list[str]:
    group = ScenarioGroup(target, f"{scenario.__name__}-{uuid.uuid4().hex[:6]}")
    try:
        await scenario(group)
    except (TimeoutError, AssertionError) as error:
        group.saw("ended by", repr(error))
    finally:
        group.close()
    return group.facts


async def all_facts(asked: list[Target]) -> dict[str, list[list[str]]]:
    for target in asked:
        await target.prepare(TOPICS)
    found = await asyncio.gather(*(facts_of(s, target) for s in ALL for target in asked))
    count = len(asked)
    return {s.__name__: list(found[i * count : (i + 1) * count]) for i, s in enumerate(ALL)}


@pytest.fixture(scope="module")
def facts(brokers: dict[str, Broker]) -> dict[str, list[list[str]]]:
    """By scenario: what each broker showed, the broker under test first."""
    return asyncio.run(all_facts(targets(brokers)))


@pytest.mark.parametrize("scenario", [s.__name__ for s in ALL])
def test_time_does_what_it_does_in_kafka(
    scenario: str, facts: dict[str, list[list[str]]], brokers: dict[str, Broker]
) -> None:
    mine, *kafkas = facts[scenario]
    shown = "\n".join(
        f"{name}:\n  " + "\n  ".join(found)
        for name, found in zip(brokers, facts[scenario], strict=True)
    )
    print(shown)
    assert mine in kafkas, shown
    assert not any("too early" in fact or "too late" in fact for fact in mine), shown


async def _members_after(target: Target, restart: asyncio.Event, ready: asyncio.Event) -> list[str]:
    """A dynamic and a static member of one generation, before and after a restart."""
    group = ScenarioGroup(target, f"restart-{uuid.uuid4().hex[:6]}")
    a, s = group.client("a"), group.client("s", "i-s")
    await group.form(a, s, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    group.saw("before:", await a.heartbeat(), await s.heartbeat())
    ready.set()
    await restart.wait()

    async def served(client: Client) -> int:
        answer = await client.ask("OffsetFetch", 5, topics=None)
        return int((await answer)["error_code"] in LOADING)

    again = group.client("s", "i-s")
    await group.until(lambda: served(again), 0)
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


def test_members_go_on_after_their_broker_was_killed(brokers: dict[str, Broker]) -> None:
    async def run() -> list[list[str]]:
        asked = targets(brokers)
        for target in asked:
            await target.prepare(TOPICS)
        restart = asyncio.Event()
        readies = [asyncio.Event() for _ in asked]
        going = [
            asyncio.create_task(_members_after(target, restart, ready))
            for target, ready in zip(asked, readies, strict=True)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 30)
        await asyncio.to_thread(start_again)
        restart.set()
        return await asyncio.gather(*going)

    def start_again() -> None:
        for broker in brokers.values():
            broker.kill()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda broker: broker.start(), brokers.values()))

    mine, *kafkas = asyncio.run(run())
    assert mine in kafkas, (mine, kafkas)
    assert mine[0] == f"before: {NONE} {NONE}"
