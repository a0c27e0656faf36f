"""Checks the leader epochs of offsets against the partition's log before the offsets are committed.

A consumer trusts the leader epoch of a committed offset. If the epoch is newer than the partition's
epoch, the consumer waits for newer metadata (Java consumers 3.9.2 and 4.3.1 wait forever). If the
log has the epoch at other offsets, the consumer treats records as lost. An epoch of another cluster
or of a recreated topic has no meaning.

Therefore commands query the leader. An epoch that the log does not confirm is replaced by -1
(unknown).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cli.client.cluster import Cluster, Connection
from cli.client.offsets_at import Partition
from protocol.messages import BY_NAME

OFFSET_FOR_LEADER_EPOCH = BY_NAME["OffsetForLeaderEpoch"].key
LEFT_OUT = "leader epoch {} is left out: the log has a different epoch at this offset"
"""The note about an offset that is committed without its leader epoch."""
CHUNK = 2000
"""The maximum number of partitions in one request."""

_Epoch = tuple[Partition, int]


class Claim(NamedTuple):
    """An offset to be committed together with a leader epoch."""

    key: Partition
    offset: int
    leader_epoch: int


def confirmed(cluster: Cluster, claims: Iterable[Claim]) -> set[Claim]:
    """Returns the claims that a consumer would accept by its own check (KIP-320).

    The log must contain the claimed epoch or a later epoch, and the claimed epoch must not end
    before the claimed offset. A claim that can't be checked is not returned.
    """
    wanted = {claim for claim in claims if claim.leader_epoch >= 0}
    if not wanted:
        return set()
    ends = _ends(cluster, {(claim.key, claim.leader_epoch) for claim in wanted})
    return {
        claim for claim in wanted if ends.get((claim.key, claim.leader_epoch), -1) >= claim.offset
    }


def _ends(cluster: Cluster, wanted: Iterable[_Epoch]) -> dict[_Epoch, int]:
    """Returns the end offset of each leader epoch; -1 if the log does not contain the epoch."""
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
    """Yields requests to each leader. A request contains a partition at most once, with one epoch.
    Several requests are necessary if groups have offsets with different epochs in a partition."""
    requests: dict[tuple[Connection, int], dict[Partition, int]] = {}
    rounds: Counter[Partition] = Counter()
    for key, epoch in sorted(wanted):
        leader = leaders.get(key)
        if leader is None or OFFSET_FOR_LEADER_EPOCH not in leader.ranges:
            continue  # brokers before 0.11 have no such request and no leader epochs
        requests.setdefault((leader, rounds[key]), {})[key] = epoch
        rounds[key] += 1
    for (leader, _), epochs in requests.items():
        keys = list(epochs)
        for start in range(0, len(keys), CHUNK):
            yield leader, {key: epochs[key] for key in keys[start : start + CHUNK]}
