"""Sends ListOffsets requests: for the first and the last offset of a partition, or for its first
record at or after a time.

A request can name each partition only once, so several times of a partition need several requests.
Each connection has several requests in flight at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from client.connection import Connection, Sent, Value
from client.errors import ClientError
from client.errors import Unreachable as NoAnswer
from pipeline import clock
from pipeline.errors import Unreachable
from pipeline.sources.segment_files import OFFSETS_TOPIC
from pipeline.sources.wire.brokers import (
    MOVED,
    RETRY_S,
    Brokers,
    Partition,
    Patience,
    View,
    denial,
    described,
    grouped,
    refusal,
    sentence,
)
from protocol import errors

EARLIEST: Final = -2
LATEST: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""The isolation level for which LATEST returns the last stable offset."""
PARTITIONS_AT_ONCE: Final = 1000
UNDER_WAY: Final = 4
"""The maximum number of requests in flight on one connection. More requests could fill the socket
buffers of client and broker."""

Ask = tuple[Partition, int]
"""One lookup with ListOffsets: a partition, and a time in ms or one of EARLIEST and LATEST."""


class Found(NamedTuple):
    """The offset and timestamp of the first record at or after a time. Each is -1 if no such record
    exists."""

    offset: int
    time_ms: int
    """The record's timestamp in ms. It is -1 if no record was found, and always for EARLIEST and
    LATEST."""


def list_offsets(
    brokers: Brokers, asks: Sequence[Ask], isolation: int = READ_UNCOMMITTED
) -> list[Found]:
    """Returns one result for each element of ``asks``. Raises Unreachable if no broker answers, and
    PipelineError for a partition that no broker serves."""
    listing = _Listing(brokers, asks, isolation)
    while listing.todo:
        listing.round()
        for index in listing.todo:
            if index in listing.refused:
                raise refusal(asks[index][0], listing.refused[index], "Describe")
        listing.look_again()
    return [listing.found[index] for index in range(len(asks))]


def list_known(brokers: Brokers, asks: Sequence[Ask]) -> list[Found | None]:
    """Returns one result for each element of ``asks``; None for a partition that is deleted,
    refused or leaderless.

    Messages of magic 0 have no timestamps, so the result for them is None too. Raises Unreachable
    if no broker answers.
    """
    listing = _Listing(brokers, asks, READ_UNCOMMITTED)
    while listing.todo:
        listing.round()
        listing.give_up(listing.refused)
        if listing.todo and listing.patience.is_over:
            brokers.look(None)  # raises Unreachable if all brokers are down, not only one
            break
        listing.look_again()
        led = brokers.view.leaders
        listing.give_up(
            [i for i in listing.todo if led.get(asks[i][0], -1) not in brokers.view.brokers]
        )
    return [listing.found.get(index) for index in range(len(asks))]


def log_partitions(brokers: Brokers, view: View, where: str) -> list[int]:
    """Returns the partition numbers of `__consumer_offsets` in order; empty if the topic does not
    exist. Raises PipelineError if the client may not describe the topic."""
    found = view.partitions(OFFSETS_TOPIC)
    if not found and hidden(brokers, [OFFSETS_TOPIC]):
        raise denial(where, [OFFSETS_TOPIC], "Describe", "Read")
    return found


def hidden(brokers: Brokers, topics: Sequence[str]) -> list[str]:
    """Returns those of ``topics`` that exist but that the client may not describe. Raises
    Unreachable.

    A list of all topics omits such topics without an error. A request that names a topic gets an
    error that distinguishes a hidden topic from a missing one. The request is ListOffsets, because
    a Metadata request to brokers before Kafka 2.8 would create an internal topic that it names.
    """
    return list(_denied(brokers, topics))


def _denied(brokers: Brokers, topics: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(topics), PARTITIONS_AT_ONCE):
        asks = [((topic, 0), LATEST) for topic in topics[start : start + PARTITIONS_AT_ONCE]]
        request = _request(asks, range(len(asks)), READ_UNCOMMITTED)
        try:
            answer = brokers.any_connection().call("ListOffsets", request)
        except ClientError as error:
            raise sentence(error) from error
        for topic in answer["topics"]:
            codes = {each["error_code"] for each in topic["partitions"]}
            if errors.TOPIC_AUTHORIZATION_FAILED in codes:
                yield topic["name"]


