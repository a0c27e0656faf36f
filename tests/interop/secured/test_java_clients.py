"""Java clients of three versions with each security protocol and SASL mechanism. Their users have
only the ACLs that they need.

All clients of one version run in one JVM. The client of 2017 uses SaslHandshake version 0 and raw
tokens. It cannot read PEM files, so all versions use PKCS12 stores.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests import java
from tests.interop.secured.brokers import Secured
from tests.interop.secured.least_rights import GROUPS, LOGINS, READER, WRITER, make_topic
from tests.interop.secured.tokens import ALLOWED_URLS

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 24")]
PROGRAM = Path(__file__).parent.parent / "programs" / "SecuredClients.java"
STORE_PASSWORD = "changeit"
WHOLE = "a,b,c"


class Properties:
    """Writes files of client properties for the logins of a test."""

    def __init__(self, secured: Secured, folder: Path) -> None:
        self._secured = secured
        self._folder = folder
        self._trust = folder / "trust.p12"
        self._trust.write_bytes(secured.authority.trust_pkcs12(STORE_PASSWORD))
        self.urls: list[str] = []
        """The URLs of tokens. A client of Kafka 4 opens only URLs that a system property allows."""

    def file(
        self, protocol: str, mechanism: str | None, user: str, password: str | None = None,
        **more: str,
    ) -> str:  # fmt: skip
        """Writes the client properties for one login. Returns the path of the file."""
        pairs = self._secured.properties(protocol, mechanism, user, password)
        pairs = {key: value for key, value in pairs.items() if not key.startswith("ssl.")}
        pairs["bootstrap.servers"] = self._secured.listeners[protocol]
        pairs |= {key.replace("_", "."): value for key, value in more.items()}
        if mechanism == "OAUTHBEARER":
            self.urls.append(pairs["sasl.oauthbearer.token.endpoint.url"])
        if protocol.endswith("SSL"):
            pairs |= self._store("truststore", self._trust)
        if protocol == "SSL":
            own = self._folder / f"{user}.p12"
            own.write_bytes(self._secured.authority.issue(user).pkcs12(STORE_PASSWORD))
            pairs |= self._store("keystore", own)
        file = self._folder / f"{len(list(self._folder.iterdir()))}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        return str(file)

    def _store(self, which: str, file: Path) -> Mapping[str, str]:
        return {
            f"ssl.{which}.type": "PKCS12",
            f"ssl.{which}.location": str(file),
            f"ssl.{which}.password": STORE_PASSWORD,
        }


def run(jars: str, *calls: tuple[str, ...], urls: Sequence[str] = ()) -> dict[str, str]:
    """Runs the Java program with all calls. Returns its output for each call, by the name of the
    call. ``urls`` are the allowed token URLs."""
    done = subprocess.run(
        java.source(
            jars,
            PROGRAM,
            *(part for call in calls for part in call),
            properties={ALLOWED_URLS: ",".join(urls)},
        ),
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.fixture
def age(request: pytest.FixtureRequest) -> tuple[str, Secured]:
    """Returns a Kafka version, and a broker that serves clients of this version."""
    is_old = request.param == java.KAFKA_OLD
    fixture = "secured_for_old_clients" if is_old else "secured"
    return request.param, request.getfixturevalue(fixture)


def logins_of(jars: str) -> list[tuple[str, str | None]]:
    """Returns the logins that a version supports, as protocol and mechanism. OAUTHBEARER exists
    since Kafka 2.0."""
    return [each for each in LOGINS if jars != java.KAFKA_OLD or each[1] != "OAUTHBEARER"]


AGES = pytest.mark.parametrize(
    "age",
    [java.KAFKA_OLD, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, java.KAFKA_NEW],
    indirect=True,
)


@AGES
def test_java_clients_produce_and_consume_with_each_sasl_mechanism(
    age: tuple[str, Secured], name: str, tmp_path: Path
) -> None:
    jars, secured = age
    files = Properties(secured, tmp_path)
    calls = []
    for protocol, mechanism in logins_of(jars):
        stem = f"{protocol}-{mechanism}"
        topic, group = make_topic(secured, f"{name}-{stem}"), f"{GROUPS}{name}-{stem}"
        writer = files.file(protocol, mechanism, WRITER)
        reader = files.file(protocol, mechanism, READER, group_id=group)
        calls += [
            (f"{stem}-write", "write", writer, topic, WHOLE),
            (f"{stem}-read", "read", reader, topic, "3"),
        ]

    assert run(jars, *calls, urls=files.urls) == {call[0]: f"ok {WHOLE}" for call in calls}


@AGES
def test_denied_operation_raises_the_java_exception_of_its_error(
    age: tuple[str, Secured], name: str, tmp_path: Path
) -> None:
    jars, secured = age
    is_old = jars == java.KAFKA_OLD
    files = Properties(secured, tmp_path)
    login = ("SASL_SSL", "SCRAM-SHA-256")
    topic = make_topic(secured, name)

    calls = [
        ("write", "write", files.file(*login, READER), topic, WHOLE),
        ("read", "read", files.file(*login, WRITER, group_id=f"{GROUPS}{name}"), topic, "3"),
        ("enter", "write", files.file(*login, WRITER, "wrong", max_block_ms="3000"), topic, WHOLE),
    ]
    if not is_old:
        forged = files.file("SASL_SSL", "OAUTHBEARER", WRITER, secured.issuer.forged(WRITER))
        calls.append(("forge", "write", forged, topic, WHOLE))

    told = run(jars, *calls, urls=files.urls)

    # A newer producer requests a producer id first, and this user may write to no topic.
    written = "TopicAuthorizationException" if is_old else "ClusterAuthorizationException"
    assert f"errors.{written}" in told["write"]
    assert "errors.GroupAuthorizationException" in told["read"]
    # Before Kafka 1.0 a client was not notified of a rejected login.
    entered = "TimeoutException" if is_old else "SaslAuthenticationException"
    assert f"errors.{entered}" in told["enter"]
    if not is_old:
        assert 'errors.SaslAuthenticationException: {"status":"invalid_token"}' in told["forge"]
