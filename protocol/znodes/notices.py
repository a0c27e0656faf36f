"""Sequential nodes that notify brokers of changed configs, changed ISRs and failed log
directories."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.znodes.fields import Fields, encode, partition_list

CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"
LOG_DIR_FAILURE = 1

Place = tuple[str, int]
"""Topic and partition number."""


def number_of(name: str) -> int:
    """Returns the number that ZooKeeper added to the name of a sequential node; -1 if the name has
    no number."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


def encode_config_change(entity_path: str) -> bytes:
    """Returns the data of a notice with the path of the changed entity, such as ``topics/orders``
    or ``users/a/clients/b``. Kafka uses this format since 0.10.1."""
    return encode({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """Returns the path of the entity whose settings have changed. Accepts notices of version 1 too.
    Raises BadNode."""
    fields = Fields(path, data)
    version = fields.number("version")
    if version == 1:
        return f"{fields.text('entity_type')}/{fields.text('entity_name')}"
    if version != 2:
        raise fields.bad("version", "1 or 2")
    return fields.text("entity_path")


def encode_isr_change(places: Sequence[Place]) -> bytes:
    """Returns the data of a notice with the partitions whose leader has changed the ISR."""
    return encode({"version": 1, "partitions": partition_list(places)})


def decode_isr_change(path: str, data: bytes) -> list[Place]:
    """Returns the partitions in a notice. The leaders of these partitions have changed the ISR.
    Raises BadNode."""
    there = Fields(path, data).partitions("partitions")
    return [(each["topic"], each["partition"]) for each in there]


def encode_log_dir_event(broker_id: int) -> bytes:
    """Returns the data of the notice that a log directory of a broker has failed (KIP-112)."""
    return encode({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes) -> int:
    """Returns the id of the broker whose log directory has failed. Raises BadNode."""
    return Fields(path, data).number("broker")
