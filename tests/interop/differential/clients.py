"""Clients of timed scenarios: each broker gets the same requests, and responses and delays are
recorded as facts.

A delay is recorded as within bounds if it is at least the timeout and at most LATE_S longer.
Repeated requests are sent every POLL_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from protocol.consumer_protocol import encode_subscription
from tests.interop.differential.wire import ANSWERED_WITHIN_S, Target, Wire

POLL_S = 0.1
EARLY_S = 0.1
"""The tolerance in seconds for clocks that count whole ticks."""
LATE_S = 5.0
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE = 0, 22, 25, 27
LOADING = frozenset({14, 15, 16})


class Since:
    """The time from which delays are measured."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def took(self, at_least_s: float) -> str:
        """Returns the fact that the elapsed time is at least ``at_least_s`` and at most LATE_S
        longer."""
        past_s = asyncio.get_running_loop().time() - self._began
        if past_s < at_least_s - EARLY_S:
            return f"too early: {past_s:.2f} s, not {at_least_s:g}"
        if past_s > at_least_s + LATE_S:
            return f"too late: {past_s:.2f} s, not {at_least_s:g}"
        return f"after {at_least_s:g} s"


class Client:
    """One member of a group on one broker."""

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
        """Sends a request on an unused connection of this client; returns the future of its
        response."""
        wire = next((w for w in self._wires if w.free), None)
        if wire is None:
            wire = await self.group.target.open(self.name)
            self._wires.append(wire)
        named = {} if api == "DescribeGroups" else {"group_id": self.group.group_id}
        return wire.send(api, version, {**named, **value})

    async def join_request(
        self, session_ms: int, rebalance_ms: int, version: int = 5, member_id: str | None = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Sends JoinGroup; an empty member id means a new or restarted client."""
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
        """Waits for a JoinGroup response, updates this client, and returns the error."""
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
        """Joins with one request: a dynamic member uses version 3, which does not require a member
        id first.

        Later versions require two requests, and 3.9.2 may delete the empty group between them.
        """
        version = 3 if self.instance_id is None else 5
        return await self.join_request(session_ms, rebalance_ms, version)

    async def sync(self) -> asyncio.Future[dict[str, Any]]:
        """Sends SyncGroup; the leader assigns "for NAME" to each member."""
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
        """Sends a Heartbeat and returns its error."""
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
        """Commits an offset as a member and returns the error."""
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
        """Sends Heartbeats until the error is `code`; earlier Heartbeats must have error 0."""
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
        """The member ids of the last generation, from the leader's JoinGroup response."""
        self.facts: list[str] = []
        self.clients: list[Client] = []

    def client(self, name: str, instance_id: str | None = None) -> Client:
        """Returns a new client whose client id is `name`."""
        self.clients.append(Client(self, name, instance_id))
        return self.clients[-1]

    def saw(self, *parts: object) -> None:
        """Records a fact."""
        self.facts.append(" ".join(str(part) for part in parts))

    async def until(
        self,
        ask: Callable[[], Awaitable[int]],
        code: int,
        within_s: float = ANSWERED_WITHIN_S,
        before: set[int] | None = None,
    ) -> str:
        """Repeats a request until its error is `code`; returns a fact with that error, or with the
        unexpected error."""
        async with asyncio.timeout(within_s):
            while True:
                answer = await ask()
                if answer == code:
                    return f"{code}"
                if before is not None and answer not in before:
                    return f"{answer}, not {code}"
                await asyncio.sleep(POLL_S)

    async def form(self, *clients: Client, session_ms: int, rebalance_ms: int) -> None:
        """Makes clients join one generation and sync; the first client leads.

        Requests of two connections may overtake each other, so the other clients join when the
        first client is a member.
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
        """Returns the number of members that the broker reports."""
        answer = await client.ask("DescribeGroups", 3, groups=[self.group_id])
        return len((await answer)["groups"][0]["members"])

    async def synchronise(self, *clients: Client) -> None:
        """Sends SyncGroup for all clients and waits for their assignments."""
        for answer in [await each.sync() for each in clients]:
            assert (await asyncio.wait_for(answer, ANSWERED_WITHIN_S))["error_code"] == NONE

    def close(self) -> None:
        for client in self.clients:
            client.close()
