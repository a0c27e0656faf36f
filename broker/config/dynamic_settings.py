"""The broker properties that can be changed at run time.

Source: Kafka 3.9 ``DynamicBrokerConfig.AllDynamicConfigs``. Changes of properties that have no
effect in Muster, such as sizes of thread pools, are refused, since an operator would expect an
effect. Defaults of topic settings can all be changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.config_table import BROKER_NAME_OF_TOPIC_SETTING, LIST, TOPIC, Setting
from broker.config.config_value import BadValue
from broker.config.listener_settings import row_of, split
from broker.config.protection import Unprotected, protects
from verdicts.thresholds import OLD_SETTINGS, SETTINGS

_STATIC_DEFAULTS = ("message.format.version",)
"""Topic settings whose default can't be changed while the broker runs, as in Kafka."""

DYNAMIC = frozenset(
    names[0]
    for topic, names in BROKER_NAME_OF_TOPIC_SETTING.items()
    if topic not in _STATIC_DEFAULTS
) | {
    *SETTINGS,
    *OLD_SETTINGS,
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
}
"""Properties that AlterConfigs and IncrementalAlterConfigs can change."""

RELOADED = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The settings of a listener's certificates. A change makes the broker reload the certificates."""
_OF_A_LISTENER = RELOADED | {"max.connection.creation.rate", "max.connections"}
"""Settings that can be changed for a single listener, with the listener's prefix."""

SHOWN_WHEN_SET = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "super.users",
    }
)
"""Properties that Kafka's broker does not define. DescribeConfigs lists such a property only if it
is set."""

NEVER_SET = frozenset({"replica.alter.log.dirs.io.max.bytes.per.second"})
"""A property that Kafka's tools delete after each reassignment, even if it was not set.

In Muster, replicas do not move between directories. Therefore the property can't be set, and its
deletion has no effect.
"""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""The values of the field ``config_operation`` in IncrementalAlterConfigs."""
_WORDS = ("set", "delete", "append to", "subtract from")


class NotAList(BadValue):
    """An append or subtract was requested for a setting that is not a list."""


def is_dynamic(name: str) -> bool:
    found = split(name)
    if found is None:
        return name in DYNAMIC
    return bool(found.listener) and not found.mechanism and found.base in _OF_A_LISTENER


def check_dynamic(configs: Mapping[str, str], *, of_every_broker: bool = False) -> None:
    """Raises BadValue for the first property that can't be changed at run time. If this property is
    a security setting that Muster does not support, raises Unprotected instead, so that the
    operator does not rely on the setting.

    ``of_every_broker`` is True if the change applies to all brokers.
    """
    for name in configs:
        if is_dynamic(name):
            if of_every_broker and name not in DYNAMIC:
                raise BadValue(
                    f"Cannot update {name} as the default of all brokers: set it for one broker by"
                    " its id"
                )
            continue
        if name in RELOADED:
            raise BadValue(
                f"Cannot update {name} dynamically: it can be updated only per-listener using the"
                " listener prefix"
            )
        if protects(name):
            raise Unprotected(
                f"Cannot update {name} dynamically: it is a security setting that Muster does not"
                " support"
            )
        row = row_of(name)
        if row is None:
            raise BadValue(f"Unknown broker config name: {name}")
        if not row.has_effect:
            raise BadValue(f"Cannot update {name} dynamically: it has no effect on this broker")
        raise BadValue(
            f"Cannot update {name} dynamically: set it in the properties file, and restart the"
            " broker"
        )


def with_operation(
    configs: Mapping[str, str],
    operation: int,
    setting: Setting,
    text: str,
    current: str,
) -> dict[str, str]:
    """Returns ``configs`` after one operation of IncrementalAlterConfigs. ``current`` is the
    current value of the setting.

    Raises NotAList if the setting does not support the operation.
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
    """Returns the row of a topic setting. Raises BadValue for an unknown name."""
    if name not in TOPIC:
        raise BadValue(f"Unknown topic config name: {name}")
    return TOPIC[name]


def broker_setting(name: str) -> Setting:
    """Returns the row of a broker property that can be changed at run time. Raises BadValue for
    other names."""
    check_dynamic({name: ""})
    row = row_of(name)
    assert row is not None
    return row
