"""Which of the broker's properties can be changed while it runs.

Source: Kafka 3.9 ``DynamicBrokerConfig.AllDynamicConfigs``. Of those that no topic takes as its
default, the ones without effect here (threads of pools that this broker does not have, listeners,
certificates) are refused: nobody should wait for an effect that never comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.config_table import BROKER, BROKER_NAME_OF_TOPIC_SETTING, LIST, TOPIC, Setting
from broker.config.config_value import BadValue
from broker.config.protection import Unprotected, protects
from verdicts.thresholds import SETTINGS

_STATIC_DEFAULTS = ("message.format.version",)
"""Topic settings whose default Kafka fixes at the start."""

DYNAMIC = frozenset(
    names[0]
    for topic, names in BROKER_NAME_OF_TOPIC_SETTING.items()
    if topic not in _STATIC_DEFAULTS
) | {
    *SETTINGS,
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
}
"""Properties that AlterConfigs and IncrementalAlterConfigs change."""

SHOWN_WHEN_SET = frozenset(
    {"follower.replication.throttled.rate", "leader.replication.throttled.rate"}
)
"""Properties that Kafka knows at run time alone: DescribeConfigs names them once they are set."""

NEVER_SET = frozenset({"replica.alter.log.dirs.io.max.bytes.per.second"})
"""What Kafka's tools delete behind a reassignment, whether it was set or not. No replica moves
between directories here: setting it is refused, and there is nothing to delete."""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""``config_operation`` of IncrementalAlterConfigs."""
_WORDS = ("set", "delete", "append to", "subtract from")


class NotAList(BadValue):
    """An operation of lists on another setting."""


def check_dynamic(configs: Mapping[str, str]) -> None:
    """Raises BadValue for the first property that can't be changed at run time.

    Unprotected when it would protect: whoever sets it must not believe that it does.
    """
    for name in configs:
        if name in DYNAMIC:
            continue
        if protects(name):
            raise Unprotected(
                f"Cannot update {name} dynamically: it protects, and Muster does not have what it"
                " asks for"
            )
        if name not in BROKER:
            raise BadValue(f"Unknown broker config name: {name}")
        if not BROKER[name].has_effect:
            raise BadValue(f"Cannot update {name} dynamically: it has no effect on this broker")
        raise BadValue(
            f"Cannot update {name} dynamically: set it in the broker's properties and restart it"
        )


def with_operation(
    configs: Mapping[str, str],
    operation: int,
    setting: Setting,
    text: str,
    current: str,
) -> dict[str, str]:
    """``configs`` after one operation; ``current`` is the value that now holds.

    Raises NotAList for an operation that the setting does not take.
    """
    changed = dict(configs)
    if operation == SET:
        changed[setting.name] = text
    elif operation == DELETE:
        changed.pop(setting.name, None)
    else:
        if setting.type != LIST:
            raise NotAList(
                f"Can't {_WORDS[operation]} {setting.name}: its type is {setting.type}, not LIST"
            )
        there = [part for part in current.split(",") if part]
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if operation == APPEND:
            there += [part for part in dict.fromkeys(parts) if part not in there]
        else:
            there = [part for part in there if part not in parts]
        changed[setting.name] = ",".join(there)
    return changed


def topic_setting(name: str) -> Setting:
    """The row of a topic setting; BadValue when there is none."""
    if name not in TOPIC:
        raise BadValue(f"Unknown topic config name: {name}")
    return TOPIC[name]


def broker_setting(name: str) -> Setting:
    """The row of a broker property that can be changed at run time; BadValue otherwise."""
    check_dynamic({name: ""})
    return BROKER[name]
