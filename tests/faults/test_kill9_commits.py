"""Kill -9 between the arrival of a commit and its response loses no acknowledged commit, and stores
no commit that was not sent.

In each round, clients stream commits. The test suspends the broker at a random moment, computes
from the kernel's socket buffers which requests the broker has read, kills it, restarts it on the
same directory, and reads the offsets of all groups.
"""

from __future__ import annotations

import os
import random
import selectors
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests import waiting
from tests.brokers import KIND, Broker
from tests.faults.commit_stream import (
    CommitStream,
    History,
    number_of,
    queued_bytes,
    stand_still,
)
from tests.raw_connection import RawConnection

pytestmark = [pytest.mark.faults, pytest.mark.proves("faults 7")]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the sockets' queues")

ROUNDS = int(os.environ.get("MUSTER_KILL_ROUNDS", "50" if KIND == "muster" else "5"))
TOPIC = "killed"
# (version, partitions of each commit, requests in flight): the shapes that clients use.
SHAPES = ((9, 1, 64), (7, 10, 256), (2, 10, 64), (8, 40, 16), (8, 1, 1))


def _create_topic(connection: RawConnection) -> None:
    topic = {"name": TOPIC, "num_partitions": 40, "replication_factor": 1}
    made = connection.call("CreateTopics", 4, topics=[topic], timeout_ms=20000)
    assert made["topics"][0]["error_code"] == 0, made


def _read_back(port: int, group: str, history: History) -> int:
    """Returns the number of the last commit that the broker has stored for the group, or 0 if it
    has none."""
    with RawConnection(port) as connection:

        def fetch() -> dict[str, Any] | None:
            found = connection.call("OffsetFetch", 7, group_id=group, topics=None)
            assert found["error_code"] in (0, 14, 15, 16), found
            return found if found["error_code"] == 0 else None

        def coordinator_is_there() -> bool:
            return connection.call("FindCoordinator", 1, key=group, key_type=0)["error_code"] == 0

        waiting.until("the broker is its coordinator", coordinator_is_there)
        topics = waiting.until(f"{group} is loaded", fetch, tolerate=())["topics"]
    if not topics:
        return 0
    [topic] = topics
    found = {(p["committed_offset"], number_of(p["metadata"])) for p in topic["partitions"]}
    assert len(topic["partitions"]) == history.partitions, "part of a commit is missing"
    assert len(found) == 1, f"a commit was taken in part, or two were mixed: {found}"
    [(offset, number)] = found
    assert offset == number, "an offset that was never sent with this metadata"
    return offset


def _stream_until(streams: list[CommitStream], moment: float) -> None:
    selector = selectors.DefaultSelector()
    for stream in streams:
        stream.write()
        selector.register(stream.socket, selectors.EVENT_READ, stream)
    while (left := moment - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            key.data.read()
            key.data.write()


def _round(broker: Broker, histories: dict[str, History], chance: random.Random) -> int:
    """Streams commits and kills the broker. Returns the number of requests that the broker had read
    but not answered."""
    streams = [
        CommitStream(broker.port, group, histories[group], version, depth)
        for group, (version, _, depth) in zip(histories, SHAPES, strict=True)
    ]
    _stream_until(streams, time.monotonic() + chance.uniform(0.005, 0.12))
    stand_still(broker.pid)
    queues = queued_bytes()
    for stream in streams:  # responses written before the stop are acknowledgements
        stream.read()
    hit = sum(stream.arrived(queues) - stream.answers for stream in streams)
    broker.kill()
    for stream in streams:
        stream.read()
        stream.socket.close()
    return hit


@dataclass
class Campaign:
    """The counters of a test, summed over all rounds."""

    rounds: int = 0
    hits: int = 0
    acknowledged: int = 0
    kept_unanswered: int = 0


def _campaign(broker: Broker, rounds: int) -> Campaign:
    """Kills and restarts the broker ``rounds`` times, and reads the committed offsets after each
    restart. Raises AssertionError if an acknowledged commit is lost, or if the broker returns an
    offset that no client has committed."""
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"MUSTER_SEED={seed}")
    chance = random.Random(seed)
    histories = {
        f"group-{number}": History(TOPIC, partitions)
        for number, (_, partitions, _) in enumerate(SHAPES)
    }
    with RawConnection(broker.port) as connection:
        _create_topic(connection)
    for group, history in histories.items():
        assert _read_back(broker.port, group, history) == 0

    met = Campaign()
    for number in range(rounds):
        met.hits += _round(broker, histories, chance) > 0
        broker.start()
        for group, history in histories.items():
            found = _read_back(broker.port, group, history)
            told = f"round {number}, {group}, seed {seed}"
            assert found >= history.acknowledged, f"an acknowledged commit is missing: {told}"
            assert found <= history.sent, f"a commit that was never sent: {told}"
            met.kept_unanswered += found > history.acknowledged
            history.acknowledged = found  # a commit that was read once must not be lost later
        met.rounds += 1
    met.acknowledged = sum(history.acknowledged for history in histories.values())
    return met


# Small segments, so that they roll many times, and Muster cleans them, during the campaign.
SETTINGS = {"offsets.topic.segment.bytes": str(1 << 20)}


@on_linux
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [pytest.param(4, marks=pytest.mark.smoke), ROUNDS])
def test_broker_kills_lose_no_acknowledged_commit_and_store_no_unsent_commit(
    brokers: Callable[..., Broker], rounds: int
) -> None:
    broker = brokers(SETTINGS)
    met = _campaign(broker, rounds)
    print(
        f"{met.rounds} kills, {met.hits} between arrival and reply, {met.acknowledged} commits; "
        f"{met.kept_unanswered} times an unanswered commit was found after the restart"
    )
    assert met.hits >= rounds / 2, f"only {met.hits} kills met a request under way"
    assert broker.stop() in (0, 143)


@pytest.mark.smoke
@pytest.mark.planted("kill -9 under commits")
@on_linux
@pytest.mark.skipif(KIND == "kafka", reason="the fault is planted into Muster")
def test_kill_campaign_detects_a_broker_that_replies_before_it_writes(
    brokers: Callable[..., Broker],
) -> None:
    faulty = brokers(SETTINGS, command=[sys.executable, "tests/faults/early_answers.py"])
    with pytest.raises(AssertionError, match=r"an acknowledged commit is missing|part of a commit"):
        _campaign(faulty, 50)
