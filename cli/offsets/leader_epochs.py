"""Leader epochs of committed offsets: finds those that the partition's own log confirms.

A consumer trusts the epoch stored with its offset. If it is above the partition's own, the consumer
waits for metadata that never arrive (Java consumers of 3.9.2 and 4.3.1 do so for ever). If it is of
another history, the consumer treats records as lost. An epoch belongs to a topic: that of another
cluster, or of a topic deleted and recreated since, has no meaning. So the leader is asked, and an
epoch that its log does not confirm is replaced by -1, unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cli.client.cluster import Cluster, Connection
from cli.client.offsets_at import Partition
from protocol.messages import BY_NAME

OFFSET_FOR_LEADER_EPOCH = BY_NAME["OffsetForLeaderEpoch"].key
LEFT_OUT = "without leader epoch {}: the log has another one at this offset"
"""The note on an offset whose epoch is left out."""
CHUNK = 2000
"""The maximum number of partitions in one request."""

_Epoch = tuple[Partition, int]


class Claim(NamedTuple):
    """An offset to be committed with an epoch."""

    key: Partition
    offset: int
    leader_epoch: int


def confirmed(cluster: Cluster, claims: Iterable[Claim]) -> set[Claim]:
    """The claims that a consumer would accept, by the check that it makes itself (KIP-320).

    The partition's log must have the epoch, or a later one, and its records up to that epoch must
    reach the offset. A claim that can't be checked is not confirmed.
    """
    wanted = {claim for claim in claims if claim.leader_epoch >= 0}
    if not wanted:
        return set()
    ends = _ends(cluster, {(claim.key, claim.leader_epoch) for claim in wanted})
    return {
        claim for claim in wanted if ends.get((claim.key, claim.leader_epoch), -1) >= claim.offset
    }


def _ends(cluster: Cluster, wanted: Iterable[_Epoch]) -> dict[_Epoch, int]:
    """The end offsets of epochs; -1 if the log has no such epoch."""
    there = {topic["name"] for topic in cluster.metadata(None)["topics"]}
    leaders = cluster.leaders(sorted({key[0] for key, _ in wanted} & there))
    found: dict[_Epoch, int] = {}
    for leader, epochs in _requests(leaders, wanted):
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, partition), epoch in epochs.items():
            topics.setdefault(topic, []).append({"partition": partition, "leader_epoch": epoch})
        listed = [{"topic": topic, "partitions": asked} for topic, asked in topics.items()]
        answer = leader.call("OffsetForLeaderEpoch", {"replica_id": -1, "topics": listed})
        for each in answer["topics"]:
            for entry in each["partitions"]:
                key = each["topic"], entry["partition"]
                if not entry["error_code"]:
                    found[key, epochs[key]] = entry["end_offset"]
    return found


def _requests(
    leaders: Mapping[Partition, Connection], wanted: Iterable[_Epoch]
) -> Iterator[tuple[Connection, dict[Partition, int]]]:
    """The requests to each leader, with a partition once per request: groups differ in their
    epochs.
    """
    requests: dict[tuple[Connection, int], dict[Partition, int]] = {}
    rounds: Counter[Partition] = Counter()
    for key, epoch in sorted(wanted):
        leader = leaders.get(key)
        if leader is None or OFFSET_FOR_LEADER_EPOCH not in leader.ranges:
            continue  # a broker without it, before 0.11, keeps no epochs either
        requests.setdefault((leader, rounds[key]), {})[key] = epoch
        rounds[key] += 1
    for (leader, _), epochs in requests.items():
        keys = list(epochs)
        for start in range(0, len(keys), CHUNK):
            yield leader, {key: epochs[key] for key in keys[start : start + CHUNK]}
