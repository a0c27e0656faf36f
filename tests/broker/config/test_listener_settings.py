"""Tests the settings of one listener or SASL mechanism: their precedence, and refused names."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.config import BadConfig, Config
from broker.config.sources import load
from security.sasl.plain import MODULE

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUT.SIDE-1://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUT.SIDE-1:PLAINTEXT",
}


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(BadConfig) as refused:
        Config({**TWO, **given})
    return str(refused.value)


# -- precedence


def test_setting_of_a_listener_overrides_the_broker_setting() -> None:
    config = Config(
        {
            **TWO,
            "ssl.client.auth": "requested",
            "listener.name.inside.ssl.client.auth": "required",
            "listener.name.out.side-1.max.connections": "5",
        }
    )

    inside, outside = config.of_listener("INSIDE"), config.of_listener("OUT.SIDE-1")
    assert inside["ssl.client.auth"] == inside.own("ssl.client.auth") == "required"
    assert outside["ssl.client.auth"] == "requested"
    assert outside.own("ssl.client.auth") is None
    assert outside["max.connections"] == 5, "typed as the broker's"
    assert inside["max.connections"] == config["max.connections"] == 2147483647
    assert config.unknown == []


def test_empty_setting_of_a_listener_overrides_the_broker_setting() -> None:
    own = "listener.name.inside.ssl.truststore.location"
    config = Config({**TWO, "ssl.truststore.location": "/all", own: ""})

    assert config.of_listener("INSIDE")["ssl.truststore.location"] == ""
    assert config.of_listener("OUT.SIDE-1")["ssl.truststore.location"] == "/all"


def test_setting_of_listener_and_mechanism_overrides_settings_of_only_one_of_them() -> None:
    name = "connections.max.reauth.ms"
    weak_to_strong = [
        name,
        f"listener.name.inside.{name}",
        f"scram-sha-256.{name}",
        f"listener.name.inside.scram-sha-256.{name}",
    ]
    given = dict(TWO)
    for value, each in enumerate(weak_to_strong):
        given[each] = str(value)
        config = Config(given)
        assert config.of_mechanism("INSIDE", "SCRAM-SHA-256")[name] == value
        assert config.of_mechanism("OUT.SIDE-1", "PLAIN")[name] == 0
    assert config.of_mechanism("INSIDE", "SCRAM-SHA-256").own(name) == 3
    assert config.of_mechanism("OUT.SIDE-1", "SCRAM-SHA-256").own(name) == 2
    assert config.of_mechanism("INSIDE", "PLAIN").own(name) is None


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        (
            "LISTENER_NAME_INSIDE_SSL_KEYSTORE_LOCATION",
            "listener.name.inside.ssl.keystore.location",
        ),
        (
            "LISTENER_NAME_OUT_SIDE_1_SCRAM_SHA_512_SASL_JAAS_CONFIG",
            "listener.name.out.side-1.scram-sha-512.sasl.jaas.config",
        ),
        ("PLAIN_SASL_JAAS_CONFIG", "plain.sasl.jaas.config"),
    ],
)
def test_environment_variable_sets_a_setting_of_a_listener_or_mechanism(
    variable: str, name: str
) -> None:
    pairs = [f"{key}={text}" for key, text in TWO.items()]

    config = load(None, {f"MUSTER_{variable}": "x"}, pairs, {})

    assert (config[name], config.unknown) == ("x", [])


def test_listener_setting_in_a_flag_overrides_the_variable_and_the_file(tmp_path: Path) -> None:
    name, variable = (
        "listener.name.plaintext.max.connections",
        "MUSTER_LISTENER_NAME_PLAINTEXT_MAX_CONNECTIONS",
    )
    file = tmp_path / "server.properties"
    file.write_text(f"{name} = 1\n")

    assert load(file, {}, [], {})[name] == 1
    assert load(file, {variable: "2"}, [], {})[name] == 2
    assert load(file, {variable: "2"}, [f"{name}=3"], {})[name] == 3


def test_environment_variable_that_matches_two_listeners_is_refused() -> None:
    pairs = ["listeners=A.B://:1,A-B://:2", "listener.security.protocol.map=A.B:SSL,A-B:SSL"]

    with pytest.raises(BadConfig, match="MUSTER_LISTENER_NAME_A_B_SSL_CLIENT_AUTH"):
        load(None, {"MUSTER_LISTENER_NAME_A_B_SSL_CLIENT_AUTH": "required"}, pairs, {})


# -- refused names


@pytest.mark.proves("security 1")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "listener.name.INSIDE.ssl.client.auth",
            "in lower case: listener.name.inside.ssl.client.auth",
        ),
        (
            "listener.name.inside.SCRAM-SHA-256.sasl.jaas.config",
            "lower case: listener.name.inside.scram-sha-256.sasl.jaas.config",
        ),
        ("PLAIN.sasl.jaas.config", "lower case: plain.sasl.jaas.config"),
        (
            "listener.name.other.ssl.client.auth",
            "listener OTHER does not exist; listeners has INSIDE",
        ),
        ("listener.name.inside.ssl.keystore.locaton", "unknown setting of a listener"),
        ("listener.name.inside.log.retention.ms", "unknown setting of a listener"),
        ("listener.name.inside.authorizer.class.name", "unknown setting of a listener"),
        ("listener.name.inside.plain.ssl.client.auth", "listener INSIDE.PLAIN does not exist"),
    ],
)
def test_setting_of_an_unknown_listener_or_mechanism_is_refused(name: str, says: str) -> None:
    said = refusal({name: "required" if name.endswith("auth") else "secret-1"})

    assert name in said
    assert says in said
    assert "secret-1" not in said


def test_settings_of_a_controller_listener_are_accepted() -> None:
    given = {
        **TWO,
        "listeners": f"{TWO['listeners']},CTL://:1",
        "controller.listener.names": "CTL",
        "listener.name.ctl.ssl.client.auth": "required",
    }
    assert Config(given).unknown == []


# -- inconsistent settings

TLS = {
    "listener.security.protocol.map": "INSIDE:SSL,OUT.SIDE-1:SASL_PLAINTEXT",
    "listener.name.inside.ssl.keystore.location": "/a.pem",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'{MODULE} required user_alice="planted";',
}


def test_secured_listeners_are_accepted_and_advertised() -> None:
    config = Config({**TWO, **TLS})

    assert [each.protocol for each in config.listeners] == ["SSL", "SASL_PLAINTEXT"]
    assert [each.protocol for each in config.advertised([1, 2])] == ["SSL", "SASL_PLAINTEXT"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"listener.name.inside.ssl.keystore.location": ""},
            "listener INSIDE has the protocol SSL, which needs a certificate with its key",
        ),
        (
            {"ssl.principal.mapping.rules": "RULE:^(.*$/x/"},
            "ssl.principal.mapping.rules: the pattern",
        ),
        ({"ssl.truststore.type": "BCFKS"}, "ssl.truststore.type=BCFKS: it must be one of JKS"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "OUT.SIDE-1: Muster does not support GSSAPI"),
        (
            {"sasl.enabled.mechanisms": ""},
            "OUT.SIDE-1: no mechanism is enabled; use one or more of PLAIN",
        ),
        (
            {"listener.name.out.side-1.sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            "OUT.SIDE-1: Muster does not support GSSAPI",
        ),
        ({"plain.sasl.jaas.config": ""}, "listener OUT.SIDE-1 enables PLAIN, but has no users"),
        (
            {"plain.sasl.jaas.config": f'{MODULE} required user_alice="planted"'},
            "plain.sasl.jaas.config of listener OUT.SIDE-1: expected a semicolon",
        ),
        (
            {"listener.name.out.side-1.plain.sasl.jaas.config": "other.Module required;"},
            f"the login module must be {MODULE}",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "scram-sha-256.sasl.jaas.config": f"{MODULE} required;",
            },
            "scram-sha-256.sasl.jaas.config of listener OUT.SIDE-1: the login module must be",
        ),
        (
            {"inter.broker.listener.name": "NONE"},
            "inter.broker.listener.name=NONE: not in listeners",
        ),
        (
            {"inter.broker.listener.name": "INSIDE", "security.inter.broker.protocol": "SSL"},
            "inter.broker.listener.name and security.inter.broker.protocol can't both be set",
        ),
        (
            {
                "connection.failed.authentication.delay.ms": "600000",
                "connections.max.idle.ms": "600000",
            },
            "connection.failed.authentication.delay.ms must be below connections.max.idle.ms",
        ),
        (
            {"inter.broker.listener.name": "OUT.SIDE-1", "zookeeper.connect": "zk:1"},
            "sasl.mechanism.inter.broker.protocol=GSSAPI: not enabled on the inter-broker listener",
        ),
    ],
)
def test_inconsistent_tls_and_sasl_settings_are_refused(given: dict[str, str], says: str) -> None:
    told = refusal({**TLS, **given})
    assert says in told
    assert "planted" not in told
