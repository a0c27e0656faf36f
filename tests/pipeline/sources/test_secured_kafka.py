"""Tests that a job of the pipeline and a repair of offsets work on an Apache Kafka broker with TLS
and SASL."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from client.connection import Connection
from client.settings import read_settings
from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS
from pipeline.sources.open import open_source
from tests import waiting
from tests.brokers import KafkaBroker, running
from tests.certificates import Authority
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.pipeline.committing import commit

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

USER, PASSWORD = "alice", 'a "secret" of \\ hers'
MODULES = "org.apache.kafka.common.security"
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
TOPIC, GROUP = "orders", "billing"
STORE_PASSWORD = "changeit"
LIFETIME_MS = 5000
"""The lifetime of a SASL session with SCRAM-SHA-512 without TLS, in milliseconds."""


class Secured(NamedTuple):
    """An Apache Kafka with four listeners. `properties` writes a file of client properties."""

    broker: KafkaBroker
    authority: Authority
    folder: Path

    def properties(self, name: str, **pairs: str) -> Path:
        file = self.folder / f"{name}.properties"
        escaped = {key: value.replace("\\", "\\\\") for key, value in pairs.items()}
        file.write_text(
            "".join(f"{key.replace('_', '.')}={value}\n" for key, value in escaped.items())
        )
        return file

    def trusting(self) -> dict[str, str]:
        return {"ssl_truststore_location": str(self.authority.certificate)}


def login(mechanism: str, password: str = QUOTED) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{MODULES}.{module} required username="{USER}" password="{password}";',
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    own = authority.issue("broker")
    jaas = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{QUOTED}";'
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    oauth = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    written = {"plain": jaas, "scram-sha-256": scram, "scram-sha-512": scram, "oauthbearer": oauth}
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": str(LIFETIME_MS),
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text.replace("\\", "\\\\")
            for listener in ("sasl_ssl", "sasl_plaintext")
            for mechanism, text in written.items()
        },
    }
    broker = KafkaBroker(folder / "data", settings, listeners=("SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    with running(broker):
        Cluster(broker.bootstrap).create_topic(TOPIC, 2)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for made in admin.alter_user_scram_credentials([change]).values():
                made.result(30)
        plain = {"bootstrap.servers": broker.bootstrap}
        commit(plain, GROUP, [(TOPIC, 0, 0), (TOPIC, 1, 0)])
        yield Secured(broker, authority, folder)


def rows_of(where: str, file: Path | None = None) -> list[tuple[str, int, int]]:
    source = (
        open_source(where) if file is None else open_source(where, read_settings(file).security)
    )
    batches = [each for part in source.event_parts(None) or () for each in part.read()]
    return [
        (row["group_id"], row["partition"], row["committed_offset"])
        for row in pa.Table.from_batches(batches, EVENTS).to_pylist()
        if row["kind"] == "commit"
    ]


@pytest.mark.parametrize(
    ("listener", "mechanism", "trust", "own"),
    [
        ("SSL", None, "pem", "pem"),
        ("SSL", None, "pem", "encrypted"),
        ("SSL", None, "pkcs12", "pkcs12"),
        ("SASL_PLAINTEXT", "PLAIN", None, None),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", None, None),
        ("SASL_SSL", "PLAIN", "pem", None),
        ("SASL_SSL", "SCRAM-SHA-256", "pem", None),
        ("SASL_SSL", "SCRAM-SHA-512", "text", None),
    ],
)
def test_pipeline_reads_the_history_from_each_kind_of_secured_listener(
    secured: Secured, listener: str, mechanism: str | None, trust: str | None, own: str | None
) -> None:
    pairs = {"security_protocol": listener, **(login(mechanism) if mechanism else {})}
    authority = secured.authority
    if trust == "pem":
        pairs |= secured.trusting()
    elif trust == "text":
        pairs["ssl_truststore_certificates"] = " ".join(
            authority.certificate.read_text().split("\n")
        )
    elif trust == "pkcs12":
        (secured.folder / "trust.p12").write_bytes(authority.trust_pkcs12(STORE_PASSWORD))
        pairs |= {
            "ssl_truststore_location": str(secured.folder / "trust.p12"),
            "ssl_truststore_password": STORE_PASSWORD,
        }
    me = authority.issue("me")
    if own == "pem":
        pairs["ssl_keystore_location"] = str(me.pem)
    elif own == "encrypted":
        pairs |= {
            "ssl_keystore_certificate_chain": " ".join(me.certificate_text.split("\n")),
            "ssl_keystore_key": " ".join(me.encrypted_key_text("hers").split("\n")),
            "ssl_key_password": "hers",
        }
    elif own == "pkcs12":
        (secured.folder / "me.p12").write_bytes(me.pkcs12(STORE_PASSWORD))
        pairs |= {
            "ssl_keystore_location": str(secured.folder / "me.p12"),
            "ssl_keystore_password": STORE_PASSWORD,
        }
    file = secured.properties(f"{listener}-{mechanism}-{trust}-{own}", **pairs)

    rows = rows_of(secured.broker.listeners[listener], file)

    assert rows == rows_of(secured.broker.bootstrap)
    assert (GROUP, 1, 0) in rows


def test_pipeline_reads_history_and_repairs_offsets_over_tls_with_scram_login(
    secured: Secured, tmp_path: Path
) -> None:
    where = secured.broker.listeners["SASL_SSL"]
    pairs = {"security_protocol": "SASL_SSL", **secured.trusting(), **login("SCRAM-SHA-512")}
    file = str(secured.properties("job", **pairs, client_id="unused"))
    plain = {"bootstrap.servers": secured.broker.bootstrap}
    group = "repaired"
    commit(plain, group, [(TOPIC, 0, 0)])
    waiting.until("the commit is there", lambda: (group, 0, 0) in rows_of(secured.broker.bootstrap))

    out = str(tmp_path / "tables")
    made = run(
        "pipeline", "commits", "--source", where, "--command-config", file, "--out", out, "--json"
    )

    assert made.code == 0, made.err
    assert made.json["moved_bytes"] > 0
    assert "--command-config: ignored properties: client.id" in made.err

    followed = run(
        "pipeline", "events", "--follow", "--until-now", "--source", where,
        "--command-config", file, "--out", str(tmp_path / "archive"),
    )  # fmt: skip
    assert followed.code == 0, followed.err

    listed = run("--command-config", file, "groups", "list", "--bootstrap", where, "--json")
    assert listed.code == 0, listed.err
    assert group in listed.out

    at = made.json["as_of_ms"]
    producer = Producer(plain)
    producer.produce(TOPIC, b"one", partition=0)
    assert producer.flush(30) == 0
    commit(plain, group, [(TOPIC, 0, 1)])
    repaired = run(
        "pipeline", "restore", group, "--at", _instant(at), "--source", where,
        "--bootstrap", where, "--command-config", file, "--execute", "--json",
        "--plan", str(tmp_path / "plan.json"), "--force",
    )  # fmt: skip
    assert repaired.code == 0, repaired.err
    assert Cluster(secured.broker.bootstrap).committed(group) == {(TOPIC, 0): 0}
    for ran in (made, followed, listed, repaired):
        assert "secret" not in ran.out + ran.err


def test_oauthbearer_token_is_read_from_a_file(secured: Secured) -> None:
    """Kafka accepts an unsigned token when no trusted issuer is configured."""
    now_s = int(datetime.now(UTC).timestamp())
    claims = json.dumps({"sub": USER, "iat": now_s, "exp": now_s + 300})
    header, body = (
        base64.urlsafe_b64encode(part.encode()).decode().rstrip("=")
        for part in ('{"alg":"none"}', claims)
    )
    token = secured.folder / "token"
    token.write_text(f"{header}.{body}.\n")
    pairs = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": token.as_uri(),
        **secured.trusting(),
    }
    file = secured.properties("token", **pairs)

    assert rows_of(secured.broker.listeners["SASL_SSL"], file)
    token.write_text("no.token.at.all")
    with pytest.raises(PipelineError, match=r"rejected the OAUTHBEARER login of the client: \{"):
        rows_of(secured.broker.listeners["SASL_SSL"], file)


def test_connection_reauthenticates_when_its_sasl_session_expires(secured: Secured) -> None:
    pairs = {"security_protocol": "SASL_PLAINTEXT", **login("SCRAM-SHA-512")}
    file = secured.properties("renewed", **pairs)
    host, _, port = secured.broker.listeners["SASL_PLAINTEXT"].rpartition(":")
    connection = Connection(host, int(port), "long", 30, read_settings(file).security)
    until_s = time.monotonic() + 2 * LIFETIME_MS / 1000
    with closing(connection):
        while time.monotonic() < until_s:
            assert connection.call("Metadata", {"topics": []})["brokers"]


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    ("listener", "change", "said"),
    [
        (
            "SASL_SSL",
            {"password": "wrong"},
            "rejected the PLAIN login of user alice: Auth",
        ),
        ("SASL_SSL", {"ca": "another"}, "is not trusted: .*to ssl.truststore.location"),
        (
            "SASL_SSL",
            {"security_protocol": "PLAINTEXT"},
            "pass Kafka client properties with --command-config",
        ),
        ("SASL_SSL", {"security_protocol": "SSL"}, "does security.protocol match this listener"),
        ("SASL_PLAINTEXT", {"security_protocol": "SASL_SSL"}, "the TLS handshake with the broker"),
        (
            "SASL_PLAINTEXT",
            {"security_protocol": "PLAINTEXT"},
            "pass Kafka client properties with --command-config",
        ),
        (
            "SSL",
            {"security_protocol": "SSL"},
            "TLS handshake|closed the connection|match this listener",
        ),
    ],
)
def test_security_mismatch_is_reported_without_the_password(
    secured: Secured, listener: str, change: dict[str, str], said: str
) -> None:
    trusting = secured.trusting()
    if "ca" in change:
        other = Authority(secured.folder, change["ca"])
        trusting = {"ssl_truststore_location": str(other.certificate)}
    pairs = {
        "security_protocol": change.get("security_protocol", listener),
        **trusting,
        **login("PLAIN", change.get("password", QUOTED)),
    }
    file = secured.properties("wrong", **pairs)

    with pytest.raises(PipelineError, match=said) as refused:
        rows_of(secured.broker.listeners[listener], file)

    assert "secret" not in str(refused.value)


def test_host_name_of_a_certificate_is_checked_unless_check_is_disabled(secured: Secured) -> None:
    port = secured.broker.listeners["SASL_SSL"].rpartition(":")[2]
    pairs = {"security_protocol": "SASL_SSL", **secured.trusting(), **login("PLAIN")}
    checked = secured.properties("checked", **pairs)
    unchecked = secured.properties("unchecked", **pairs, ssl_endpoint_identification_algorithm="")

    with pytest.raises(PipelineError, match="certificate is not valid for 'localhost'"):
        rows_of(f"localhost:{port}", checked)
    assert rows_of(f"localhost:{port}", unchecked)
