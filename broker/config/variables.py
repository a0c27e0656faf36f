"""Environment variables that name settings.

``MUSTER_LOG_RETENTION_MS`` is ``log.retention.ms``. Kafka's images have their own prefixes:
apache/kafka and confluentinc/cp-kafka read ``KAFKA_LOG_RETENTION_MS``, bitnami/kafka
``KAFKA_CFG_LOG_RETENTION_MS``. In these variables ``___`` means a dash and ``__`` for an
underscore. Muster treats several underscores as one, and finds the setting by the known names of
settings and listeners. Sources: kafka.docker.KafkaDockerWrapper of Kafka 4.3.1,
kafka.properties.template of cp-kafka, kafka_configure_from_environment_variables of Bitnami's
libkafka.sh.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PREFIX: Final = "MUSTER_"
_OF_KAFKA: Final = ("KAFKA_", "KAFKA_CFG_")
"""Prefixes of the variables of Kafka's images, in ascending precedence."""
_OF_COMMANDS: Final = frozenset(
    ("MUSTER_BOOTSTRAP", "MUSTER_CODECS", "MUSTER_COMMAND_CONFIG", "MUSTER_HTTP", "MUSTER_SOURCE")
)
_OF_TESTS: Final = "MUSTER_TEST_"
"""The prefix of variables for tests; ``_OF_COMMANDS`` has the variables of other commands."""

_OF_THE_JVM = re.compile(r"KAFKA_((\w+_)?OPTS|(TOOLS_)?LOG4J_\w+|JMX_\w+|DEBUG|HOME|VERSION)")
"""Variables of Kafka's images and scripts that start its JVM; no setting has a similar name."""

_ONE_PORT = r"(MUSTER|KAFKA)_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)"
_SHAPES = [
    (re.compile(name), re.compile(value))
    for name, value in (
        (r"(MUSTER|KAFKA)_(\w+_)?SERVICE_HOST", r".*"),
        (r"(MUSTER|KAFKA)_(\w+_)?SERVICE_PORT(_\w+)?", r"\d+"),
        (r"(MUSTER|KAFKA)_(\w+_)?PORT", r"(tcp|udp|sctp)://.*"),
        (_ONE_PORT, r"(tcp|udp|sctp)://.*"),
        (_ONE_PORT + "_PROTO", r"tcp|udp|sctp"),
        (_ONE_PORT + "_PORT", r"\d+"),
        (_ONE_PORT + "_ADDR", r".*"),
    )
]
"""Patterns of names and values of the variables that Kubernetes sets for each service in every pod,
and Docker for linked containers.

A service ``muster`` has ``MUSTER_PORT=tcp://10.0.0.1:9092`` and ``MUSTER_SERVICE_HOST``; the
variables of a service ``muster-http`` start with ``MUSTER_HTTP_``. Source: Kubernetes, "Services:
environment variables".
"""


def name_after_prefix(variable: str) -> str | None:
    """Returns the name after the prefix, such as ``LOG_RETENTION_MS``, of a variable that may name
    a setting; None for other variables."""
    starts = (_PREFIX, *reversed(_OF_KAFKA))
    found = next((start for start in starts if variable.startswith(start)), None)
    return None if found is None else as_variable(variable.removeprefix(found))


def dotted(name: str) -> str:
    """Returns the setting's name, such as ``log.retention.ms``, for a variable's name; other names
    are unchanged."""
    rest = name_after_prefix(name)
    return name if rest is None else rest.lower().replace("_", ".")


def as_variable(name: str) -> str:
    """Returns the name of a setting or a listener in the form that it has in a variable's name."""
    return re.sub(r"[._-]+", "_", name).upper()


def settings_in(environment: Mapping[str, str], *, kafka: bool) -> dict[str, str]:
    """Returns the variables that are meant as settings, in ascending precedence.

    With ``kafka``, variables of Kafka's images are included.
    """
    found = kafka_settings_in(environment) if kafka else {}
    return found | {
        variable: text
        for variable, text in environment.items()
        if variable.startswith(_PREFIX)
        and variable not in _OF_COMMANDS
        and not variable.startswith(_OF_TESTS)
        and not _is_of_a_service(variable, text)
    }


def kafka_settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that Kafka's images read as settings, in ascending precedence."""
    found = {
        variable: text
        for variable, text in environment.items()
        if variable.startswith(_OF_KAFKA)
        and not _OF_THE_JVM.fullmatch(variable)
        and not _is_of_a_service(variable, text)
    }
    return dict(sorted(found.items(), key=lambda item: item[0].startswith(_OF_KAFKA[1])))


def of_services(environment: Mapping[str, str]) -> list[str]:
    """Returns the variables that look like settings but contain the address of a service."""
    return sorted(
        name
        for name, text in environment.items()
        if name.startswith(_PREFIX) and _is_of_a_service(name, text)
    )


def _is_of_a_service(variable: str, text: str) -> bool:
    """Returns whether a variable contains the address of a service. ``MUSTER_PORT=9092`` does not,
    since a person has set it."""
    return any(name.fullmatch(variable) and value.fullmatch(text) for name, value in _SHAPES)
