"""Tests that an unsupported security setting prevents the start, and that the error names each
unsupported security setting."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.config.config import BadConfig, Config
from broker.config.listener_settings import OF_LISTENERS
from broker.config.protection import protects
from broker.config.sources import load
from protocol.errors import INVALID_CONFIG
from tests.broker.config_calls import BROKER, DELETE, SET, alter, replace
from tests.wire import Wire

ROOT = Path(__file__).parents[3]
KAFKA = json.loads((ROOT / "tests/data/schema/configs.json").read_text())["broker (3.9.2)"]

GIVEN = {
    "a setting of this name": [
        "ssl.keystore.locaton=/misspelt.jks",
        "sasl.enabled.mechanism=PLAIN",
        "delegation.token.secret=x",
    ],
    "a setting of this name, or a listener of this name": [
        "MUSTER_LISTENER_NAME_OUTSIDE_SSL_CLIENT_AUTH=required",
        "MUSTER_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATON=/misspelt.jks",
    ],
    "GSSAPI (Kerberos)": [
        "sasl.kerberos.service.name=kafka",
        "gssapi.sasl.jaas.config=Krb5LoginModule required;",
        "listener.name.internal.gssapi.sasl.jaas.config=Krb5LoginModule required;",
        "digest-md5.sasl.jaas.config=ScramLoginModule required;",
    ],
    "Java plug-in classes": [
        "principal.builder.class=a.B",
        "listener.name.internal.principal.builder.class=a.B",
        "sasl.server.callback.handler.class=a.B",
        "listener.name.internal.plain.sasl.server.callback.handler.class=a.B",
        "ssl.engine.factory.class=a.B",
        "ssl.provider=BC",
        "security.providers=a.B",
    ],
    "protocols before TLS 1.2": ["ssl.protocol=SSLv3"],
    "default quotas and quota classes": [
        "client.quota.callback.class=a.B",
        "quota.producer.default=1000",
    ],
    "policies for topics and settings": ["create.topic.policy.class.name=a.B"],
    "encryption of stored passwords": ["password.encoder.secret=x"],
    "ACLs and TLS of ZooKeeper": [
        "zookeeper.set.acl=true",
        "zookeeper.ssl.client.enable=true",
    ],
}

HARMLESS = [
    "allow.everyone.if.no.acl.found=true",
    "authorizer.class.name=",
    "listener.name.internal.num.network.threads=2",
    "listener.name.internal.ssl.client.auth=none",
    "listener.name.internal.max.connections=2147483647",
    "listener.security.protocol.map=INTERNAL:PLAINTEXT,OUTSIDE:SASL_SSL",
    "max.connection.creation.rate=2147483647",
    "quota.consumer.default=9223372036854775807",
    "sasl.enabled.mechanisms=GSSAPI",
    "sasl.server.callback.handler.class="
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    "security.inter.broker.protocol=PLAINTEXT",
    "ssl.client.auth=none",
    "ssl.endpoint.identification.algorithm=",
    "ssl.protocol=TLSv1.2",
    "super.users=",
]
INTERNAL = (
    "listeners=INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map=INTERNAL:PLAINTEXT",
)

PROTECTIVE = re.compile(
    r"(^|\.)(acl|auth|authoriz\w*|jaas|password|polic\w*|principal|quota|rate|sasl|secret|"
    r"security|ssl|token|users?)(\.|$)"
)
ONLY_SOUNDS_SO = {
    "alter.config.policy.kraft.compatibility.enable": "a detail of the policy's class",
    "log.cleanup.policy": "honoured",
    "authorizer.class.name": "honoured, or refused with a sentence of its own",
    **{
        f"delegation.token.{end}": "honoured"
        for end in (
            "expiry.check.interval.ms",
            "expiry.time.ms",
            "master.key",
            "max.lifetime.ms",
            "secret.key",
        )
    },
    "listener.security.protocol.map": "honoured",
    "security.inter.broker.protocol": "honoured",
    **{
        f"{start}quota.window.{end}": "how a quota would be measured"
        for start in ("", "alter.log.dirs.replication.", "controller.", "replication.")
        for end in ("num", "size.seconds")
    },
    **{
        f"remote.log.manager.{what}.quota.window.{end}": "how a quota would be measured"
        for what in ("copy", "fetch")
        for end in ("num", "size.seconds")
    },
}


def refusal(*sets: str) -> str:
    with pytest.raises(BadConfig) as refused:
        load(None, {}, [*INTERNAL, *sets], {})
    return str(refused.value)


# -- at the start


@pytest.mark.parametrize(
    ("pair", "lacking"), [(pair, lacking) for lacking, pairs in GIVEN.items() for pair in pairs]
)
def test_start_fails_with_an_unsupported_security_setting(pair: str, lacking: str) -> None:
    name, _, value = pair.partition("=")

    said = refusal(pair)

    assert f"does not support {lacking} ({name});" in said
    assert value in name or value not in said, "it may be a secret"


def test_error_names_every_unsupported_security_setting() -> None:
    said = refusal("ssl.provider=BC", "principal.builder.class=a.B", "ssl.engine.factory.class=x")

    assert said == (
        "security settings are never ignored, and Muster does not support Java plug-in classes"
        " (principal.builder.class, ssl.engine.factory.class, ssl.provider); remove the settings"
        " that you do not need"
    )


@pytest.mark.parametrize(
    "variable",
    [
        "MUSTER_SSL_PROVIDER",
        "MUSTER_SSL_KEYSTORE_LOCATON",
        "MUSTER_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION",
        "MUSTER_LISTENER_NAME_PLAINTEXT_SSL_ENGINE_FACTORY_CLASS",
        "MUSTER_GSSAPI_SASL_JAAS_CONFIG",
    ],
)
def test_start_fails_with_an_unsupported_security_setting_in_environment(variable: str) -> None:
    with pytest.raises(BadConfig, match="security settings"):
        load(None, {variable: "required"}, [], {})


def test_start_fails_with_an_unsupported_security_setting_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listener.name.plaintext.ssl.provider = BC\n")

    with pytest.raises(
        BadConfig, match=r"Java plug-in classes \(listener\.name\.plaintext\.ssl\.provider\)"
    ):
        load(file, {}, [], {})


@pytest.mark.parametrize("pair", HARMLESS)
def test_unsupported_security_setting_is_accepted_with_a_harmless_value(pair: str) -> None:
    assert load(None, {}, [*INTERNAL, pair], {}).unknown == []


def test_configuration_file_with_the_default_of_every_kafka_setting_is_accepted() -> None:
    """The defaults come from the output of `kafka-configs --describe --all`."""
    ours = {"listeners", "log.dir", "log.dirs"}
    defaults = {
        row["name"]: row["default"]
        for row in KAFKA
        if row["default"] not in (None, "null") and row["name"] not in ours
    }
    assert defaults["ssl.client.auth"] == "none"

    assert Config(defaults).unknown == []


def test_every_kafka_setting_whose_name_suggests_security_is_classified() -> None:
    sound = {row["name"] for row in KAFKA if PROTECTIVE.search(row["name"])}

    served = {name for name in OF_LISTENERS if not protects(name)}
    assert {name for name in sound if not protects(name)} - served == set(ONLY_SOUNDS_SO)
    assert protects("ssl.engine.factory.class"), "not every one of them is served"


def test_security_setting_of_another_program_is_reported_as_unknown() -> None:
    name = "confluent.metrics.reporter.ssl.truststore.location"

    assert load(None, {}, [f"{name}=/a"], {}).unknown == [name]


# -- at run time


@pytest.mark.parametrize("broker_id", ["1", ""])
@pytest.mark.parametrize(
    "name",
    [
        "ssl.provider",
        "listener.name.internal.ssl.provider",
    ],
)
def test_unsupported_security_setting_is_refused_at_run_time(
    wire: Wire, broker_id: str, name: str
) -> None:
    for code, message in (
        alter(wire, broker_id, (name, SET, "5"), kind=BROKER),
        alter(wire, broker_id, (name, DELETE, None), kind=BROKER),
        replace(wire, broker_id, {name: "5"}, kind=BROKER),
    ):
        assert code == INVALID_CONFIG
        assert message == (
            f"Cannot update {name} dynamically: it is a security setting that Muster does"
            " not support"
        )


def test_start_fails_with_unsupported_security_setting_in_configs_json(tmp_path: Path) -> None:
    """A newer version of Muster may have stored the setting before a downgrade."""
    given = {"log.dirs": str(tmp_path), "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    first = Broker(Config(given))
    first.open()
    first.registry.store_broker_configs("1", {"listener.name.a.ssl.provider": "/a"})
    first.release()

    again = Broker(Config(given))
    with pytest.raises(BadConfig, match=r"configs\.json: security settings .* Java"):
        again.open()
    again.release()
