"""Settings of single listeners and mechanisms: how their names are parsed, and which setting takes
precedence.

  listener.name.internal.ssl.keystore.location            of the listener INTERNAL
  listener.name.internal.scram-sha-256.sasl.jaas.config   of one mechanism on INTERNAL
  scram-sha-256.sasl.jaas.config                          of one mechanism on all listeners

The listener and the mechanism must be in lower case. Kafka ignores a name in upper case, so that
the intended protection has no effect. In Muster, such a name fails the start. A name also fails the
start if its listener does not exist, or if listeners do not have its setting. Source: KIP-103,
KIP-226.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, Protocol

from broker.config.config_table import BROKER, ONLY_IN_KAFKA_4, Setting
from broker.config.config_value import BadValue
from broker.config.variables import as_variable

START: Final = "listener.name."
"""The prefix of a setting for one listener."""
VARIABLE_START: Final = "LISTENER_NAME_"
"""The beginning, after MUSTER_, of an environment variable that sets a setting for one listener."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that Muster supports."""
UNSERVED: Final = "GSSAPI"
"""The mechanism that Kafka supports but Muster does not. Names of its settings are recognized."""

_FAMILIES: Final = ("ssl.", "sasl.")
_SINGLE: Final = frozenset(
    (
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "num.network.threads",
        "principal.builder.class",
    )
)
OF_LISTENERS: Final = frozenset(
    name
    for name in BROKER
    if name in _SINGLE or (name.startswith(_FAMILIES) and name not in ONLY_IN_KAFKA_4)
)
"""The settings that can be set for a single listener."""
OF_MECHANISMS: Final = frozenset(name for name in OF_LISTENERS if name.startswith("sasl.")) | {
    "connections.max.reauth.ms"
}
"""The settings that can be set for a single mechanism."""


class SettingName(NamedTuple):
    """The parts of the name of a setting."""

    listener: str
    """The name of the listener as written; "" if the setting applies to all listeners."""
    mechanism: str
    """The name of the mechanism as written; "" if the setting applies to all mechanisms."""
    base: str
    """The name of the broker setting that this setting overrides."""


def split(name: str) -> SettingName | None:
    """Returns the parts of a name with the prefix of a listener or mechanism; None for a name
    without such a prefix."""
    listener, rest = "", name
    if name.lower().startswith(START):
        labels = name.split(".")[2:]
        # The listener's name may have dots. The longest known rest is the setting.
        for end in range(1, len(labels)):
            found = _of_mechanism(".".join(labels[end:]))
            if found is not None:
                return SettingName(".".join(labels[:end]), *found)
        return None
    found = _of_mechanism(rest)
    return None if found is None or not found[0] else SettingName(listener, *found)


def row_of(name: str) -> Setting | None:
    """Returns the definition of a setting; None if the setting is unknown. If ``name`` has the
    prefix of a listener or mechanism, the definition contains the name with the prefix."""
    if name in BROKER:
        return BROKER[name]
    found = split(name)
    return None if found is None else BROKER[found.base]._replace(name=name)


def check_name(name: str, listeners: Collection[str]) -> None:
    """Raises BadValue for a name that has no effect. ``listeners`` has the names of the existing
    listeners."""
    found = split(name)
    if found is None:
        if name.lower().startswith(START):
            raise BadValue(f"{name}: unknown setting of a listener")
        return
    lower = found._replace(listener=found.listener.lower(), mechanism=found.mechanism.lower())
    if name.lower().startswith(START):
        rest = ".".join(filter(None, lower[1:]))
        right = f"{START}{lower.listener}.{rest}"
    else:
        right = f"{lower.mechanism}.{lower.base}"
    if name != right:
        raise BadValue(f"{name}: write listener and mechanism in lower case: {right}")
    if found.listener and found.listener.upper() not in listeners:
        raise BadValue(
            f"{name}: listener {found.listener.upper()} does not exist; listeners has"
            f" {', '.join(listeners)}"
        )


def name_of_variable(variable: str, listeners: Iterable[str]) -> str | None:
    """Returns the setting that a variable names; None if it is unknown or ambiguous. ``variable``
    is the variable's name after MUSTER_.

    Dots, dashes and underscores in the name of a listener are all written as underscores in a
    variable.
    """
    if not variable.startswith(VARIABLE_START):
        return _names_by_variable().get(variable)
    rest = variable.removeprefix(VARIABLE_START)
    found = [
        f"{START}{listener.lower()}.{name}"
        for listener in listeners
        if (start := f"{as_variable(listener)}_") and rest.startswith(start)
        if (name := _names_by_variable().get(rest.removeprefix(start))) is not None
    ]
    return found[0] if len(found) == 1 else None


class Values(Protocol):
    """The methods of `Config` that `ListenerSettings` uses."""

    def __getitem__(self, name: str) -> Any:
        """Returns the value of a setting by its full name."""

    def first_given(self, *names: str) -> str | None:
        """Returns the first of the names that is set; None if none is set."""


class ListenerSettings:
    """The settings of one listener. A setting of the listener overrides the broker setting."""

    def __init__(self, config: Values, listener: str) -> None:
        self._config = config
        self._start = f"{START}{listener.lower()}."

    def __getitem__(self, setting: str) -> Any:
        found = self._config.first_given(self._start + setting, setting)
        return self._config[found or setting]

    def own(self, setting: str) -> Any:
        """Returns the value that is set for this listener only; None if it is not set."""
        found = self._config.first_given(self._start + setting)
        return None if found is None else self._config[found]


class MechanismSettings:
    """The settings of one mechanism on one listener. A setting of the listener overrides a setting
    of all listeners."""

    def __init__(self, config: Values, listener: str, mechanism: str) -> None:
        start, mechanism = f"{START}{listener.lower()}.", f"{mechanism.lower()}."
        self._config = config
        self._own = (start + mechanism, mechanism)
        self._starts = (*self._own, start, "")

    def __getitem__(self, setting: str) -> Any:
        found = self._config.first_given(*(start + setting for start in self._starts))
        return self._config[found or setting]

    def own(self, setting: str) -> Any:
        """Returns the value that the configuration sets for this mechanism. It may be set for this
        listener or for all listeners. None if it is not set."""
        found = self._config.first_given(*(start + setting for start in self._own))
        return None if found is None else self._config[found]


def _of_mechanism(rest: str) -> tuple[str, str] | None:
    """Returns the mechanism and the setting in ``rest``, the part of a setting's name after the
    name of the listener. The mechanism is "" if the setting applies to the whole listener. Returns
    None for an unknown setting."""
    if rest in OF_LISTENERS:
        return "", rest
    mechanism, _, base = rest.partition(".")
    if mechanism.upper() in (*MECHANISMS, UNSERVED) and base in OF_MECHANISMS:
        return mechanism, base
    return None


@cache
def _names_by_variable() -> Mapping[str, str]:
    """Returns all settings that can be set for one listener, or for one mechanism of a listener. A
    value is the name of a setting. Its key is the name in the form of an environment variable,
    without the prefix of the listener."""
    of_mechanisms = [
        f"{mechanism.lower()}.{name}" for mechanism in MECHANISMS for name in OF_MECHANISMS
    ]
    return {as_variable(name): name for name in (*OF_LISTENERS, *of_mechanisms)}
