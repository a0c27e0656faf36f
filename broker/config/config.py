"""The configuration: Kafka's properties as typed values, and values that are derived from several
properties.

This module checks properties against the tables of `broker/config/config_table.py`, applies changes
at run time, and derives the settings that a topic inherits from the broker. All settings are
checked before the broker touches its data. `broker/config/sources.py` reads the properties from
files and variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from broker.config.authorizer_rules import authorizer_faults
from broker.config.config_table import (
    BROKER_NAME_OF_TOPIC_SETTING,
    TOPIC,
    Setting,
    Value,
)
from broker.config.config_value import BadValue, Fault, parse_value
from broker.config.group_rules import group_faults
from broker.config.http_settings import HTTP, HttpTlsSettings, http_faults
from broker.config.listener_rules import listener_faults, name_faults
from broker.config.listener_settings import (
    ListenerSettings,
    MechanismSettings,
    row_of,
)
from broker.config.listeners import (
    Endpoint,
    advertise,
    is_address,
    is_name,
    parse_listeners,
)
from broker.config.not_followed import not_followed, refers_to_provider
from broker.config.protection import base_name, protection_fault
from log.config import LONG_MAX, LogConfig, format_magic

DEFAULT_BROKER_ID = 1
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class BadConfig(Exception):
    """The configuration can't be used. The exception's text names all faults in one line."""

    def __init__(self, sentence: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(sentence)
        self.faults = faults


class WrongUse(BadConfig):
    """A command-line option can't be parsed, or the file that it names can't be read."""


class Config:
    """The typed values of all settings, by Kafka's names, such as ``config["log.retention.ms"]``;
    None means null.

    ``given`` has the texts that were set, by name. ``unknown`` has the names that Kafka does not
    know. Raises BadConfig with all faults: invalid values, settings that contradict each other, and
    security settings that Muster does not support (`broker/config/protection.py`).
    """

    def __init__(self, given: Mapping[str, str], preset: Mapping[str, Value] = {}) -> None:
        """``preset`` has typed values that replace the defaults of settings. If a setting is in
        ``given`` and in ``preset``, the value in ``given`` applies."""
        known = {name: text for name, text in given.items() if row_of(name) is not None}
        self._named = list(given)
        self.given = {name: str(value) for name, value in preset.items()} | known
        bases = {name: base_name(name) for name in given}
        self.unknown = sorted(name for name, base in bases.items() if base is None)
        self.not_followed = {
            name: instead
            for name, text in sorted(given.items())
            if (instead := not_followed(bases[name], text, given)) is not None
        }
        """For each setting that Muster accepts but does not follow: a text that says what Muster
        does instead."""
        self.dynamic_default: Mapping[str, str] = {}
        """The settings that were changed at run time for all brokers."""
        self.dynamic_own: Mapping[str, str] = {}
        """Settings changed at run time for this broker. They override ``dynamic_default``."""
        self._static: dict[str, Value] = dict(preset)
        self._values = self._static
        self._topic_defaults: dict[str, Any] | None = None
        faults = list(self._take(given, known))
        if faults:
            raise BadConfig("; ".join(fault.sentence for fault in faults), faults)

    def __getitem__(self, name: str) -> Any:
        values = self._values
        return values[name] if name in values else row(name).default

    def of_listener(self, name: str) -> ListenerSettings:
        """Returns the settings of one listener, which may be the HTTP listener."""
        if name == HTTP:
            return HttpTlsSettings(self)
        return ListenerSettings(self, name)

    def of_mechanism(self, listener: str, mechanism: str) -> MechanismSettings:
        return MechanismSettings(self, listener, mechanism)

    def is_given(self, name: str) -> bool:
        """Returns True if a file, a variable or an option has set the setting at the start."""
        return name in self.given

    def static(self, name: str) -> Any:
        """Returns the value that a setting had at the start, without changes at run time."""
        return self._static[name] if name in self._static else row(name).default

    def with_dynamic(self, default: Mapping[str, str], own: Mapping[str, str]) -> Config:
        """Returns a copy with the dynamic settings ``default`` and ``own``. Raises BadValue."""
        other = copy(self)
        other.dynamic_default, other.dynamic_own = dict(default), dict(own)
        changed = {name: parse_value(row(name), text) for name, text in {**default, **own}.items()}
        other._values = {**self._static, **changed}
        other._topic_defaults = None
        other._check()
        return other

    def with_static(self, fresh: Config, names: Iterable[str]) -> Config:
        """Returns a copy in which the settings ``names`` have the static values of ``fresh``.
        Dynamic settings still override these values. Raises BadValue."""
        other = copy(self)
        taken = set(names)
        other.given = {name: text for name, text in self.given.items() if name not in taken}
        other.given |= {name: text for name, text in fresh.given.items() if name in taken}
        other._static = {name: each for name, each in self._static.items() if name not in taken}
        other._static |= {name: each for name, each in fresh._static.items() if name in taken}
        return other.with_dynamic(self.dynamic_default, self.dynamic_own)

    def adopt(self, other: Config) -> None:
        """Takes over the values of ``other``, which `with_dynamic` or `with_static` returned."""
        self.given, self._static = other.given, other._static
        self.dynamic_default, self.dynamic_own = other.dynamic_default, other.dynamic_own
        self._values, self._topic_defaults = other._values, other._topic_defaults

    @property
    def topic_defaults(self) -> Mapping[str, Any]:
        """The values of topic settings for topics without settings of their own."""
        if self._topic_defaults is None:
            self._topic_defaults = {
                name: _from_broker(self, setting) for name, setting in TOPIC.items()
            }
        return self._topic_defaults

    def first_given(self, *names: str) -> str | None:
        """Returns the first of ``names`` that has a value; None if all are null."""
        return next((name for name in names if self._values.get(name) is not None), None)

    def _take(self, given: Mapping[str, str], known: Mapping[str, str]) -> Iterator[Fault]:
        """Parses the texts of the settings. Yields every fault."""
        protecting = protection_fault(given)
        if protecting is not None:
            yield protecting
        wrong = set()
        has_providers = "config.providers" in map(base_name, given)
        for name, text in known.items():
            if has_providers and refers_to_provider(text):
                wrong.add(name)
                yield Fault(
                    (name,),
                    f"{name}: the value refers to a config provider; Muster does not support"
                    " config providers: write the value itself",
                )
                continue
            try:
                self._static[name] = parse_value(row(name), text)
            except BadValue as error:
                wrong.add(name)
                yield Fault((name,), str(error))
        for fault in self._faults():
            if wrong.isdisjoint(fault.names):
                yield fault

    def _check(self) -> None:
        for fault in self._faults():
            raise BadValue(fault.sentence)

    def _faults(self) -> Iterator[Fault]:
        """Yields faults of settings that contradict each other, and of unusable listeners."""
        yield from group_faults(self)
        yield from authorizer_faults(self)
        ids = {self[name] for name in ("broker.id", "node.id") if self[name] >= 0}
        if len(ids) > 1:
            yield Fault(
                ("broker.id", "node.id"),
                "broker.id and node.id are the same setting, but have different values",
            )
        if len(self.directories) > 1:
            yield Fault(
                ("log.dirs", "log.dir"),
                f"log.dirs has {len(self.directories)} directories, but Muster has one data"
                " directory: name only one",
            )
        yield from http_faults(self)
        yield from self._listener_faults()
        yield from self._connection_faults()
        yield from _topic_faults(self.topic_defaults)

    def _connection_faults(self) -> Iterator[Fault]:
        bound, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
        faults = [*_raised((overrides,), lambda: self.connections_per_ip_overrides)]
        yield from faults
        if not faults and not self[bound] and not self.connections_per_ip_overrides:
            yield Fault(
                (bound, overrides), f"{bound}=0 without {overrides} rejects every connection"
            )

    def _listener_faults(self) -> Iterator[Fault]:
        beside = ("listener.security.protocol.map", "controller.listener.names")
        faults = [
            *_raised(("listeners", *beside), lambda: self.listeners, "listeners: "),
            *_raised(
                ("advertised.listeners", *beside),
                lambda: self._advertised,
                "advertised.listeners: ",
            ),
        ]
        yield from faults
        if not faults:
            names = ("advertised.listeners", "listeners", *beside)
            yield from _raised(names, lambda: advertise(self.listeners, self._advertised))
            named = [endpoint.name for endpoint in self.listeners]
            set_ones = {*self._named, *self.dynamic_default, *self.dynamic_own}
            yield from name_faults(set_ones, named, self._controllers)
            yield from listener_faults(self)

    # -- derived from several settings

    @cached_property
    def listeners(self) -> list[Endpoint]:
        """The listeners for clients, without those that are listeners of a Kafka controller."""
        found = self._for_clients(self["listeners"])
        if not found:
            raise BadValue(
                "listeners has only listeners of a controller: add a listener for clients"
            )
        return found

    @cached_property
    def _advertised(self) -> list[Endpoint]:
        return self._for_clients(self["advertised.listeners"] or "")

    @property
    def _controllers(self) -> set[str]:
        names = (self["controller.listener.names"] or "").upper().split(",")
        return {name.strip() for name in names}

    def _for_clients(self, text: str) -> list[Endpoint]:
        kept = ",".join(
            entry
            for entry in text.split(",")
            if entry.strip().partition("://")[0].upper() not in self._controllers
        )
        return parse_listeners(kept, self["listener.security.protocol.map"]) if kept else []

    def advertised(self, bound_ports: Iterable[int]) -> list[Endpoint]:
        """Returns the advertised address of each listener. Bound ports replace port 0."""
        endpoints = advertise(self.listeners, self._advertised)
        return [
            endpoint._replace(port=endpoint.port or port)
            for endpoint, port in zip(endpoints, bound_ports, strict=True)
        ]

    @cached_property
    def directories(self) -> list[str]:
        """The directories in ``log.dirs``, or in ``log.dir`` if ``log.dirs`` is not set."""
        text = self["log.dirs"] or self["log.dir"]
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def is_in_cluster(self) -> bool:
        """True if ``zookeeper.connect`` is set, so that the broker joins a cluster."""
        return bool((self["zookeeper.connect"] or "").strip())

    @property
    def inter_broker_listener(self) -> str:
        """The name of the inter-broker listener; ``listeners`` may lack it."""
        name = self["inter.broker.listener.name"] or self["security.inter.broker.protocol"]
        return str(name).strip().upper()

    @property
    def configured_id(self) -> int | None:
        """The value of ``node.id``, or else of ``broker.id``; None if neither is set."""
        for name in ("node.id", "broker.id"):
            if self[name] >= 0:
                return int(self[name])
        return None

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """The values of ``max.connections.per.ip.overrides``, by IP address or host name."""
        setting, pairs = "max.connections.per.ip.overrides", {}
        for part in filter(None, map(str.strip, self[setting].split(","))):
            host, _, number = part.rpartition(":")
            if not host or not (number.isascii() and number.isdecimal()):
                raise BadValue(f"{setting}={part}: it must be ADDRESS:NUMBER")
            if ":" in host and host.startswith("[") and host.endswith("]"):
                host = host[1:-1]
            if not is_address(host) and not is_name(host):
                raise BadValue(f"{setting}={part}: {host} is neither an address nor a host name")
            pairs[host] = int(number)
        return pairs


def _raised(
    names: tuple[str, ...], read: Callable[[], object], before: str = ""
) -> Iterator[Fault]:
    """Calls ``read``. If it raises ValueError, yields a fault of the settings ``names``."""
    try:
        read()
    except ValueError as error:
        yield Fault(names, f"{before}{error}")


def row(name: str) -> Setting:
    """Returns the setting's entry in the table. ``name`` may have a prefix. Raises BadValue."""
    found = row_of(name)
    if found is None:
        raise BadValue(f"Unknown broker config name: {name}")
    return found


