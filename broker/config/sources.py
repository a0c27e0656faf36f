"""Where properties come from: a file, the environment, ``--set`` and flags; a later one wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from broker.config.config import Config, WrongUse
from broker.config.config_table import BROKER, Value
from broker.config.listener_settings import name_of_variable
from broker.config.listeners import names_in
from broker.config.protection import VARIABLE_PREFIX
from broker.config.service_variables import is_of_a_service
from protocol.properties import parse

_OF_COMMANDS = ("MUSTER_BOOTSTRAP", "MUSTER_HTTP", "MUSTER_SOURCE")
_OF_TESTS = "MUSTER_TEST_"
"""Variables of the command line's other commands, and of the tests."""
_LETTERS_MAX = 16 << 20
"""Of a file that are read: a device such as /dev/zero has no end."""

QUICK_START: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}
"""What holds without a file: where the server.properties that Kafka ships, which its quick start
runs with, differs from Kafka's defaults for one broker."""


def load(
    file: Path | None,
    environment: Mapping[str, str],
    sets: Iterable[str],
    flags: Mapping[str, str],
    preset: Mapping[str, Value] = {},
) -> Config:
    """The configuration of a process; ``preset`` is the weakest source.

    Raises BadConfig for all that is wrong with it, WrongUse for what can't be read. Without a
    ``file`` the weakest source is QUICK_START.
    """
    given = {} if file is None else _from_file(file)
    variables = _from_environment(environment)
    stronger = {}
    for pair in sets:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise WrongUse(f"--set {pair}: write it as --set NAME=VALUE")
        stronger[name.strip()] = text
    stronger.update(flags)
    default = {"listeners": BROKER["listeners"].default}
    listeners = {**default, **preset, **given, **variables, **stronger}["listeners"]
    given |= _of_listeners(variables, names_in(str(listeners)))
    given |= stronger
    return Config(given, {**(QUICK_START if file is None else {}), **preset})


def of_services(environment: Mapping[str, str]) -> list[str]:
    """The variables that look like settings and only tell where a service is."""
    return sorted(
        name
        for name, text in environment.items()
        if name.startswith(VARIABLE_PREFIX) and is_of_a_service(name, text)
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


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """``MUSTER_LOG_RETENTION_MS`` is ``log.retention.ms``; an unknown one keeps its own name."""
    by_variable = {name.replace(".", "_").upper(): name for name in BROKER}
    return {
        by_variable.get(variable.removeprefix(VARIABLE_PREFIX), variable): text
        for variable, text in environment.items()
        if variable.startswith(VARIABLE_PREFIX)
        and variable not in _OF_COMMANDS
        and not variable.startswith(_OF_TESTS)
        and not is_of_a_service(variable, text)
    }


def _of_listeners(variables: Mapping[str, str], listeners: list[str]) -> dict[str, str]:
    """The settings, those of listeners and mechanisms by their names: these listeners say them."""
    return {
        (
            name_of_variable(name.removeprefix(VARIABLE_PREFIX), listeners) or name
            if name.startswith(VARIABLE_PREFIX)
            else name
        ): text
        for name, text in variables.items()
    }
