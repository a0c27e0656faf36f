"""The nodes that exist once in a cluster: the controller, its epoch, the cluster id, and producer
ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from protocol.znodes.fields import INT32_MAX, INT64_MAX, BadNode, Fields, encode

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
PRODUCER_IDS = "/latest_producer_id_block"
FEATURE = "/feature"
_WITHOUT_MINIMUM = 2
"""The first version of ``/feature`` without minimum levels."""
_NO_LEVELS: Mapping[str, int] = {}

AT_START = (
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/admin/delete_topics",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/isr_change_notification",
    "/log_dir_event_notification",
    PRODUCER_IDS,
    "/consumers",
)
"""The nodes that every broker creates at its start, without data, if they do not exist."""


class ProducerIdBlock(NamedTuple):
    """The block of producer ids that was allocated last."""

    broker_id: int
    """The broker to which the block was allocated."""
    first: int
    last: int
    """The last producer id in the block."""


def encode_controller(broker_id: int, wall_ms: int) -> bytes:
    """Returns the data of the node with the controller's broker id. Version 2 (since 3.4) has a
    KRaft epoch, which is always -1."""
    return encode(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(wall_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> int:
    """Returns the broker id of the controller. Raises BadNode."""
    return Fields(CONTROLLER, data).number("brokerid")


def encode_epoch(epoch: int) -> bytes:
    """Returns the data of the node that contains the controller's epoch. The data is only this
    number, as text."""
    return str(epoch).encode()


def decode_epoch(data: bytes) -> int:
    """Returns the controller's epoch. Raises BadNode."""
    try:
        epoch = int(data)
    except ValueError:
        epoch = -1
    if not 0 <= epoch < INT32_MAX:
        raise BadNode(CONTROLLER_EPOCH, f"has {data[:40]!r}, which is not a number")
    return epoch


def encode_cluster_id(cluster_id: str) -> bytes:
    """Returns the data of the node with the cluster id. The version in the data is a string."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Returns the cluster id. Raises BadNode."""
    return Fields(CLUSTER_ID, data).text("id")


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Returns the data of the node with the last block of producer ids. The bounds of the block are
    strings, because they may exceed 32 bits."""
    return encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_ids(data: bytes) -> ProducerIdBlock | None:
    """Returns the last block of producer ids; None for a node without data. Raises BadNode."""
    if not data:
        return None
    fields = Fields(PRODUCER_IDS, data)
    return ProducerIdBlock(
        fields.number("broker"),
        fields.number("block_start", most=INT64_MAX),
        fields.number("block_end", most=INT64_MAX),
    )


def encode_feature(version: int, is_enabled: bool, levels: Mapping[str, int] = _NO_LEVELS) -> bytes:
    """Returns the data of ``/feature`` with the finalized level of each feature. Kafka before 3.3
    writes version 1, which also has a minimum level for each feature."""
    least = {"min_version_level": 1} if version < _WITHOUT_MINIMUM else {}
    features = {name: {**least, "max_version_level": level} for name, level in levels.items()}
    return encode({"version": version, "status": int(is_enabled), "features": features})


def decode_feature(data: bytes) -> dict[str, int]:
    """Returns the finalized levels in ``/feature``, by feature name. Raises BadNode."""
    fields = Fields(FEATURE, data)
    features = fields.all.get("features") or {}
    try:
        return {name: int(level["max_version_level"]) for name, level in features.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise fields.bad("features", "an object with max_version_level for each feature") from None
