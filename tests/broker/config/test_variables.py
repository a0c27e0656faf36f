"""Tests the environment variables that Muster's commands and Kafka's container images read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from broker.config.config import BadConfig
from broker.config.sources import ignored_kafka_variables, load
from broker.config.variables import settings_in
from cli import serve
from cli.main import command_of
from protocol.compiled import SWITCH

COMPOSE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
    "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:29092,OUT://localhost:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUT:PLAINTEXT",
    "KAFKA_LOG_RETENTION_HOURS": "5",
}
OF_THE_JVM = {
    "KAFKA_DEBUG": "y",
    "KAFKA_GC_LOG_OPTS": " ",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_HOME": "/opt/kafka",
    "KAFKA_JMX_HOSTNAME": "localhost",
    "KAFKA_JMX_OPTS": "-D",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseG1GC",
    "KAFKA_LOG4J_LOGGERS": "kafka=WARN",
    "KAFKA_LOG4J_OPTS": "-D",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    "KAFKA_OPTS": "-D",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL": "ERROR",
    "KAFKA_VERSION": "4.3.1",
}
OF_A_SERVICE = {"KAFKA_PORT": "tcp://10.0.0.1:9092", "KAFKA_SERVICE_HOST": "10.0.0.1"}


def test_variables_of_kafka_images_are_read_when_kafka_env_is_set() -> None:
    config = load(None, COMPOSE | OF_THE_JVM | OF_A_SERVICE, [], {}, kafka_env=True)

    assert config["log.retention.hours"] == 5
    assert config.configured_id == 1
    assert config.unknown == []


def test_variables_of_kafka_images_are_ignored_unless_kafka_env_is_set() -> None:
    config = load(None, COMPOSE, [], {})

    assert config["log.retention.hours"] == 168
    assert not config.is_given("advertised.listeners")


def test_listeners_default_to_the_advertised_ports_on_all_addresses() -> None:
    config = load(None, COMPOSE, [], {}, kafka_env=True)

    assert [str(each.address) for each in config.listeners] == ["0.0.0.0:29092", "0.0.0.0:9092"]
    own = {"KAFKA_LISTENERS": "INSIDE://127.0.0.1:29092,OUT://127.0.0.1:9092"}
    config = load(None, COMPOSE | own, [], {}, kafka_env=True)
    assert {each.host for each in config.listeners} == {"127.0.0.1"}


def test_precedence_of_variables_does_not_depend_on_their_order() -> None:
    weak_to_strong = [
        ("KAFKA_NUM_PARTITIONS", "2"),
        ("KAFKA_CFG_NUM_PARTITIONS", "3"),
        ("MUSTER_NUM_PARTITIONS", "4"),
    ]
    for end, (_, text) in enumerate(weak_to_strong, 1):
        for given in (weak_to_strong[:end], weak_to_strong[end - 1 :: -1]):
            config = load(None, dict(given), [], {}, kafka_env=True)
            assert config["num.partitions"] == int(text), given


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_LISTENER_NAME_OUT__SIDE_SCRAM___SHA___256_SASL_JAAS_CONFIG",  # apache, confluentinc
        "KAFKA_CFG_LISTENER_NAME_OUT_SIDE_SCRAM_SHA_256_SASL_JAAS_CONFIG",
        "MUSTER_LISTENER_NAME_OUT_SIDE_SCRAM_SHA_256_SASL_JAAS_CONFIG",
    ],
)
def test_setting_name_with_underscores_and_dashes_is_read_from_a_variable(
    variable: str,
) -> None:
    out = {
        "KAFKA_LISTENERS": "OUT_SIDE://127.0.0.1:0",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "OUT_SIDE:PLAINTEXT",
    }
    config = load(None, out | {variable: "a.Module required;"}, [], {}, kafka_env=True)

    assert config.is_given("listener.name.out_side.scram-sha-256.sasl.jaas.config")


@pytest.mark.parametrize(
    "variable", ["KAFKA_SSL_KEYSTORE_FILENAME", "KAFKA_CFG_SSL_PROVIDER", "KAFKA_TLS_CLIENT_AUTH"]
)
def test_start_fails_with_an_unsupported_security_variable(variable: str) -> None:
    with pytest.raises(BadConfig, match="security settings are never ignored"):
        load(None, {variable: "required"}, [], {}, kafka_env=True)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KAFKA_SSL_KEYSTORE_FILENAME": "a"}, "KAFKA_SSL_KEYSTORE_LOCATION"),
        ({"KAFKA_TLS_CLIENT_AUTH": "required"}, "KAFKA_SSL_CLIENT_AUTH"),
        (
            {"KAFKA_CLIENT_USERS": "alice", "KAFKA_CLIENT_PASSWORDS": "s3cret"},
            "instead of KAFKA_CLIENT_PASSWORDS, KAFKA_CLIENT_USERS with SCRAM add each user by"
            " `muster users add`, with PLAIN set sasl.jaas.config",
        ),
    ],
)
def test_error_about_a_security_variable_of_a_container_image_gives_a_remedy(
    variables: dict[str, str], said: str
) -> None:
    with pytest.raises(BadConfig) as refused:
        load(None, variables, [], {}, kafka_env=True)

    assert said in str(refused.value)
    assert "remove the settings" not in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert ignored_kafka_variables(variables) == sorted(variables)
    assert load(None, dict.fromkeys(variables, ""), [], {}, kafka_env=True).unknown == []


def test_error_about_an_invalid_value_names_the_environment_variable() -> None:
    given = {
        "KAFKA_NUM_PARTITIONS": "0",
        "KAFKA_CFG_LOG_RETENTION_HOURS": "x",
        "MUSTER_NUM_IO_THREADS": "x",
        "KAFKA_NUM_NETWORK_THREADS": "x",
    }

    with pytest.raises(BadConfig) as refused:
        load(None, given, ["num.network.threads=y"], {}, kafka_env=True)

    assert sorted(fault.sentence for fault in refused.value.faults) == [
        "log.retention.hours=x: it must be a whole number (from KAFKA_CFG_LOG_RETENTION_HOURS)",
        "num.io.threads=x: it must be a whole number (from MUSTER_NUM_IO_THREADS)",
        "num.network.threads=y: it must be a whole number",
        "num.partitions=0: it must be at least 1 (from KAFKA_NUM_PARTITIONS)",
    ]


@pytest.mark.parametrize("text", ["localhost", "INSIDE://kafka:29092"])
def test_invalid_advertised_listeners_cause_one_error(text: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load(None, {"KAFKA_ADVERTISED_LISTENERS": text}, [], {}, kafka_env=True)

    [fault] = refused.value.faults
    assert fault.sentence.startswith("advertised.listeners: ")
    assert fault.sentence.endswith(" (from KAFKA_ADVERTISED_LISTENERS)")


def test_unknown_environment_variable_is_reported_under_its_own_name() -> None:
    given = {"KAFKA_CREATE_TOPICS": "a:1:1", "KAFKA_CFG_LOG_RENTENTION_MS": "1"}

    config = load(None, given, [], {}, kafka_env=True)

    assert config.unknown == ["KAFKA_CFG_LOG_RENTENTION_MS", "KAFKA_CREATE_TOPICS"]


def test_only_variables_of_kafka_settings_are_reported_as_ignored() -> None:
    of_clients = {"KAFKA_BOOTSTRAP_SERVERS": "a:9092", "KAFKA_TOPIC": "orders"}
    protecting = {"KAFKA_LISTENER_NAME_IN_SSL_CLIENT_AUTH": "required"}
    removed = {"KAFKA_ADVERTISED_HOST_NAME": "localhost"}

    found = ignored_kafka_variables(
        COMPOSE | OF_THE_JVM | OF_A_SERVICE | of_clients | protecting | removed
    )

    assert found == sorted(COMPOSE | protecting | removed)


@pytest.mark.parametrize(("options", "expected"), [([], 1), (["--kafka-env"], 0)])
def test_serve_logs_ignored_kafka_variables_in_one_warning(
    monkeypatch: pytest.MonkeyPatch, options: list[str], expected: int
) -> None:
    monkeypatch.setenv("KAFKA_LOG_RETENTION_HOURS", "5")
    monkeypatch.setenv("KAFKA_CFG_NUM_PARTITIONS", "3")
    chosen = serve._parser().parse_args(options)
    config = serve._config(chosen)

    with structlog.testing.capture_logs() as lines:
        serve._report_settings(config, kafka_env=chosen.kafka_env)

    named = [line["variables"] for line in lines if "variables" in line]
    assert named == ["KAFKA_CFG_NUM_PARTITIONS, KAFKA_LOG_RETENTION_HOURS"] * expected
    assert config["num.partitions"] == (1 if expected else 3)


def test_broker_does_not_read_environment_variables_of_command_line_options_as_settings() -> None:
    of_commands = set(_variables(command_of()))

    assert {"MUSTER_BOOTSTRAP", "MUSTER_COMMAND_CONFIG"} <= of_commands
    assert settings_in(dict.fromkeys(of_commands, "x"), kafka=False) == {}


def test_variable_muster_codecs_is_not_a_setting() -> None:
    assert settings_in({SWITCH: "python"}, kafka=False) == {}


def _variables(command: Any) -> Iterator[str]:
    """Yields the variables that a command and its subcommands read."""
    for parameter in command.params:
        if parameter.envvar:
            yield parameter.envvar
    for below in getattr(command, "commands", {}).values():
        yield from _variables(below)