# -- topics


def topic_settings(config: Config, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Returns the typed value of every topic setting: the topic's own value, else the broker's
    value, else the default. Raises BadValue."""
    values = dict(config.topic_defaults)
    for name, text in overrides.items():
        if name not in TOPIC:
            raise BadValue(f"Unknown topic config name: {name}")
        values[name] = parse_value(TOPIC[name], text)
    for fault in _topic_faults(values):
        raise BadValue(fault.sentence)
    return values


def _topic_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yields the faults in topic settings. A fault names the broker setting that has the value."""
    yield from _raised(
        BROKER_NAME_OF_TOPIC_SETTING["message.format.version"],
        lambda: format_magic(values["message.format.version"]),
        "message.format.version: ",
    )
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if values[low] > values[high]:
        names = (*BROKER_NAME_OF_TOPIC_SETTING[low], *BROKER_NAME_OF_TOPIC_SETTING[high])
        yield Fault(names, f"{low} must not be above {high}")


def _from_broker(config: Config, setting: Setting) -> Any:
    names = BROKER_NAME_OF_TOPIC_SETTING.get(setting.name, ())
    found = config.first_given(*names)
    if found is None:
        # None of the names was set; the last has the default that is not null.
        return setting.default if not names else _scaled(names[-1], config[names[-1]])
    return _scaled(found, config[found])


def _scaled(name: str, value: Any) -> Any:
    """Converts a broker setting in hours or minutes to the topic setting's milliseconds."""
    if name.endswith(".hours"):
        return value * _HOUR_MS if value >= 0 else -1
    if name.endswith(".minutes"):
        return value * _MINUTE_MS if value >= 0 else -1
    return value


def log_config(settings: Mapping[str, Any], config: Config) -> LogConfig:
    """Returns those settings of a topic that its logs use."""
    fields = {
        field: settings[name]
        for field in LogConfig.__dataclass_fields__
        if (name := field.replace("_", ".")) in settings
    }
    return LogConfig(**fields, producer_id_expiration_ms=config["producer.id.expiration.ms"])


def timestamp_bounds(settings: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns how many ms a timestamp may be before and after the broker's clock; None without a
    bound.

    The older setting message.timestamp.difference.max.ms applies where a newer setting has its
    default.
    """
    old = settings["message.timestamp.difference.max.ms"]
    before = settings["message.timestamp.before.max.ms"]
    after = settings["message.timestamp.after.max.ms"]
    before = old if before == LONG_MAX else before
    after = old if after == LONG_MAX else after
    return (None if before == LONG_MAX else before), (None if after == LONG_MAX else after)
