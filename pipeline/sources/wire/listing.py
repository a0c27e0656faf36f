"""ListOffsets: where partitions begin and end, and the first record at or after a time.

A request names each partition once, so that several times of one partition are several requests;
some are under way at once on each connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from client.connection import Connection, Sent, Value
from client.errors import ClientError
from client.errors import Unreachable as NoAnswer
from pipeline import clock
from pipeline.errors import Unreachable
from pipeline.sources.wire.brokers import (
    MOVED,
    RETRY_S,
    Brokers,
    Partition,
    Patience,
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
"""With it the latest offset is the last stable one, where open transactions begin."""
PARTITIONS_AT_ONCE: Final = 1000
UNDER_WAY: Final = 4
"""Requests of one connection whose answers are not here: more could fill both ends' buffers."""

Ask = tuple[Partition, int]
"""A partition, and a time in ms or EARLIEST or LATEST."""


class Found(NamedTuple):
    """The first record at or after a time; -1 and -1 where there is none."""

    offset: int
    time_ms: int
    """-1 too for EARLIEST and LATEST."""


def list_offsets(
    brokers: Brokers, asks: Sequence[Ask], isolation: int = READ_UNCOMMITTED
) -> list[Found]:
    """The answer to each ask. Unreachable for a partition that nobody serves in time."""
    found: dict[int, Found] = {}
    patience = Patience(brokers.reach.timeout_s)
    todo = list(range(len(asks)))
    while todo:
        requests, later = _requests(brokers, asks, todo)
        for connection, waiting in requests.items():
            try:
                for index, code, answer in _answers(connection, waiting, asks, isolation):
                    if code == errors.NONE:
                        found[index] = answer
                        patience.renew()
                    elif code in MOVED:
                        later = True
                    else:
                        raise refusal(asks[index][0], code)
            except ClientError as error:
                brokers.drop((connection.host, connection.port))
                if patience.is_over or not isinstance(error, NoAnswer):
                    raise sentence(error) from error
                later = True
        todo = [index for index in todo if index not in found]
        if later and todo:
            _look_again(brokers, [asks[index][0] for index in todo], patience)
    return [found[index] for index in range(len(asks))]


def _requests(
    brokers: Brokers, asks: Sequence[Ask], todo: Sequence[int]
) -> tuple[dict[Connection, list[list[int]]], bool]:
    """What to ask of each leader, no partition twice in one request; whether one has no leader."""
    by_leader: dict[Connection, list[list[int]]] = {}
    turns: dict[Partition, int] = {}
    leaderless = False
    for index in todo:
        partition = asks[index][0]
        leader = brokers.leader(partition)
        if leader is None:
            leaderless = True
            continue
        turn = turns[partition] = turns.get(partition, -1) + 1
        rounds = by_leader.setdefault(leader, [])
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(index)
    return {
        leader: [
            each[start : start + PARTITIONS_AT_ONCE]
            for each in rounds
            for start in range(0, len(each), PARTITIONS_AT_ONCE)
        ]
        for leader, rounds in by_leader.items()
    }, leaderless


def _answers(
    connection: Connection, requests: Sequence[Sequence[int]], asks: Sequence[Ask], isolation: int
) -> list[tuple[int, int, Found]]:
    """Index of the ask, error code and answer, of what one broker was asked."""
    under_way: deque[tuple[Sent, Sequence[int]]] = deque()
    found = []
    for indices in [*requests, None]:
        while under_way and (indices is None or len(under_way) == UNDER_WAY):
            sent, asked = under_way.popleft()
            places = {asks[index][0]: index for index in asked}
            for topic in connection.receive(sent)["topics"]:
                for entry in topic["partitions"]:
                    index = places[topic["name"], entry["partition_index"]]
                    answer = Found(entry["offset"], entry["timestamp"])
                    found.append((index, entry["error_code"], answer))
        if indices is not None:
            request = _request(asks, indices, isolation)
            under_way.append((connection.send("ListOffsets", request), indices))
    return found


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


def _look_again(brokers: Brokers, partitions: Sequence[Partition], patience: Patience) -> None:
    if patience.is_over:
        raise Unreachable(described(brokers.view, partitions, brokers.reach.timeout_s))
    clock.sleep(RETRY_S)
    try:
        brokers.look(None)
    except Unreachable:
        if patience.is_over:
            raise
