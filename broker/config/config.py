"""Configuration: Kafka's properties from file, environment, command line and run-time changes.

Owns the order of the sources (a file, the environment, ``--set``, flags, changes at run time; a
later one overrides an earlier one), the check against the tables of
`broker/config/config_table.py`, and the settings that a topic takes from the broker. Everything is
checked before the broker touches its data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from broker.config.config_table import (
    BROKER,
    BROKER_NAME_OF_TOPIC_SETTING,
    TOPIC,
    Setting,
    Value,
)
from broker.config.config_value import BadValue, parse_value
from broker.config.group_rules import check_groups
from broker.config.listeners import Endpoint, advertise, parse_host_and_port, parse_listeners
from broker.config.properties import parse
from broker.config.protection import VARIABLE_PREFIX, base_name, check_protection
from log.config import LONG_MAX, LogConfig, format_magic

_OF_COMMANDS = ("MUSTER_BOOTSTRAP", "MUSTER_HTTP", "MUSTER_SOURCE")
_OF_TESTS = "MUSTER_TEST_"
"""Variables of the command line's other commands, and of the tests."""

QUICK_START: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}
"""What holds without a file: where the server.properties that Kafka ships, which its quick start
runs with, differs from Kafka's defaults for one broker."""

DEFAULT_BROKER_ID = 1
_HOST_NAME = re.compile(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*")
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class BadConfig(Exception):
    """The configuration cannot be used; the text is one sentence for the operator."""


class Config:
    """Every setting by Kafka's name: ``config["log.retention.ms"]``, typed, None for null.

    ``given`` holds the texts that were set, by name; ``unknown`` the names that Kafka does not
    know. Raises BadConfig for a value that its setting does not take, and for settings that
    protect and would not (`broker/config/protection.py`).
    """

    def __init__(self, given: Mapping[str, str], preset: Mapping[str, Value] = {}) -> None:
        """``preset`` holds typed values, weaker than ``given``."""
        known = {name: text for name, text in given.items() if name in BROKER}
        self.given = {name: str(value) for name, value in preset.items()} | known
        self.unknown = sorted(name for name in given if base_name(name) is None)
        self.dynamic_default: Mapping[str, str] = {}
        """What was changed at run time for every broker, by name."""
        self.dynamic_own: Mapping[str, str] = {}
        """What was changed at run time for this broker; stronger."""
        self._static: dict[str, Value] = dict(preset)
        self._values = self._static
        self._topic_defaults: dict[str, Any] | None = None
        try:
            check_protection(given)
            for name, text in known.items():
                self._static[name] = parse_value(BROKER[name], text)
            self._check()
        except ValueError as error:
            raise BadConfig(str(error)) from None

    def __getitem__(self, name: str) -> Any:
        values = self._values
        return values[name] if name in values else BROKER[name].default

    def is_given(self, name: str) -> bool:
        """Whether a source set it before the start."""
        return name in self.given

    def static(self, name: str) -> Any:
        """The value without what was changed at run time."""
        return self._static.get(name, BROKER[name].default)

    def with_dynamic(self, default: Mapping[str, str], own: Mapping[str, str]) -> Config:
        """A copy with these settings of run time, for every broker and for this one.

        Raises BadValue.
        """
        other = copy(self)
        other.dynamic_default, other.dynamic_own = dict(default), dict(own)
        changed = {
            name: parse_value(BROKER[name], text) for name, text in {**default, **own}.items()
        }
        other._values = {**self._static, **changed}
        other._topic_defaults = None
        other._check()
        return other

    def with_static(self, fresh: Config, names: Iterable[str]) -> Config:
        """A copy in which these settings are what ``fresh`` has from before the start.

        Raises BadValue.
        """
        other = copy(self)
        taken = set(names)
        other.given = {name: text for name, text in self.given.items() if name not in taken}
        other.given |= {name: text for name, text in fresh.given.items() if name in taken}
        other._static = {name: each for name, each in self._static.items() if name not in taken}
        other._static |= {name: each for name, each in fresh._static.items() if name in taken}
        return other.with_dynamic(self.dynamic_default, self.dynamic_own)

    def adopt(self, other: Config) -> None:
        """Takes over a copy that `with_dynamic` or `with_static` made."""
        self.given, self._static = other.given, other._static
        self.dynamic_default, self.dynamic_own = other.dynamic_default, other.dynamic_own
        self._values, self._topic_defaults = other._values, other._topic_defaults

    @property
    def topic_defaults(self) -> Mapping[str, Any]:
        """Every setting of a topic without its own; worked out once, for thousands of topics."""
        if self._topic_defaults is None:
            self._topic_defaults = {
                name: _from_broker(self, setting) for name, setting in TOPIC.items()
            }
        return self._topic_defaults

    def first_given(self, *names: str) -> str | None:
        """The first of ``names`` that was set to something, the strongest first."""
        return next((name for name in names if self._values.get(name) is not None), None)

    def _check(self) -> None:
        """What no single value shows."""
        check_groups(self)
        ids = {self[name] for name in ("broker.id", "node.id") if self[name] >= 0}
        if len(ids) > 1:
            raise BadValue("broker.id and node.id mean the same and have different values")
        if len(self.directories) > 1:
            raise BadValue(
                f"log.dirs names {len(self.directories)} directories; Muster keeps its data in one"
            )
        self._check_http()
        advertise(self.listeners, self._advertised)
        self.connections_per_ip_overrides  # noqa: B018 - it raises what is wrong with it
        topic_settings(self, {})

    def _check_http(self) -> None:
        for name, nothing in (("http.listener", "off"), ("http.advertised.listener", "")):
            if self[name] != nothing:
                try:
                    parse_host_and_port(self[name])
                except ValueError as error:
                    raise BadValue(f"{name}: {error}") from None
        for name in filter(None, self["http.allowed.hosts"].split(",")):
            if _HOST_NAME.fullmatch(name) is None:
                raise BadValue(f"http.allowed.hosts={name}: it must be a name without a port, or *")

    # -- what follows from several settings

    @cached_property
    def listeners(self) -> list[Endpoint]:
        """Where to listen: for clients, not for the controller that a file of Kafka may name."""
        found = self._for_clients(self["listeners"])
        if not found:
            raise BadValue("every one of the listeners is a controller's; name one for clients")
        return found

    @cached_property
    def _advertised(self) -> list[Endpoint]:
        return self._for_clients(self["advertised.listeners"] or "")

    def _for_clients(self, text: str) -> list[Endpoint]:
        names = (self["controller.listener.names"] or "").upper().split(",")
        controllers = {name.strip() for name in names}
        kept = ",".join(
            entry
            for entry in text.split(",")
            if entry.strip().partition("://")[0].upper() not in controllers
        )
        return parse_listeners(kept, self["listener.security.protocol.map"]) if kept else []

    def advertised(self, bound_ports: Iterable[int]) -> list[Endpoint]:
        """The addresses that clients of each listener get, given the ports that are bound."""
        endpoints = advertise(self.listeners, self._advertised)
        return [
            Endpoint(endpoint.name, endpoint.host, endpoint.port or port)
            for endpoint, port in zip(endpoints, bound_ports, strict=True)
        ]

    @cached_property
    def directories(self) -> list[str]:
        """``log.dirs``, else ``log.dir``."""
        text = self["log.dirs"] or self["log.dir"]
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def configured_id(self) -> int | None:
        """``node.id``, else ``broker.id``; None when neither is set."""
        for name in ("node.id", "broker.id"):
            if self[name] >= 0:
                return int(self[name])
        return None

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """``max.connections.per.ip.overrides`` by address."""
        pairs = {}
        for part in filter(None, self["max.connections.per.ip.overrides"].split(",")):
            address, _, number = part.strip().rpartition(":")
            if not address or not number.isdigit():
                raise BadValue(
                    f"max.connections.per.ip.overrides={part}: it must be ADDRESS:NUMBER"
                )
            pairs[address.strip("[]")] = int(number)
        return pairs


# -- topics


def topic_settings(config: Config, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Every topic setting, typed: the topic's own, else the broker's, else the default.

    Raises BadValue for an unknown name or a value that its setting does not take.
    """
    values = dict(config.topic_defaults)
    for name, text in overrides.items():
        if name not in TOPIC:
            raise BadValue(f"Unknown topic config name: {name}")
        values[name] = parse_value(TOPIC[name], text)
    try:
        format_magic(values["message.format.version"])
    except ValueError as error:
        raise BadValue(f"message.format.version: {error}") from None
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        raise BadValue("min.compaction.lag.ms is above max.compaction.lag.ms")
    return values


def _from_broker(config: Config, setting: Setting) -> Any:
    names = BROKER_NAME_OF_TOPIC_SETTING.get(setting.name, ())
    found = config.first_given(*names)
    if found is None:
        # None of the names was set; the last has the default that is not null.
        return setting.default if not names else _scaled(names[-1], config[names[-1]])
    return _scaled(found, config[found])


def _scaled(name: str, value: Any) -> Any:
    """The broker's hours and minutes as the milliseconds of the topic's setting."""
    if name.endswith(".hours"):
        return value * _HOUR_MS if value >= 0 else -1
    if name.endswith(".minutes"):
        return value * _MINUTE_MS if value >= 0 else -1
    return value


def log_config(settings: Mapping[str, Any], config: Config) -> LogConfig:
    """What a log reads of its topic's settings."""
    fields = {
        field: settings[name]
        for field in LogConfig.__dataclass_fields__
        if (name := field.replace("_", ".")) in settings
    }
    return LogConfig(**fields, producer_id_expiration_ms=config["producer.id.expiration.ms"])


def timestamp_bounds(settings: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """How far behind and ahead of the clock timestamps may be; None for no bound.

    message.timestamp.difference.max.ms counts where the newer setting was left at its default.
    """
    old = settings["message.timestamp.difference.max.ms"]
    before = settings["message.timestamp.before.max.ms"]
    after = settings["message.timestamp.after.max.ms"]
    before = old if before == LONG_MAX else before
    after = old if after == LONG_MAX else after
    return (None if before == LONG_MAX else before), (None if after == LONG_MAX else after)


# -- sources


def load(
    file: Path | None,
    environment: Mapping[str, str],
    sets: Iterable[str],
    flags: Mapping[str, str],
) -> Config:
    """The configuration of a process; BadConfig with a sentence for whatever is wrong with it.

    Without a ``file`` the weakest source is QUICK_START.
    """
    given = {} if file is None else _from_file(file)
    given.update(_from_environment(environment))
    for pair in sets:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise BadConfig(f"--set {pair}: write it as --set NAME=VALUE")
        given[name.strip()] = text
    given.update(flags)
    return Config(given, QUICK_START if file is None else {})


def _from_file(file: Path) -> dict[str, str]:
    try:
        return parse(file.read_text())
    except OSError as error:
        raise BadConfig(f"--config {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"--config {file} is not a text file") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """``MUSTER_LOG_RETENTION_MS`` is ``log.retention.ms``; an unknown one keeps its own name."""
    by_variable = {name.replace(".", "_").upper(): name for name in BROKER}
    return {
        by_variable.get(variable.removeprefix(VARIABLE_PREFIX), variable): text
        for variable, text in environment.items()
        if variable.startswith(VARIABLE_PREFIX)
        and variable not in _OF_COMMANDS
        and not variable.startswith(_OF_TESTS)
    }