class _Listing:
    """The offsets to list. Requests are sent again until each of these offsets has a result, even
    if leaders change."""

    def __init__(self, brokers: Brokers, asks: Sequence[Ask], isolation: int) -> None:
        self._brokers = brokers
        self._asks = asks
        self._isolation = isolation
        self.patience = Patience(brokers.reach.timeout_s)
        self.todo = list(range(len(asks)))
        self.found: dict[int, Found] = {}
        self.refused: dict[int, int] = {}
        """The final error codes, by index of the requested element. A retry at another broker would
        not fix such an error."""

    def round(self) -> None:
        """Makes one attempt to get the missing results: sends their requests to the leaders of the
        partitions."""
        queues = _requests(self._brokers, self._asks, self.todo)
        under_way: dict[Connection, deque[tuple[Sent, Sequence[int]]]] = {
            connection: deque() for connection in queues
        }
        while under_way:
            for connection in list(under_way):
                queue, sent = queues[connection], under_way[connection]
                try:
                    while queue and len(sent) < UNDER_WAY:
                        request = _request(self._asks, queue[0], self._isolation)
                        sent.append((connection.send("ListOffsets", request), queue.popleft()))
                    if sent:
                        self._take(connection.receive(sent[0][0]), sent.popleft()[1])
                except ClientError as error:
                    self._brokers.drop((connection.host, connection.port))
                    if self.patience.is_over or not isinstance(error, NoAnswer):
                        raise sentence(error) from error
                    queue.clear()
                    sent.clear()
                if not queue and not sent:
                    del under_way[connection]
        self.todo = [index for index in self.todo if index not in self.found]

    def _take(self, answer: Value, asked: Sequence[int]) -> None:
        places = {self._asks[index][0]: index for index in asked}
        for topic in answer["topics"]:
            for entry in topic["partitions"]:
                index = places[topic["name"], entry["partition_index"]]
                code = entry["error_code"]
                if code == errors.NONE:
                    self.found[index] = Found(entry["offset"], entry["timestamp"])
                    self.patience.renew()
                elif code not in MOVED:
                    self.refused[index] = code

    def give_up(self, indices: Collection[int]) -> None:
        """Removes the requests with these indices, so that they are not sent again."""
        self.todo = [index for index in self.todo if index not in indices]

    def look_again(self) -> None:
        """Waits for the retry interval and reads the leaders again. Raises Unreachable after the
        timeout."""
        if not self.todo:
            return
        if self.patience.is_over:
            left = [self._asks[index][0] for index in self.todo]
            raise Unreachable(described(self._brokers.view, left, self._brokers.reach.timeout_s))
        clock.sleep(RETRY_S)
        try:
            self._brokers.look(None)
        except Unreachable:
            if self.patience.is_over:
                raise


def _requests(
    brokers: Brokers, asks: Sequence[Ask], todo: Sequence[int]
) -> dict[Connection, deque[list[int]]]:
    """Returns the requests for each leader, as lists of indices of ``asks``. A request names each
    partition at most once."""
    by_leader: dict[Connection, list[list[int]]] = {}
    turns: dict[Partition, int] = {}
    for index in todo:
        partition = asks[index][0]
        leader = brokers.leader(partition)
        if leader is None:
            continue
        turn = turns[partition] = turns.get(partition, -1) + 1
        rounds = by_leader.setdefault(leader, [])
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(index)
    return {
        leader: deque(
            each[start : start + PARTITIONS_AT_ONCE]
            for each in rounds
            for start in range(0, len(each), PARTITIONS_AT_ONCE)
        )
        for leader, rounds in by_leader.items()
    }


def _request(asks: Sequence[Ask], indices: Sequence[int], isolation: int) -> Value:
    entries = grouped(
        (asks[index][0], {"partition_index": asks[index][0][1], "timestamp": asks[index][1]})
        for index in indices
    )
    return {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": some} for topic, some in entries],
    }
