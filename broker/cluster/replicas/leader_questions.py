"""The requests other than Fetch that a follower sends to its leader: OffsetForLeaderEpoch and
ListOffsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.cluster.peers.fitting import Value, fitting
from broker.cluster.peers.peer import Peer, PeerLost
from broker.cluster.replicas.followed import EndOfEpoch, EndsOfLog, Followed
from broker.cluster.replicas.replication_settings import ReplicationSettings
from protocol.errors import UNKNOWN_SERVER_ERROR
from protocol.messages import list_offsets, offset_for_leader_epoch
from protocol.schema import Api

EARLIEST, LATEST = -2, -1
"""The timestamps in ListOffsets that stand for the start offset and the end offset of a log."""
_UNANSWERED = {"error_code": UNKNOWN_SERVER_ERROR}


async def end_of_epochs(
    peer: Peer, settings: ReplicationSettings, asking: Sequence[Followed]
) -> list[tuple[Followed, EndOfEpoch]]:
    """For each partition, asks the leader for the end offset of one epoch in the leader's log: the
    last epoch in the follower's log. Returns the leader's answers. Raises PeerLost."""
    answers = await _ask(
        peer,
        settings,
        offset_for_leader_epoch.API,
        ("topic", "partition"),
        asking,
        lambda each: {
            "partition": each.place[1],
            "current_leader_epoch": each.leader_epoch,
            "leader_epoch": each.replica.log.epochs.latest,
        },
    )
    return [
        (
            each,
            EndOfEpoch(
                answer["error_code"],
                answer.get("leader_epoch", -1),
                answer.get("end_offset", -1),
            ),
        )
        for each, answer in answers
    ]


async def ends_of_logs(
    peer: Peer, settings: ReplicationSettings, asking: Sequence[Followed]
) -> list[tuple[Followed, EndsOfLog]]:
    """Returns the log start and end offsets of the leader's log of each partition. Raises
    PeerLost."""
    ends = [await _offsets(peer, settings, asking, timestamp) for timestamp in (EARLIEST, LATEST)]
    return [
        (
            each,
            EndsOfLog(
                start["error_code"] or end["error_code"],
                start.get("offset", -1),
                end.get("offset", -1),
            ),
        )
        for (each, start), (_, end) in zip(*ends, strict=True)
    ]


async def _offsets(
    peer: Peer, settings: ReplicationSettings, asking: Sequence[Followed], timestamp: int
) -> list[tuple[Followed, Value]]:
    return await _ask(
        peer,
        settings,
        list_offsets.API,
        ("name", "partition_index"),
        asking,
        lambda each: {
            "partition_index": each.place[1],
            "current_leader_epoch": each.leader_epoch,
            "timestamp": timestamp,
        },
    )


async def _ask(
    peer: Peer,
    settings: ReplicationSettings,
    api: Api,
    names: tuple[str, str],
    asking: Sequence[Followed],
    entry: Callable[[Followed], Value],
) -> list[tuple[Followed, Value]]:
    """Sends one request for all partitions. Returns the response entry of each partition, in the
    order of ``asking``."""
    version = settings.spoken.version_of(api.name)
    if version is None:
        raise PeerLost(f"the brokers of this cluster do not support {api.name}")
    topic_name, index_name = names
    topics: dict[str, list[Value]] = {}
    for each in asking:
        topics.setdefault(each.place[0], []).append(entry(each))
    value = {
        "replica_id": settings.node_id,
        "topics": [{topic_name: name, "partitions": found} for name, found in topics.items()],
    }
    answer = await peer.call(
        api, version, fitting(api.request, version, value), settings.socket_timeout_ms
    )
    found = {
        (topic[topic_name], each[index_name]): each
        for topic in answer["topics"]
        for each in topic["partitions"]
    }
    return [(each, found.get(each.place, _UNANSWERED)) for each in asking]
