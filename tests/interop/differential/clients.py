"""Clients for scenarios that depend on time: each broker gets the same requests, and its
responses and their delays are recorded as facts.

A delay is recorded as a condition with bounds: no sooner than the timeout, and no later than
LATE_S after it. A polled response is requested every POLL_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from protocol.consumer_protocol import encode_subscription
from tests.interop.differential.wire import ANSWERED_WITHIN_S, Target, Wire

POLL_S = 0.1
EARLY_S = 0.1
"""Tolerance for clocks that count whole ticks."""
LATE_S = 5.0
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE = 0, 22, 25, 27
LOADING = frozenset({14, 15, 16})


class Since:
    """A moment from which delays are measured."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def took(self, at_least_s: float) -> str:
        """The fact that this much time has passed, and not much more."""
        past_s = asyncio.get_running_loop().time() - self._began
        if past_s < at_least_s - EARLY_S:
            return f"too early: {past_s:.2f} s, not {at_least_s:g}"
        if past_s > at_least_s + LATE_S:
            return f"too late: {past_s:.2f} s, not {at_least_s:g}"
        return f"after {at_least_s:g} s"


class Client:
    """One member of a group on one broker: its state and its requests."""

    def __init__(self, group: ScenarioGroup, name: str, instance_id: str | None) -> None:
        self.group = group
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.members: list[str] = []
        self._wires: list[Wire] = []

    async def ask(self, api: str, version: int, **value: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request on a free connection of this client; the future is its response."""
        wire = next((w for w in self._wires if w.free), None)
        if wire is None:
            wire = await self.group.target.open(self.name)
            self._wires.append(wire)
        named = {} if api == "DescribeGroups" else {"group_id": self.group.group_id}
        return wire.send(api, version, {**named, **value})

    async def join_request(
        self, session_ms: int, rebalance_ms: int, version: int = 5, member_id: str | None = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Send JoinGroup; "" as member id means a new client, or a restarted one."""
        value: dict[str, Any] = {
            "session_timeout_ms": session_ms,
            "member_id": self.member_id if member_id is None else member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": encode_subscription(["t0"])}],
        }
        if version >= 1:
            value["rebalance_timeout_ms"] = rebalance_ms
        if version >= 5:
            value["group_instance_id"] = self.instance_id
        return await self.ask("JoinGroup", version, **value)

    async def joined(self, answer: Awaitable[dict[str, Any]]) -> int:
        """Wait for a JoinGroup response, update this client from it, and return its error."""
        found = await asyncio.wait_for(answer, ANSWERED_WITHIN_S)
        code: int = found["error_code"]
        if found["member_id"]:
            self.member_id = found["member_id"]
            self.group.names[self.member_id] = self.name
        if code == NONE:
            self.generation = found["generation_id"]
            self.leads = found["leader"] == self.member_id
            ids = [member["member_id"] for member in found["members"]]
            self.members = sorted(self.group.names.get(id_, "somebody") for id_ in ids)
            self.group.member_ids = ids or self.group.member_ids
        return code

    async def join(self, session_ms: int, rebalance_ms: int) -> Awaitable[dict[str, Any]]:
        """Join in one request: a dynamic member uses version 3, which needs no id first.

        Between the two requests of a later version 3.9.2 may delete the empty group.
        """
        version = 3 if self.instance_id is None else 5
        return await self.join_request(session_ms, rebalance_ms, version)

    async def sync(self) -> asyncio.Future[dict[str, Any]]:
        """Send SyncGroup; the leader assigns "for NAME" to each member."""
        names = self.group.names
        given = [
            {"member_id": id_, "assignment": f"for {names.get(id_, '?')}".encode()}
            for id_ in (self.group.member_ids if self.leads else ())
        ]
        return await self.ask(
            "SyncGroup",
            3,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=given,
        )

    async def heartbeat(self, member_id: str | None = None) -> int:
        """The error of a Heartbeat."""
        answer = await self.ask(
            "Heartbeat",
            3,
            generation_id=self.generation,
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance_id,
        )
        code: int = (await asyncio.wait_for(answer, ANSWERED_WITHIN_S))["error_code"]
        return code

    async def commit(self) -> int:
        """Commit an offset as a member; returns the error."""
        entry = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        answer = await self.ask(
            "OffsetCommit",
            7,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[{"name": "t0", "partitions": [entry]}],
        )
        code: int = (await answer)["topics"][0]["partitions"][0]["error_code"]
        return code

    async def beats_until(self, code: int, within_s: float = ANSWERED_WITHIN_S) -> str:
        """Send Heartbeats, whose error must be 0, until it is `code`."""
        return await self.group.until(self.heartbeat, code, within_s, before={NONE})

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


class ScenarioGroup:
    """One group on one broker, and the recorded facts."""

    def __init__(self, target: Target, group_id: str) -> None:
        self.target = target
        self.group_id = group_id
        self.names: dict[str, str] = {}
        self.member_ids: list[str] = []
        """Member ids of the last generation, from the leader's JoinGroup response."""
        self.facts: list[str] = []
        self.clients: list[Client] = []

    def client(self, name: str, instance_id: str | None = None) -> Client:
        """A new client; `name` is its client id."""
        self.clients.append(Client(self, name, instance_id))
        return self.clients[-1]

    def saw(self, *parts: object) -> None:
        """Record a fact."""
        self.facts.append(" ".join(str(part) for part in parts))

    async def until(
        self,
        ask: Callable[[], Awaitable[int]],
        code: int,
        within_s: float = ANSWERED_WITHIN_S,
        before: set[int] | None = None,
    ) -> str:
        """Repeat a request until its error is `code`; returns a fact that says so, or names
        another error."""
        async with asyncio.timeout(within_s):
            while True:
                answer = await ask()
                if answer == code:
                    return f"{code}"
                if before is not None and answer not in before:
                    return f"{answer}, not {code}"
                await asyncio.sleep(POLL_S)

    async def form(self, *clients: Client, session_ms: int, rebalance_ms: int) -> None:
        """Have clients join as one generation and synchronise; the first of them leads.

        Requests of two connections may overtake each other: the others wait until it is a
        member.
        """
        first, *others = clients
        parked = [await first.join(session_ms, rebalance_ms)]
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            while not await self.size(first):
                await asyncio.sleep(POLL_S / 10)
        parked += [await each.join(session_ms, rebalance_ms) for each in others]
        for each, answer in zip(clients, parked, strict=True):
            assert await each.joined(answer) == NONE, self.group_id
        await self.synchronise(*clients)

    async def size(self, client: Client) -> int:
        """The number of members in the broker's view."""
        answer = await client.ask("DescribeGroups", 3, groups=[self.group_id])
        return len((await answer)["groups"][0]["members"])

    async def synchronise(self, *clients: Client) -> None:
        """All clients send SyncGroup and get their assignment."""
        for answer in [await each.sync() for each in clients]:
            assert (await asyncio.wait_for(answer, ANSWERED_WITHIN_S))["error_code"] == NONE

    def close(self) -> None:
        for client in self.clients:
            client.close()
