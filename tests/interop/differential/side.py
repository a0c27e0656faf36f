"""One broker in one trace: its requests, its responses, and the state of its group."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.interop.differential.knowledge import Knowledge
from tests.interop.differential.normal import Answer
from tests.interop.differential.trace import APART, PARKABLE, Step
from tests.interop.differential.wire import ANSWERED_WITHIN_S, CLOSED, Target, Wire

PARKED_AFTER_S = 0.012
"""The maximum time in seconds that the test waits for the response to a JoinGroup or SyncGroup.
After this time the request counts as parked, and the test requests the description of the group."""


@dataclass
class Ticket:
    """One request to one broker."""

    number: int
    step: Step
    sent: dict[str, Any]
    state: str
    future: asyncio.Future[dict[str, Any]]
    was_parked: bool = False


@dataclass
class Side:
    """One broker in one trace, with the connections of the clients to this broker."""

    target: Target
    knowledge: Knowledge
    control: Wire
    wires: dict[int, list[Wire]] = field(default_factory=dict)
    open: dict[int, Ticket] = field(default_factory=dict)
    glimpse: Answer = field(default_factory=dict)
    """The description of the group in the last DescribeGroups response."""

    async def ask(self, number: int, step: Step, state: str) -> None:
        """Sends the request of a step on a free connection of its actor."""
        version = self.target.clamp(step.api, step.version)
        if (step.api, step.version) in APART and version != step.version:
            unasked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            unasked.set_result(dict(CLOSED))
            self.open[number] = Ticket(number, step, {}, state, unasked)
            return
        mine = self.wires.setdefault(step.actor, [])
        wire = next((w for w in mine if w.free), None)
        if wire is None:
            client_id = self.knowledge.actors[step.actor].client_id
            wire = await self.target.open(client_id)
            mine.append(wire)
        sent = self.knowledge.request(step, version)
        self.open[number] = Ticket(number, step, sent, state, wire.send(step.api, version, sent))

    async def settle(self, number: int) -> None:
        """Waits until the request is answered or is probably parked. Then requests the description
        of the group."""
        ticket = self.open.get(number)
        if ticket and not ticket.future.done():
            parkable = ticket.step.api in PARKABLE
            await asyncio.wait(
                {ticket.future}, timeout=PARKED_AFTER_S if parkable else ANSWERED_WITHIN_S
            )
        asked = {"groups": [self.knowledge.group]}
        answer = await asyncio.wait_for(
            self.control.send("DescribeGroups", 4, asked), ANSWERED_WITHIN_S
        )
        [self.glimpse] = answer["groups"]
        if self.open:
            await asyncio.sleep(0.002)

    def answered(self) -> frozenset[int]:
        """Returns the numbers of the requests that are answered but not compared yet."""
        return frozenset(number for number, each in self.open.items() if each.future.done())

    def view(self) -> tuple[Any, ...]:
        """Returns the parts of the group's state that both Kafka versions describe. A trace of
        requests continues only while all compared brokers have the same view."""
        group = self.glimpse
        members = sorted(
            (self.knowledge.name(m["member_id"]), m["group_instance_id"] or "")
            for m in group["members"]
        )
        detail: list[Any] = []
        if group["group_state"] == "Stable":
            held = sorted(
                (self.knowledge.name(m["member_id"]), m["member_metadata"], m["member_assignment"])
                for m in group["members"]
            )
            detail = [group["protocol_data"], *held]
        return (group["group_state"], group["protocol_type"], members, detail)

    def close(self) -> None:
        for wire in [self.control, *(w for mine in self.wires.values() for w in mine)]:
            wire.close()


def known_view(side: Side) -> tuple[Any, ...]:
    """Returns the result of `Side.view` without the numbers in the names of member ids: "c0"
    instead of "c0#1". The numbers depend on responses that were not read yet."""
    view = side.view()
    members = sorted((name.split("#")[0], instance) for name, instance in view[2])
    if view[0] != "Stable":
        return (view[0], view[1], members)
    detail = sorted((name.split("#")[0], *rest) for name, *rest in view[3][1:])
    return (view[0], view[1], members, view[3][0], detail)
