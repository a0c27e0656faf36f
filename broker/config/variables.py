"""Environment variables that set settings, such as ``MUSTER_LOG_RETENTION_MS`` for
``log.retention.ms``.

Kafka's images have other prefixes: apache/kafka and confluentinc/cp-kafka read
``KAFKA_LOG_RETENTION_MS``, bitnami/kafka reads ``KAFKA_CFG_LOG_RETENTION_MS``. In the variables of
these images ``___`` means a dash and ``__`` an underscore. Muster treats several underscores as
one, and finds the setting by the known names of settings and listeners. Sources:
kafka.docker.KafkaDockerWrapper of Kafka 4.3.1, kafka.properties.template of cp-kafka,
kafka_configure_from_environment_variables of Bitnami's libkafka.sh.
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
"""The prefix of variables that only tests read."""

_OF_THE_JVM = re.compile(r"KAFKA_((\w+_)?OPTS|(TOOLS_)?LOG4J_\w+|JMX_\w+|DEBUG|HOME|VERSION)")
"""The variables with which Kafka's images and scripts configure the JVM. No setting has a similar
name."""

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
"""Patterns of variables that contain the address of a service, each with a pattern of its value.

Kubernetes sets such variables in every pod for each service, and Docker for linked containers. A
service ``muster`` has ``MUSTER_PORT=tcp://10.0.0.1:9092`` and ``MUSTER_SERVICE_HOST``. The
variables of a service ``muster-http`` start with ``MUSTER_HTTP_``. Source: Kubernetes, "Services:
environment variables".
"""


def name_after_prefix(variable: str) -> str | None:
    """Returns the part of a variable's name after MUSTER_, KAFKA_ or KAFKA_CFG_, such as
    ``LOG_RETENTION_MS``; None for other variables."""
    starts = (_PREFIX, *reversed(_OF_KAFKA))
    found = next((start for start in starts if variable.startswith(start)), None)
    return None if found is None else as_variable(variable.removeprefix(found))


def dotted(name: str) -> str:
    """Returns the name of the setting that an environment variable sets, such as
    ``log.retention.ms``. If ``name`` is not the name of such a variable, returns ``name``."""
    rest = name_after_prefix(name)
    return name if rest is None else rest.lower().replace("_", ".")


def as_variable(name: str) -> str:
    """Returns the name of a setting or listener in upper case and with underscores, as in a
    variable's name."""
    return re.sub(r"[._-]+", "_", name).upper()


def settings_in(environment: Mapping[str, str], *, kafka: bool) -> dict[str, str]:
    """Returns the variables that set settings, in ascending precedence.

    If ``kafka`` is True, the variables of Kafka's images are included.
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
    """Returns the environment variables that Kafka's container images read as settings. If two
    variables set the same setting, the variable that is later in the returned dict applies."""
    found = {
        variable: text
        for variable, text in environment.items()
        if variable.startswith(_OF_KAFKA)
        and not _OF_THE_JVM.fullmatch(variable)
        and not _is_of_a_service(variable, text)
    }
    return dict(sorted(found.items(), key=lambda item: item[0].startswith(_OF_KAFKA[1])))


def of_services(environment: Mapping[str, str]) -> list[str]:
    """Returns the variables with the prefix MUSTER_ that Kubernetes has set to the address of a
    service. They are not settings."""
    return sorted(
        name
        for name, text in environment.items()
        if name.startswith(_PREFIX) and _is_of_a_service(name, text)
    )


def _is_of_a_service(variable: str, text: str) -> bool:
    """Returns True if Kubernetes has set the variable to the address of a service. Returns False
    for ``MUSTER_PORT=9092``: Kubernetes would not set this value."""
    return any(name.fullmatch(variable) and value.fullmatch(text) for name, value in _SHAPES)
