"""A secured Muster and a secured Apache Kafka with the same settings and users.

Each of the four listeners is named after its security protocol. An authorizer checks all users
except ADMIN and the broker itself. The brokers' settings contain the PLAIN passwords. ADMIN sets
the SCRAM passwords.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from client.connection import Connection
from client.settings import settings_of
from tests import java
from tests.brokers import Broker, KafkaBroker, free_port, running
from tests.certificates import Authority
from tests.interop.secured.tokens import JUDGE, LOGIN_HANDLER, LOGIN_MODULE, Issuer

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MODULES = "org.apache.kafka.common.security"
ADMIN, BROKER = "admin", "broker"
ITERATIONS = 4096
SALT = b"a salt for tests"

UPSERT_OF = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


def password_of(user: str) -> str:
    return f"secret-of-{user}"


def jaas(mechanism: str, user: str, password: str | None = None) -> str:
    """Returns the value of ``sasl.jaas.config`` of a client."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    secret = password_of(user) if password is None else password
    return f'{MODULES}.{module} required username="{user}" password="{secret}";'


class Secured(NamedTuple):
    """A running broker, its listeners, and the authority that issued its certificates."""

    broker: Broker
    listeners: Mapping[str, str]
    """HOST:PORT of each listener, by security protocol. Also contains PLAINTEXT."""
    authority: Authority
    issuer: Issuer

    def properties(
        self, protocol: str, mechanism: str | None, user: str, password: str | None = None
    ) -> dict[str, str]:
        """Returns the properties with which an Apache client logs in as ``user``. With protocol
        SSL, the client uses a certificate of the user."""
        pairs = {"security.protocol": protocol}
        if mechanism is not None:
            pairs["sasl.mechanism"] = mechanism
            pairs |= self._login(mechanism, user, password)
        if protocol.endswith("SSL"):
            pairs["ssl.truststore.type"] = "PEM"
            pairs["ssl.truststore.location"] = str(self.authority.certificate)
        if protocol == "SSL":
            pairs["ssl.keystore.type"] = "PEM"
            pairs["ssl.keystore.location"] = str(self.authority.issue(user).pem)
        return pairs

    def _login(self, mechanism: str, user: str, password: str | None) -> dict[str, str]:
        if mechanism != "OAUTHBEARER":
            return {"sasl.jaas.config": jaas(mechanism, user, password)}
        return {
            "sasl.jaas.config": LOGIN_MODULE,
            "sasl.login.callback.handler.class": LOGIN_HANDLER,
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url_of(
                password or self.issuer.token(user)
            ),
        }

    def connect(
        self, protocol: str, mechanism: str | None, user: str, password: str | None = None
    ) -> Connection:
        """Returns a connection that Muster's own client has opened and on which ``user`` is logged
        in."""
        pairs = self.properties(protocol, mechanism, user, password)
        host, _, port = self.listeners[protocol].rpartition(":")
        return Connection(host, int(port), f"client-of-{user}", 20.0, settings_of(pairs).security)

    def as_admin(self) -> Connection:
        return self.connect("SASL_PLAINTEXT", "PLAIN", ADMIN)

    def add_scram_users(self, *users: str) -> None:
        upsertions = [
            {"name": user, "mechanism": code, "iterations": ITERATIONS, "salt": SALT,
             "salted_password": salted(user, algorithm)}
            for user in users
            for code, algorithm in UPSERT_OF.values()
        ]  # fmt: skip
        # Kafka accepts one change per user in a request.
        for code, _ in UPSERT_OF.values():
            mine = [each for each in upsertions if each["mechanism"] == code]
            admin = self.as_admin()
            answer = admin.call("AlterUserScramCredentials", {"deletions": [], "upsertions": mine})
            admin.close()
            assert {each["error_code"] for each in answer["results"]} == {0}, answer


def salted(user: str, algorithm: str) -> bytes:
    """Returns the salted password of a user, which a SCRAM client computes from the password."""
    return hashlib.pbkdf2_hmac(algorithm, password_of(user).encode(), SALT, ITERATIONS)


class SecuredMuster(Broker):
    """A Muster that is started without options for listeners, so that its settings define all
    listeners."""

    def _command(self) -> list[str]:
        sets = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [*self.command, "serve", "--data", str(self.data), "--http", self.http, *sets]


def protection(authority: Authority, issuer: Issuer, users: Iterable[str]) -> dict[str, str]:
    names = {ADMIN, BROKER, *users}
    accepted = " ".join(f'user_{user}="{password_of(user)}"' for user in sorted(names))
    plain = jaas("PLAIN", BROKER).replace(";", f" {accepted};")
    written = {
        "plain": plain,
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": LOGIN_MODULE,
    }
    return {
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z0-9-]+)$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:{BROKER}",
        "connection.failed.authentication.delay.ms": "100",
        "delegation.token.secret.key": "a secret for tests",
        "log.retention.ms": "-1",  # the records of the tests have timestamps of 1970
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        **{
            f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class": JUDGE
            for listener in ("sasl_ssl", "sasl_plaintext")
        },
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text
            for listener in ("sasl_ssl", "sasl_plaintext")
            for mechanism, text in written.items()
        },
    }


CONTROLLER = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,"
    + ",".join(f"{name}:{name}" for name in ("PLAINTEXT", *PROTOCOLS)),
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
}
"""Settings that only Kafka gets, because only Kafka has a controller listener. The listener uses
SASL, so that ANONYMOUS needs no rights."""
UNVERIFIED = {
    "kafka-4.4.0": {
        f"sasl.oauthbearer.allow.unverified.{claim}": "true" for claim in ("audience", "issuer")
    },
}
"""Settings by release. With OAUTHBEARER, Kafka 4.4 starts only with an expected audience and
issuer, or with these settings. Earlier releases accept tokens of any audience and issuer."""


@contextmanager
def secured_kafka(
    folder: Path,
    users: Iterable[str] = (),
    more: Mapping[str, str] | None = None,
    version: str = java.KAFKA_NEW,
) -> Iterator[Secured]:
    folder.mkdir(parents=True, exist_ok=True)
    authority, issuer = Authority(folder), Issuer(folder)
    settings = protection(authority, issuer, users)
    plain = settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    theirs = {
        **CONTROLLER,
        "listener.name.controller.plain.sasl.jaas.config": plain,
        **UNVERIFIED.get(version, {}),
    }
    kafka = KafkaBroker(
        folder / "kafka", {**settings, **theirs, **(more or {})}, version, PROTOCOLS
    )
    with running(kafka):
        yield Secured(kafka, {"PLAINTEXT": kafka.bootstrap, **kafka.listeners}, authority, issuer)


@contextmanager
def secured_muster(
    folder: Path, users: Iterable[str] = (), more: Mapping[str, str] | None = None
) -> Iterator[Secured]:
    folder.mkdir(parents=True, exist_ok=True)
    authority, issuer = Authority(folder), Issuer(folder)
    where = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", *PROTOCOLS)}
    settings = protection(authority, issuer, users)
    settings["listeners"] = ",".join(f"{name}://{place}" for name, place in where.items())
    muster = SecuredMuster(folder / "muster", {**settings, **(more or {})})
    with running(muster):
        yield Secured(muster, where, authority, issuer)


def called(secured: Secured, name: str, value: dict[str, Any], version: int) -> dict[str, Any]:
    """Sends one request as ADMIN and returns the response."""
    admin = secured.as_admin()
    try:
        return admin.call(name, value, version=version)
    finally:
        admin.close()
