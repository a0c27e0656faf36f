"""Sends requests in parallel over a few connections to each broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from client.connection import Value

LANES = 4
THREADS_MAX = 32

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


class Call(NamedTuple):
    """One request to one broker."""

    connection: Connection
    name: str
    value: Value


def all_at_once(ask: Callable[[ItemT], FoundT], items: Sequence[ItemT]) -> list[FoundT]:
    """Calls ``ask`` for all items in parallel threads, and returns the results in order. ``ask``
    must not raise an exception."""
    if len(items) <= 1:
        return [ask(each) for each in items]
    with clock.threads(min(len(items), THREADS_MAX)) as pool:
        return list(output.progress(pool.map(ask, items), "querying brokers", len(items)))


def at_once(
    cluster: Cluster, calls: Sequence[Call], doing: str = "querying brokers"
) -> list[Value]:
    """Sends all calls and returns the responses in the order of the calls. The first CommandError
    cancels the remaining calls. ``doing`` is the label of the progress bar that a terminal shows
    during long work."""
    if len(calls) <= 1:
        return [call.connection.call(call.name, call.value) for call in calls]
    lanes = {
        connection: cluster.lanes(connection, min(LANES, number))
        for connection, number in Counter(call.connection for call in calls).items()
    }
    idle: dict[Connection, SimpleQueue[Connection]] = {}
    for connection, some in lanes.items():
        idle[connection] = SimpleQueue()
        for lane in some:
            idle[connection].put(lane)

    def ask(call: Call) -> Value:
        lane = idle[call.connection].get()
        try:
            return lane.call(call.name, call.value)
        finally:
            idle[call.connection].put(lane)

    with clock.threads(sum(map(len, lanes.values()))) as pool:
        asked = [pool.submit(ask, call) for call in calls]
        try:
            return [each.result() for each in output.progress(asked, doing)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
