"""The settings in DescribeConfigs responses: values, sources and synonyms.

Source: Kafka 3.9 ``ConfigHelper``. Several broker properties may be synonyms of one setting, such
as log.retention.ms and log.retention.hours. For a setting that is not set, the response lists
synonyms only if the first of these broker properties has a default, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from broker.config.config import Config, row, topic_settings
from broker.config.config_table import (
    BROKER,
    BROKER_NAME_OF_TOPIC_SETTING,
    PASSWORD,
    TOPIC,
    Setting,
)
from broker.config.config_value import WIRE_TYPES, parse_value, render
from broker.config.dynamic_settings import DYNAMIC, SHOWN_WHEN_SET, is_dynamic
from broker.config.group_settings import GROUP, broker_name
from broker.config.listener_settings import split

TOPIC_SOURCE = 1
DYNAMIC_BROKER_SOURCE = 2
DYNAMIC_DEFAULT_SOURCE = 3
STATIC_BROKER_SOURCE = 4
DEFAULT_SOURCE = 5
GROUP_SOURCE = 8

_NO_EFFECT = "Accepted, but without effect in Muster."


def topic_entries(config: Config, overrides: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yields the response entry of every topic setting. ``overrides`` are the topic's own
    settings."""
    values = topic_settings(config, overrides)
    for name, setting in sorted(TOPIC.items()):
        value = render(setting, values[name])
        synonyms = list(_synonyms(config, BROKER_NAME_OF_TOPIC_SETTING.get(name, ())))
        if name in overrides:
            synonyms.insert(0, {"name": name, "value": value, "source": TOPIC_SOURCE})
        yield _entry(setting, value, synonyms, read_only=False)


def group_entries(config: Config, overrides: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yields the response entry of every group setting. ``overrides`` are the group's own
    settings."""
    for name, setting in sorted(GROUP.items()):
        of_broker = broker_name(name)
        if of_broker is None:
            default = render(setting, setting.default)
            synonyms: list[dict[str, Any]] = [
                {"name": name, "value": default, "source": DEFAULT_SOURCE}
            ]
        else:
            synonyms = list(_synonyms(config, (of_broker,)))
        if name in overrides:
            value = render(setting, parse_value(setting, overrides[name]))
            synonyms.insert(0, {"name": name, "value": value, "source": GROUP_SOURCE})
        yield _entry(setting, synonyms[0]["value"], synonyms, read_only=False)


def broker_entries(config: Config, http: str) -> Iterator[dict[str, Any]]:
    """Yields the response entry of every property of this broker. Passwords have no values.

    ``http`` is the value of http.advertised.listener. It has the bound port if the configured port
    is 0.
    """
    for name, setting in sorted(BROKER.items()):
        value = render(setting, config[name])
        if name == "http.advertised.listener":
            value = http
        synonyms = list(_synonyms(config, _names(name)))
        if name in SHOWN_WHEN_SET and synonyms[0]["source"] == DEFAULT_SOURCE:
            continue
        yield _entry(setting, value, synonyms, read_only=name not in DYNAMIC)
    for name in sorted({*config.given, *config.dynamic_own, *config.dynamic_default} - {*BROKER}):
        yield _listener_entry(config, name)


def _listener_entry(config: Config, name: str) -> dict[str, Any]:
    """Returns the response entry of a setting of one listener or mechanism. The synonyms in the
    entry include the broker setting that this setting overrides."""
    setting = row(name)
    found = split(name)
    synonyms = list(_synonyms(config, (name, found.base) if found else (name,)))
    return _entry(setting, render(setting, config[name]), synonyms, read_only=not is_dynamic(name))


def cluster_entries(config: Config) -> Iterator[dict[str, Any]]:
    """Yields the response entries of settings that were changed at run time for all brokers."""
    for name, text in sorted(config.dynamic_default.items()):
        setting = row(name)
        value = render(setting, parse_value(setting, text))
        synonym = {"name": name, "value": value, "source": DYNAMIC_DEFAULT_SOURCE}
        yield _entry(setting, value, [synonym], read_only=False)


def _names(name: str) -> tuple[str, ...]:
    """Returns a property and the properties that it overrides, such as log.retention.hours for
    log.retention.ms."""
    for names in BROKER_NAME_OF_TOPIC_SETTING.values():
        if names[0] == name:
            return names
    return (name,)


def _synonyms(config: Config, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yields the values that a setting has at all levels, each with its source. The first one is
    the value in effect. ``names`` has the setting itself, followed by the settings that apply if it
    is not set."""
    rows = {name: row(name) for name in names}
    changed = [
        (name, render(rows[name], parse_value(rows[name], texts[name])), source)
        for texts, source in (
            (config.dynamic_own, DYNAMIC_BROKER_SOURCE),
            (config.dynamic_default, DYNAMIC_DEFAULT_SOURCE),
        )
        for name in names
        if name in texts
    ]
    given = [
        (name, render(rows[name], config.static(name)), STATIC_BROKER_SOURCE)
        for name in names
        if config.is_given(name)
    ]
    defaults = [
        (name, render(BROKER[name], BROKER[name].default), DEFAULT_SOURCE)
        for name in names
        if name in BROKER and BROKER[name].default is not None
    ]
    found = [*changed, *given, *defaults]
    while found and found[0][0] != names[0]:
        if found[0][2] == STATIC_BROKER_SOURCE:
            break  # Kafka omits this source; Muster shows where the value is set
        found.pop(0)
    for name, value, source in found:
        yield {"name": name, "value": value, "source": source}


def _entry(
    setting: Setting, value: str | None, synonyms: list[dict[str, Any]], read_only: bool
) -> dict[str, Any]:
    source = synonyms[0]["source"] if synonyms else DEFAULT_SOURCE
    return {
        "name": setting.name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_default": source == DEFAULT_SOURCE,
        "is_sensitive": setting.type == PASSWORD,
        "synonyms": synonyms,
        "config_type": WIRE_TYPES[setting.type],
        "documentation": setting.doc or _NO_EFFECT,
    }
