"""Clients for scenarios that measure delays. Each broker gets the same requests, and a scenario
records the responses and the delays of each broker.

A delay is correct if it is at least the timeout and at most LATE_S longer. Clients repeat a request
every POLL_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from protocol.consumer_protocol import encode_subscription
from tests.interop.differential.wire import ANSWERED_WITHIN_S, Target, Wire

POLL_S = 0.1
EARLY_S = 0.1
"""The number of seconds by which a measured delay may be shorter than the required delay, because
some clocks count only whole ticks."""
LATE_S = 5.0
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE = 0, 22, 25, 27
LOADING = frozenset({14, 15, 16})


class Since:
    """The time from which a scenario measures delays."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def took(self, at_least_s: float) -> str:
        """Returns "after N s" if the elapsed time is ``at_least_s``, at most EARLY_S shorter or
        LATE_S longer. Otherwise returns a text that begins with "too early" or "too late"."""
        past_s = asyncio.get_running_loop().time() - self._began
        if past_s < at_least_s - EARLY_S:
            return f"too early: {past_s:.2f} s, not {at_least_s:g}"
        if past_s > at_least_s + LATE_S:
            return f"too late: {past_s:.2f} s, not {at_least_s:g}"
        return f"after {at_least_s:g} s"


class Client:
    """A client on one broker. The client is a member of a group."""

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
        """Sends a request on a free connection of this client. Returns a future of the response."""
        wire = next((w for w in self._wires if w.free), None)
        if wire is None:
            wire = await self.group.target.open(self.name)
            self._wires.append(wire)
        named = {} if api == "DescribeGroups" else {"group_id": self.group.group_id}
        return wire.send(api, version, {**named, **value})

    async def join_request(
        self, session_ms: int, rebalance_ms: int, version: int = 5, member_id: str | None = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Sends JoinGroup. An empty member id means a new or restarted client."""
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
        """Waits for a JoinGroup response, stores its member id and generation, and returns the
        error code."""
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
        """Joins with one request. A dynamic member uses version 3, which needs no member id.

        Later versions need two requests, between which Kafka 3.9.2 may delete the empty group.
        """
        version = 3 if self.instance_id is None else 5
        return await self.join_request(session_ms, rebalance_ms, version)

    async def sync(self) -> asyncio.Future[dict[str, Any]]:
        """Sends SyncGroup. The leader assigns the bytes "for NAME" to each member."""
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
        """Sends Heartbeats until one gets an error. Returns a text with the error code, which
        should be ``code``."""
        return await self.group.until(self.heartbeat, code, within_s, before={NONE})

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


class ScenarioGroup:
    """One group on one broker, and the facts that a scenario has recorded."""

    def __init__(self, target: Target, group_id: str) -> None:
        self.target = target
        self.group_id = group_id
        self.names: dict[str, str] = {}
        self.member_ids: list[str] = []
        """The member ids in the last JoinGroup response of the leader."""
        self.facts: list[str] = []
        self.clients: list[Client] = []

    def client(self, name: str, instance_id: str | None = None) -> Client:
        self.clients.append(Client(self, name, instance_id))
        return self.clients[-1]

    def saw(self, *parts: object) -> None:
        self.facts.append(" ".join(str(part) for part in parts))

    async def until(
        self,
        ask: Callable[[], Awaitable[int]],
        code: int,
        within_s: float = ANSWERED_WITHIN_S,
        before: set[int] | None = None,
    ) -> str:
        """Repeats a request until its error code is ``code``. If ``before`` is given, also stops at
        an error code that is not in ``before``. Returns a text with the last error code."""
        async with asyncio.timeout(within_s):
            while True:
                answer = await ask()
                if answer == code:
                    return f"{code}"
                if before is not None and answer not in before:
                    return f"{answer}, not {code}"
                await asyncio.sleep(POLL_S)

    async def form(self, *clients: Client, session_ms: int, rebalance_ms: int) -> None:
        """Lets clients join one generation and sync. The first client becomes the leader.

        The other clients join only after the first client is a member, because requests of
        different connections can overtake each other.
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
        """Returns the number of members that DescribeGroups returns."""
        answer = await client.ask("DescribeGroups", 3, groups=[self.group_id])
        return len((await answer)["groups"][0]["members"])

    async def synchronise(self, *clients: Client) -> None:
        for answer in [await each.sync() for each in clients]:
            assert (await asyncio.wait_for(answer, ANSWERED_WITHIN_S))["error_code"] == NONE

    def close(self) -> None:
        for client in self.clients:
            client.close()
