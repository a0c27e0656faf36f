"""Sends calls about the states of share partitions to share coordinators on other brokers: the APIs
83 to 87, batched by coordinator (KIP-932).

While requests to a coordinator are in flight, further calls for this coordinator wait. Then they
are all sent on one connection at the same time: one request for each API and group. Waiting writes
for the same share partition are merged into one write. After NETWORK_EXCEPTION, the persister
repeats the call and looks up the coordinator again. Source: Kafka 4.3.1 ``PersisterStateManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.cluster.peers.fitting import Value, fitting
from broker.cluster.peers.lasting_peer import LastingPeer, NotServed, PeerSettings
from broker.cluster.peers.outboxes import Outboxes, Spawn
from broker.cluster.peers.peer import PeerLost
from broker.share.coordinator import ShareCoordinator
from broker.share.state_messages import FORMS, Form
from broker.time import Time
from broker.topics.cluster_view import NO_LEADER, ClusterView
from broker.topics.registry import SHARE_STATE_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NOT_COORDINATOR,
    UNSUPPORTED_VERSION,
)
from share.persister.calls import Call, StateReply, WriteState
from share.persister.values import coordinator_key
from share.values import SharePartitionKey

WEIGHT_AT_ONCE = 2000
"""The maximum number of share partitions and state batches in the requests that are sent together.
Encoding them takes about 5 ms."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A call that has to be sent to another broker."""

    call: Call

    @property
    def key(self) -> _Sent:
        """Returns the call itself as its key, so that all keys differ. Items with the same key
        can't share a request, but a request may contain several calls about the same share
        partition."""
        return self

    @property
    def weight(self) -> int:
        call = self.call
        return 1 + len(call.batches) if isinstance(call, WriteState) else 1

    def lost(self, _: PeerLost) -> None:
        self.call.ticket.take(StateReply(NETWORK_EXCEPTION))


@dataclass(slots=True, eq=False)
class _Request:
    """One request, with calls of one API for one group."""

    form: Form
    group_id: str
    calls: dict[SharePartitionKey, list[Call]]

    def admits(self, call: Call) -> bool:
        """Returns True if ``call`` can be added to this request. For each share partition, a
        request may have either one call of any type, or several writes with the same state epoch
        and leader epoch."""
        earlier = self.calls.get(call.key)
        if earlier is None:
            return True
        last = earlier[-1]
        return (
            isinstance(call, WriteState)
            and isinstance(last, WriteState)
            and (call.state_epoch, call.leader_epoch) == (last.state_epoch, last.leader_epoch)
        )

    def value(self) -> Value:
        """Returns the fields of the request, in the newest version of the API."""
        topics: dict[bytes, list[Value]] = {}
        for key, calls in self.calls.items():
            entry = {"partition": key.partition, **self.form.request(_joined(calls))}
            topics.setdefault(key.topic_id, []).append(entry)
        return {
            "group_id": self.group_id,
            "topics": [
                {"topic_id": topic_id, "partitions": partitions}
                for topic_id, partitions in topics.items()
            ],
        }

    def answer(self, response: Value) -> None:
        """Passes the results of the response to the calls. A share partition that the response
        omits gets NETWORK_EXCEPTION."""
        results = {
            (topic["topic_id"], each["partition"]): each
            for topic in response["results"]
            for each in topic["partitions"]
        }
        for key, calls in self.calls.items():
            result = results.get((key.topic_id, key.partition))
            reply = StateReply(NETWORK_EXCEPTION) if result is None else self.form.reply(result)
            for call in calls:
                call.ticket.take(reply)

    def refuse(self, error_code: int) -> None:
        """Replies to all calls with the error code."""
        for calls in self.calls.values():
            for call in calls:
                call.ticket.take(StateReply(error_code))


