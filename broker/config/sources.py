"""Where properties come from: a file, the environment, ``--set`` and flags; a later one wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from broker.config.config import Config, WrongUse
from broker.config.config_table import BROKER, Value
from broker.config.protection import VARIABLE_PREFIX
from broker.config.service_variables import is_of_a_service
from protocol.properties import parse

_OF_COMMANDS = ("MUSTER_BOOTSTRAP", "MUSTER_HTTP", "MUSTER_SOURCE")
_OF_TESTS = "MUSTER_TEST_"
"""Variables of the command line's other commands, and of the tests."""

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
    given.update(_from_environment(environment))
    for pair in sets:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise WrongUse(f"--set {pair}: write it as --set NAME=VALUE")
        given[name.strip()] = text
    given.update(flags)
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
        return parse(file.read_text())
    except OSError as error:
        raise WrongUse(f"--config {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUse(f"--config {file} is not a text file") from None


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
