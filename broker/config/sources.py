"""The sources of properties, in ascending precedence: a file, environment variables, ``--set`` and
other command-line options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from broker.config.config import BadConfig, Config, WrongUse
from broker.config.config_table import BROKER, Value
from broker.config.config_value import Fault
from broker.config.listener_settings import name_of_variable
from broker.config.listeners import names_in
from broker.config.protection import base_name, protects
from broker.config.unknown_names import REMOVED
from broker.config.variables import (
    as_variable,
    dotted,
    kafka_settings_in,
    name_after_prefix,
    settings_in,
)
from protocol.properties import parse

_LETTERS_MAX = 16 << 20
"""The maximum number of characters that are read from a file. A device such as /dev/zero has no
end."""

QUICK_START: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}
"""A broker that starts without a file uses these values instead of Kafka's defaults. The
server.properties of Kafka's quick start (a single broker) contains the same values."""


def load(
    file: Path | None,
    environment: Mapping[str, str],
    sets: Iterable[str],
    flags: Mapping[str, str],
    preset: Mapping[str, Value] = {},
    *,
    kafka_env: bool = False,
) -> Config:
    """Returns the configuration of a process. ``preset`` contains typed values that replace the
    default values of settings. Without a ``file``, the values in QUICK_START replace default values
    too.

    If ``kafka_env`` is True, the environment variables of Kafka's images are also read, but
    Muster's variables override them. Raises BadConfig with all faults, and WrongUse if a source of
    settings can't be read.
    """
    given = {} if file is None else _from_file(file)
    variables = _from_environment(environment, kafka_env)
    stronger = {}
    for pair in sets:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise WrongUse(f"--set {pair}: write it as --set NAME=VALUE")
        stronger[name.strip()] = text
    stronger.update(flags)
    derived = {}
    if kafka_env and "listeners" not in {**given, **variables, **stronger}:
        derived = _listeners_of_images(variables)
        variables |= derived
    default = {"listeners": BROKER["listeners"].default}
    listeners = {**default, **preset, **given, **variables, **stronger}["listeners"]
    names = names_in(str(listeners))
    given |= _of_listeners(variables, names)
    given |= stronger
    try:
        return Config(given, {**(QUICK_START if file is None else {}), **preset})
    except BadConfig as error:
        origins = _origins(settings_in(environment, kafka=kafka_env), names)
        faults = [
            _with_origins(fault, {name: origins[name] for name in origins.keys() - stronger.keys()})
            for fault in (_without_derived(error.faults) if derived else error.faults)
        ]
        raise BadConfig("; ".join(fault.sentence for fault in faults), faults) from None


def ignored_kafka_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns the variables in the environment that Kafka's images would read as settings."""
    return sorted(
        variable
        for variable in kafka_settings_in(environment)
        if base_name(variable) is not None or protects(variable) or dotted(variable) in REMOVED
    )


def _from_file(file: Path) -> dict[str, str]:
    try:
        with file.open() as opened:
            text = opened.read(_LETTERS_MAX + 1)
    except OSError as error:
        raise WrongUse(f"--config {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUse(f"--config {file} is not a text file") from None
    if len(text) > _LETTERS_MAX:
        raise WrongUse(f"--config {file} is larger than {_LETTERS_MAX >> 20} MiB")
    return parse(text)


def _from_environment(environment: Mapping[str, str], kafka_env: bool) -> dict[str, str]:
    """Returns the settings in environment variables, by the name of the setting:
    ``MUSTER_LOG_RETENTION_MS`` sets ``log.retention.ms``. If a variable matches no setting, the
    name of the variable is the key."""
    by_variable = {as_variable(name): name for name in BROKER}
    return {
        by_variable.get(name_after_prefix(variable) or "", variable): text
        for variable, text in settings_in(environment, kafka=kafka_env).items()
    }


def _origins(variables: Iterable[str], listeners: list[str]) -> dict[str, str]:
    """Returns for each setting the variable that sets it. ``variables`` are in ascending
    precedence."""
    found = {}
    for variable in variables:
        [name] = _from_environment({variable: ""}, kafka_env=True) or [variable]
        [name] = _of_listeners({name: ""}, listeners)
        found[name] = variable
    return found


def _with_origins(fault: Fault, origins: Mapping[str, str]) -> Fault:
    """Returns the fault, with the names of the environment variables that set the faulty
    settings."""
    variables = {origins[name] for name in fault.names if name in origins}
    shown = ", ".join(sorted(each for each in variables if each not in fault.sentence))
    return fault._replace(sentence=f"{fault.sentence} (from {shown})") if shown else fault


def _without_derived(faults: Sequence[Fault]) -> list[Fault]:
    """Returns the faults. If ``advertised.listeners`` has faults, the faults of ``listeners`` are
    omitted, since they have the same cause: the value of ``listeners`` was derived from
    ``advertised.listeners``."""
    is_advertised = any(fault.sentence.startswith("advertised.listeners: ") for fault in faults)
    return [
        fault
        for fault in faults
        if not (is_advertised and fault.sentence.startswith("listeners: "))
    ]


def _listeners_of_images(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the value of ``listeners`` that Kafka's images derive from advertised.listeners: the
    same ports on all interfaces."""
    advertised = variables.get("advertised.listeners", "")
    return {"listeners": re.sub(r"://[^:]*:", "://0.0.0.0:", advertised)} if advertised else {}


def _of_listeners(variables: Mapping[str, str], listeners: list[str]) -> dict[str, str]:
    """Returns the settings in ``variables``. Names of variables for a listener or SASL mechanism
    are replaced by names of settings. ``listeners`` has the names of the listeners."""
    return {
        (
            name
            if (rest := name_after_prefix(name)) is None
            else name_of_variable(rest, listeners) or name
        ): text
        for name, text in variables.items()
    }