class RemoteShareStates:
    """Implements `ShareCoordinators` in a cluster. Only the event loop's thread may use this
    class."""

    def __init__(
        self,
        local: ShareCoordinator,
        cluster: ClusterView,
        settings: PeerSettings,
        time: Time,
        spawn: Spawn,
    ) -> None:
        """``local`` handles the calls for which this broker is the share coordinator."""
        self._local = local
        self._cluster = cluster
        self._node_id = settings.node_id
        self._is_stopped = False
        self._outboxes: Outboxes[_Sent] = Outboxes(
            "share states", cluster, settings, self._ask, WEIGHT_AT_ONCE, time, spawn
        )

    @property
    def are_started(self) -> bool:
        return self._local.are_started

    def submit(self, call: Call) -> None:
        """Passes a call to this broker's share coordinator, or sends it to the broker that
        coordinates its share partition. If LeaderAndIsr and the metadata disagree about whether
        this broker is the coordinator, LeaderAndIsr counts."""
        if self._local.coordinates(call.key):
            self._local.submit(call)
            return
        leader = NO_LEADER if self._is_stopped else self._coordinator(call.key)
        if leader == NO_LEADER:
            call.ticket.take(StateReply(COORDINATOR_NOT_AVAILABLE))
        elif leader == self._node_id:
            call.ticket.take(StateReply(NOT_COORDINATOR))  # LeaderAndIsr has not arrived yet
        else:
            self._outboxes.put(leader, _Sent(call))

    def stop(self) -> None:
        """Stops sending requests to other brokers. Calls without a reply are answered by the
        persister."""
        self._is_stopped = True
        self._outboxes.stop()

    def _coordinator(self, key: SharePartitionKey) -> int:
        index = partition_for(coordinator_key(key), self._local.partitions)
        found = self._cluster.partition(SHARE_STATE_TOPIC, index)
        return NO_LEADER if found is None else found.leader

    async def _ask(self, peer: LastingPeer, batch: list[_Sent]) -> None:
        """Sends all requests of a batch at once. Raises PeerLost."""
        requests = _requests([each.call for each in batch])
        versions: dict[int, int] = {}
        for request in requests:
            api = request.form.api
            if api.key not in versions:
                try:
                    versions[api.key] = await peer.version_of(api)
                except NotServed:
                    versions[api.key] = -1
        served = [each for each in requests if versions[each.form.api.key] >= 0]
        responses = await _all([_sent(peer, each, versions[each.form.api.key]) for each in served])
        for request, response in zip(served, responses, strict=True):
            request.answer(response)
        for request in requests:
            if versions[request.form.api.key] < 0:
                request.refuse(UNSUPPORTED_VERSION)


async def _sent(peer: LastingPeer, request: _Request, version: int) -> Value:
    api = request.form.api
    return await peer.call(api, version, fitting(api.request, version, request.value()))


async def _all(sends: Sequence[Any]) -> list[Value]:
    """Returns the responses of requests that are sent concurrently. Raises PeerLost if one request
    gets no response."""
    responses: list[Value] = []
    for each in await asyncio.gather(*sends, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
        responses.append(each)
    return responses


def _requests(calls: Sequence[Call]) -> list[_Request]:
    """Returns requests that together contain all calls. The requests keep the order of the calls
    for each share partition."""
    requests: list[_Request] = []
    last: dict[tuple[int, str], _Request] = {}
    for call in calls:
        form = FORMS[type(call)]
        place = form.api.key, call.key.group_id
        request = last.get(place)
        if request is None or not request.admits(call):
            request = last[place] = _Request(form, call.key.group_id, {})
            requests.append(request)
        request.calls.setdefault(call.key, []).append(call)
    return requests


def _joined(calls: Sequence[Call]) -> Call:
    """Returns one write that replaces consecutive writes for the same share partition."""
    last = calls[-1]
    if len(calls) == 1 or not isinstance(last, WriteState):
        return last
    writes = [call for call in calls if isinstance(call, WriteState)]
    batches = [batch for write in writes for batch in write.batches]
    start_offset = max(write.start_offset for write in writes)
    return WriteState(
        last.ticket,
        last.key,
        last.state_epoch,
        last.leader_epoch,
        start_offset,
        last.delivery_complete_count,
        batches,
    )
