"""The verbs of test mode that change a group or its coordinator, such as the expiry of a session or
a move of the coordinator. The effect is the same as in production."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import cast

from broker.apis.find_coordinator import is_made
from broker.apis.shared.services import Services
from broker.broker import Broker
from broker.cores.groups.on_command import do
from broker.cores.groups.runtime import HostedGroups
from broker.test_mode.arguments import FLAG, TEXT, Argument
from broker.test_mode.coordinator_moves import NotCoordinatorOnce, give_up, load, serves
from broker.test_mode.faults import Fault, NoSuchFault
from broker.test_mode.finding import group_of, hosted_of, member_of
from broker.test_mode.refusals import NotNow
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.verb import Answer, Verb
from broker.topics.owned_topics import OWNED
from broker.topics.registry import OFFSETS_TOPIC
from coordinator import on_command
from coordinator.classic.states import State

STABLE_WITHIN_S = 10


async def rebalance(tested: TestedBroker, group: str) -> Answer:
    """Starts a rebalance of the group, unless a rebalance is in progress."""
    verb = "POST /test/groups/rebalance"
    hosted, found = group_of(tested.broker, verb, group)
    if not found.members:
        raise NotNow(f"{verb}: group {group!r} has no members")
    _do(tested, hosted, partial(on_command.rebalance, group_id=group))
    return {"generation_id": found.generation_id, "members": list(found.members)}


async def expire(tested: TestedBroker, member: str, group: str | None) -> Answer:
    verb = "POST /test/groups/expire"
    hosted, found, there = member_of(tested.broker, verb, member, group)
    member_id = there.member_id
    _do(
        tested,
        hosted,
        partial(on_command.expire, group_id=found.group_id, member_id=member_id),
    )
    return {"group": found.group_id, "member": member_id}


async def fence(tested: TestedBroker, group_instance_id: str, group: str | None) -> Answer:
    """Fences a static member, as if a new member had joined with its group.instance.id."""
    verb = "POST /test/groups/fence"
    found = member_of(tested.broker, verb, group_instance_id, group)[1]
    group_id = found.group_id
    await _stable(tested, verb, group_id)
    hosted, found, there = member_of(tested.broker, verb, group_instance_id, group_id)
    instance_id = there.group_instance_id
    if instance_id is None:
        raise NotNow(
            f"{verb}: {there.member_id} is not a static member: it has no group.instance.id"
        )
    _do(
        tested,
        hosted,
        partial(
            on_command.fence,
            group_id=group_id,
            instance_id=instance_id,
            fresh_id=tested.time.fresh_id().hex(),
        ),
    )
    _do(tested, hosted, partial(on_command.released, group_id=group_id, instance_id=instance_id))
    return {"group": group_id, "member": there.member_id}


async def _stable(tested: TestedBroker, verb: str, group_id: str) -> None:
    """Waits until the group is Stable, because a member that is fenced during a rebalance would
    delay the end of the rebalance."""
    try:
        async with tested.system.within(STABLE_WITHIN_S):
            while group_of(tested.broker, verb, group_id)[1].state.value != State.STABLE.value:
                await tested.system.sleep(0.002)
    except TimeoutError:
        state = group_of(tested.broker, verb, group_id)[1].state.value
        raise NotNow(f"{verb}: group {group_id!r} is still {state}, not Stable") from None


async def move_coordinator(tested: TestedBroker, group: str, keep_away: bool) -> Answer:
    """Moves a group's coordinator. With ``keep_away``, the coordinator is unavailable until the
    returned fault ends."""
    if keep_away:
        fault = await begin_away(tested, group)
        return {"id": fault.fault_id}
    verb = "POST /test/groups/move_coordinator"
    broker, hosted = await _coordinator(tested, verb, group)
    partitions = broker.groups.life.partitions
    rule = NotCoordinatorOnce(tested.interposed.connections, hosted.index, partitions)
    tested.interposed.begin(rule)
    lead = tested.run.within(lambda: give_up(broker, hosted))
    tested.run.within(lead)
    if not await serves(broker, hosted.index):
        raise NotNow(f"{verb}: the coordinator of {group!r} has moved and is not available yet")
    return {}


async def begin_away(tested: TestedBroker, group: str) -> Fault:
    """Starts a fault during which requests of the group get NOT_COORDINATOR."""
    broker, hosted = await _coordinator(tested, "POST /test/faults", group)
    fault = _of_coordinator("moved", group, None)
    lead = tested.run.within(lambda: give_up(broker, hosted))
    return _begin(tested, fault, lead)


async def begin_loading(tested: TestedBroker, group: str, seconds: float | None) -> Fault:
    """Starts a fault that keeps the coordinator loading. The fault ends after ``seconds``, or when
    a test ends it."""
    broker, hosted = await _coordinator(tested, "POST /test/faults", group)
    fault = _of_coordinator("loading", group, seconds)
    go_on = tested.run.within(lambda: load(broker, hosted))
    _begin(tested, fault, go_on)
    if seconds is not None:

        def over() -> None:
            with suppress(NoSuchFault):
                tested.faults.end(fault.fault_id)

        timer = broker.time.call_later(seconds, over)
        fault.on_end(timer.cancel)
    return fault


def _of_coordinator(kind: str, group: str, seconds: float | None) -> Fault:
    fault = Fault(kind, {"group": group, "seconds": seconds})
    fault.of_run = True
    return fault


def _begin(tested: TestedBroker, fault: Fault, back: on_command.Work) -> Fault:
    """Starts a fault. When the fault ends, calls ``back``, unless the broker was stopped or
    restarted during the fault."""
    run = tested.run

    def end() -> None:
        if tested.is_running and tested.run is run:
            run.within(back)

    fault.on_end(end)
    return tested.faults.begin(fault)


async def _coordinator(tested: TestedBroker, verb: str, group: str) -> tuple[Broker, HostedGroups]:
    """Returns the broker and the shard of a group, even if the group does not exist yet. Raises
    NotNow if the shard is not available."""
    broker = tested.broker
    if not broker.groups.is_started:
        services = cast(Services, broker.server.services)
        await is_made(services, OWNED[OFFSETS_TOPIC])
        hosted = broker.groups.hosted_for(group)
        if hosted is not None:
            await serves(broker, hosted.index)
    return broker, hosted_of(broker, verb, group)


def _do(tested: TestedBroker, hosted: HostedGroups, work: on_command.OnStep) -> None:
    """Runs ``work`` on the shard ``hosted``, which must be available."""
    groups = tested.broker.groups
    tested.run.within(lambda: do(groups, hosted, work))


_GROUP = Argument("group", TEXT, "the group's id", required=True)
_ONLY_GROUP = Argument("group", TEXT, "only members of this group")

VERBS = (
    Verb(
        "POST",
        "/groups/rebalance",
        "begins a rebalance: members of a classic group rejoin; a consumer group's epoch increases",
        rebalance,
        (_GROUP,),
    ),
    Verb(
        "POST",
        "/groups/expire",
        "expires a member's session: the member gets UNKNOWN_MEMBER_ID",
        expire,
        (
            Argument("member", TEXT, "a member id, group.instance.id or client id", required=True),
            _ONLY_GROUP,
        ),
    ),
    Verb(
        "POST",
        "/groups/fence",
        "fences a static member: the member gets FENCED_INSTANCE_ID",
        fence,
        (
            Argument("group_instance_id", TEXT, "the member's group.instance.id", required=True),
            _ONLY_GROUP,
        ),
    ),
    Verb(
        "POST",
        "/groups/move_coordinator",
        "moves a group's coordinator: clients get NOT_COORDINATOR and look up the coordinator",
        move_coordinator,
        (
            _GROUP,
            Argument(
                "keep_away",
                FLAG,
                "keep the coordinator unavailable until the returned fault is ended",
                default=False,
            ),
        ),
    ),
)
