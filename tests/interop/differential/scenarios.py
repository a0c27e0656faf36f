"""Timed scenarios of a group, with the same steps on each broker.

A scenario records facts. The facts of the broker under test must equal the facts of at least one of
the Kafka brokers. Timeouts are short, and the initial rebalance delay of the brokers is
INITIAL_DELAY_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.interop.differential.clients import (
    POLL_S,
    REBALANCE,
    ScenarioGroup,
    Since,
)
from tests.interop.differential.wire import ANSWERED_WITHIN_S

INITIAL_DELAY_S = 0.6
LONG_MS = 60000
SHORT_MS = 2000
SHORT_S = SHORT_MS / 1000
TWO_JOIN_S = 2 * INITIAL_DELAY_S
"""The duration in seconds of the first join phase of two members, in which the second member
extends the initial delay."""

Scenario = Callable[[ScenarioGroup], Awaitable[None]]


async def a_session_expires(group: ScenarioGroup) -> None:
    """One member sends no requests. The other member keeps its session with heartbeats only."""
    a, b = group.client("a"), group.client("b")
    silent = Since()
    await group.form(a, b, session_ms=SHORT_MS, rebalance_ms=LONG_MS)
    group.saw("a heartbeats until", await a.beats_until(REBALANCE))
    group.saw("the session of b ends", silent.took(TWO_JOIN_S + SHORT_S))
    group.saw("b heartbeats:", await b.heartbeat())
    group.saw("a joins again:", await a.joined(await a.join(SHORT_MS, LONG_MS)))
    group.saw("generation", a.generation, "of", a.members, "led by a:", a.leads)


async def commits_keep_a_session(group: ScenarioGroup) -> None:
    a = group.client("a")
    await group.form(a, session_ms=SHORT_MS, rebalance_ms=LONG_MS)
    alone = Since()
    codes = set()
    while alone.took(2 * SHORT_S).startswith("too early"):
        codes.add(await a.commit())
        await asyncio.sleep(POLL_S)
    group.saw("commits for two sessions:", codes, "then a heartbeat:", await a.heartbeat())


async def a_join_phase_ends(group: ScenarioGroup) -> None:
    """A third member joins. One of the first two members sends heartbeats but does not rejoin."""
    a, b, c = group.client("a"), group.client("b"), group.client("c")
    await group.form(a, b, session_ms=LONG_MS, rebalance_ms=SHORT_MS)
    began = Since()
    of_c = await c.join(LONG_MS, SHORT_MS)
    group.saw("b heartbeats:", await b.beats_until(REBALANCE))
    of_a = await a.join(LONG_MS, SHORT_MS)
    group.saw("a joins:", await a.joined(of_a), "c joins:", await c.joined(of_c))
    group.saw("the join phase ends", began.took(SHORT_S))
    group.saw("generation", a.generation, "of", a.members)
    group.saw("b heartbeats:", await b.heartbeat())


async def a_follower_never_synchronises(group: ScenarioGroup) -> None:
    """A follower does not send SyncGroup. The deadline for SyncGroup also applies in a stable
    group."""
    a, b = group.client("a"), group.client("b")
    began = Since()
    parked = [await each.join(LONG_MS, SHORT_MS) for each in (a, b)]
    for each, answer in zip((a, b), parked, strict=True):
        await each.joined(answer)
    group.saw("a synchronises:", (await (await a.sync()))["error_code"])
    group.saw("b heartbeats:", await b.heartbeat())
    group.saw("a heartbeats until", await a.beats_until(REBALANCE))
    group.saw("the sync phase ends", began.took(TWO_JOIN_S + SHORT_S))
    group.saw("b heartbeats:", await b.heartbeat())
    group.saw("a joins again:", await a.joined(await a.join(LONG_MS, SHORT_MS)))
    group.saw("generation", a.generation, "of", a.members)


async def a_leader_never_synchronises(group: ScenarioGroup) -> None:
    """The leader does not send SyncGroup and is removed. The follower's parked SyncGroup gets
    REBALANCE_IN_PROGRESS."""
    a, b = group.client("a"), group.client("b")
    began = Since()
    parked = [await each.join(LONG_MS, SHORT_MS) for each in (a, b)]
    for each, answer in zip((a, b), parked, strict=True):
        await each.joined(answer)
    waiting = await b.sync()
    group.saw("b synchronises:", (await asyncio.wait_for(waiting, ANSWERED_WITHIN_S))["error_code"])
    group.saw("the sync phase ends", began.took(TWO_JOIN_S + SHORT_S))
    group.saw("a heartbeats:", await a.heartbeat())
    group.saw("b joins again:", await b.joined(await b.join(LONG_MS, SHORT_MS)))
    group.saw("generation", b.generation, "of", b.members, "led by b:", b.leads)


async def a_given_out_id_is_never_used(group: ScenarioGroup) -> None:
    """A client gets a member id with MEMBER_ID_REQUIRED, and then never joins with it. The join
    phase waits for this client for one session timeout."""
    a, p = group.client("a"), group.client("p")
    await group.form(a, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    began = Since()
    group.saw("p joins:", await p.joined(await p.join_request(SHORT_MS, LONG_MS)))
    group.saw("a heartbeats:", await a.heartbeat())
    group.saw("a, the leader, joins:", await a.joined(await a.join(LONG_MS, LONG_MS)))
    group.saw("the id is withdrawn", began.took(SHORT_S), "generation", a.generation, a.members)
    group.saw("p joins with it:", await p.joined(await p.join_request(LONG_MS, LONG_MS)))


async def a_first_member_waits_for_others(group: ScenarioGroup) -> None:
    """If members join during the initial rebalance delay, the delay is extended once."""
    a, b = group.client("a"), group.client("b")
    began = Since()
    of_a = await a.join(LONG_MS, LONG_MS)
    of_b = await b.join(LONG_MS, LONG_MS)
    group.saw("a joins:", await a.joined(of_a), "b joins:", await b.joined(of_b))
    group.saw("together", began.took(TWO_JOIN_S), "generation", a.generation, a.members)


async def a_lone_first_member_waits(group: ScenarioGroup) -> None:
    """The initial rebalance delay also applies if no second member joins. The delay is not extended
    in this case."""
    a = group.client("a")
    began = Since()
    group.saw("a joins:", await a.joined(await a.join(LONG_MS, LONG_MS)))
    group.saw("alone", began.took(INITIAL_DELAY_S), "generation", a.generation, a.members)


async def the_initial_delay_is_no_longer_than_the_rebalance_timeout(group: ScenarioGroup) -> None:
    a = group.client("a")
    began = Since()
    group.saw("a joins:", await a.joined(await a.join(LONG_MS, 100)))
    group.saw("alone", began.took(INITIAL_DELAY_S), "generation", a.generation)


async def a_static_member_restarts(group: ScenarioGroup) -> None:
    """A static member rejoins with a new member id within its session, and no rebalance begins."""
    a, s = group.client("a"), group.client("s", "i-s")
    await group.form(a, s, session_ms=4 * SHORT_MS, rebalance_ms=LONG_MS)
    old_id, generation = s.member_id, s.generation
    again = group.client("s", "i-s")
    answer = await again.join_request(4 * SHORT_MS, LONG_MS, member_id="")
    group.saw("s is back:", await again.joined(answer), "same id:", again.member_id == old_id)
    group.saw("same generation:", again.generation == generation, "leads:", again.leads)
    group.saw("s synchronises:", (await (await again.sync()))["assignment"])
    group.saw("a heartbeats:", await a.heartbeat(), "s:", await again.heartbeat())
    group.saw("the old s heartbeats:", await again.heartbeat(old_id))


async def a_static_leader_restarts(group: ScenarioGroup) -> None:
    """A static member that is the leader rejoins. Before version 9, the JoinGroup response does not
    name this member as the leader, although it is still the leader."""
    s, a = group.client("s", "i-s"), group.client("a")
    await group.form(s, a, session_ms=4 * SHORT_MS, rebalance_ms=LONG_MS)
    again = group.client("s", "i-s")
    group.saw("s led:", s.leads)
    answer = await again.join_request(4 * SHORT_MS, LONG_MS, version=5, member_id="")
    group.saw("s is back:", await again.joined(answer), "leads:", again.leads, again.members)
    third = group.client("s", "i-s")
    answer = await third.join_request(4 * SHORT_MS, LONG_MS, version=9, member_id="")
    found = await asyncio.wait_for(asyncio.shield(answer), ANSWERED_WITHIN_S)
    group.saw("again, v9:", await third.joined(answer), "leads:", third.leads, third.members)
    group.saw("skips the assignment:", found["skip_assignment"])
    group.saw("s synchronises:", (await (await third.sync()))["assignment"])
    group.saw("a heartbeats:", await a.heartbeat())


async def a_static_member_stays_away(group: ScenarioGroup) -> None:
    """The partitions of an absent static member stay assigned to it until its session expires."""
    a, s = group.client("a"), group.client("s", "i-s")
    away = Since()
    await group.form(a, s, session_ms=SHORT_MS, rebalance_ms=LONG_MS)
    group.saw("a heartbeats until", await a.beats_until(REBALANCE))
    group.saw("the session of s ends", away.took(TWO_JOIN_S + SHORT_S))
    group.saw("a joins again:", await a.joined(await a.join(SHORT_MS, LONG_MS)), a.members)
    await group.synchronise(a)
    again = group.client("s", "i-s")
    answer = await again.join_request(SHORT_MS, LONG_MS, member_id="")
    group.saw("s is back, a heartbeats until", await a.beats_until(REBALANCE))
    of_a = await a.join(SHORT_MS, LONG_MS)
    group.saw("s:", await again.joined(answer), "a:", await a.joined(of_a), a.members)


async def a_join_phase_ends_without_a_static_member(group: ScenarioGroup) -> None:
    """A static member that does not rejoin is still a member of the new generation."""
    a, s = group.client("a"), group.client("s", "i-s")
    await group.form(a, s, session_ms=6 * SHORT_MS, rebalance_ms=SHORT_MS)
    began = Since()
    group.saw("a, the leader, joins:", await a.joined(await a.join(6 * SHORT_MS, SHORT_MS)))
    group.saw("the join phase ends", began.took(SHORT_S), "generation", a.generation, a.members)
    group.saw("s heartbeats:", await s.heartbeat())


async def everybody_is_silent(group: ScenarioGroup) -> None:
    """All sessions of a group expire, so that the group is empty. The next member starts a new
    generation."""
    a, b = group.client("a"), group.client("b")
    silent = Since()
    await group.form(a, b, session_ms=SHORT_MS, rebalance_ms=SHORT_MS)
    group.saw("a commits, or the empty group could be forgotten:", await a.commit())
    states: list[str] = []

    async def empty() -> int:
        answer = await a.ask("DescribeGroups", 4, groups=[group.group_id])
        [found] = (await answer)["groups"]
        states.append(found["group_state"])
        return int(found["group_state"] == "Empty")

    group.saw("the group is empty:", await group.until(empty, 1))
    group.saw("silent", silent.took(TWO_JOIN_S + SHORT_S))
    group.saw("a heartbeats:", await a.heartbeat(), "b:", await b.heartbeat())
    c = group.client("c")
    group.saw("c joins:", await c.joined(await c.join(LONG_MS, LONG_MS)), c.members)
    group.saw("its generation is later:", c.generation > a.generation)


SCENARIOS: tuple[Scenario, ...] = (
    a_session_expires,
    commits_keep_a_session,
    a_join_phase_ends,
    a_follower_never_synchronises,
    a_leader_never_synchronises,
    a_given_out_id_is_never_used,
    a_first_member_waits_for_others,
    a_lone_first_member_waits,
    the_initial_delay_is_no_longer_than_the_rebalance_timeout,
    a_static_member_restarts,
    a_static_leader_restarts,
    a_static_member_stays_away,
    a_join_phase_ends_without_a_static_member,
    everybody_is_silent,
)
