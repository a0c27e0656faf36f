"""Kafka's tools for ACLs, users, quotas, certificates and delegation tokens. The tools log in to a
secured broker."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from client.errors import ClientError
from tests import java
from tests.interop.secured.brokers import ADMIN, Secured
from tests.interop.secured.clients import LIBRARIES, who
from tests.interop.secured.least_rights import WRITER, make_topic
from tests.interop.secured.test_java_clients import WHOLE, run
from tests.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 25")]
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = java.config_command()
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
LISTENER = "SASL_SSL"


class Tools:
    """Runs Kafka's tools with the login of ADMIN or of another user."""

    def __init__(self, secured: Secured, folder: Path) -> None:
        self._secured = secured
        self._folder = folder

    def properties(self, user: str = ADMIN, **pairs: str) -> str:
        """Writes a file of client properties for a user. ``pairs`` override properties. Returns its
        path."""
        found = self._secured.properties(LISTENER, "PLAIN", user)
        found |= {key.replace("_", "."): value for key, value in pairs.items()}
        found["bootstrap.servers"] = self._secured.listeners[LISTENER]
        file = self._folder / f"{len(list(self._folder.iterdir()))}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
        return str(file)

    def run(self, tool: str, *arguments: str, code: int = 0, user: str = ADMIN) -> str:
        """Runs a tool and checks its exit code. Returns its output, with standard error if ``code``
        is not 0."""
        where = self._secured.listeners[LISTENER]
        given = ("--bootstrap-server", where, "--command-config", self.properties(user))
        done = java.run(java.KAFKA_NEW, tool, *given, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")


@pytest.fixture
def tools(secured: Secured, tmp_path: Path) -> Tools:
    return Tools(secured, tmp_path)


def test_kafka_acls_adds_all_acls_that_a_client_needs(
    tools: Tools, secured: Secured, name: str
) -> None:
    topic, group = f"{name}-topic", f"{name}-group"
    sends, receives = f"{name}-sends", f"{name}-receives"
    secured.add_scram_users(sends, receives)
    client = LIBRARIES["confluent"]

    tools.run(ACLS, "--add", "--allow-principal", f"User:{sends}", "--producer", "--topic", topic)
    tools.run(
        ACLS, "--add", "--allow-principal", f"User:{receives}", "--allow-host", "127.0.0.1",
        "--consumer", "--topic", topic, "--group", group,
    )  # fmt: skip
    refused = tools.run(ACLS, "--list", user=WRITER, code=1)

    # The right to create topics lets the producer create the topic.
    client.send(who(secured, LISTENER, "SCRAM-SHA-512", sends), topic, ["a", "b"])
    got = client.receive(who(secured, LISTENER, "SCRAM-SHA-512", receives), topic, group, 2)
    assert got == ["a", "b"]
    assert "ClusterAuthorizationException" in refused


def test_kafka_configs_changes_users_and_quotas(tools: Tools, secured: Secured, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)
    password = "SCRAM-SHA-256=[iterations=8192,password=of-theirs]"

    tools.run(CONFIGS, "--alter", *user, "--add-config", password)
    tools.run(
        CONFIGS, "--alter", *user, "--add-config", "producer_byte_rate=1024,request_percentage=25.5"
    )

    described = tools.run(CONFIGS, "--describe", *user)
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=25.5" in described
    assert f"SCRAM credential configs for user-principal '{name}' are" in described
    assert "SCRAM-SHA-256=iterations=8192" in described
    until("the new user may enter", lambda: enters(secured, name, "of-theirs"))
    assert not enters(secured, name, "of-others")

    tools.run(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    until("nobody of that name may enter", lambda: not enters(secured, name, "of-theirs"))
    none = tools.run(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-256", code=1)
    assert "Attempt to delete a user credential that does not exist" in none


def enters(secured: Secured, user: str, password: str) -> bool:
    try:
        secured.connect(LISTENER, "SCRAM-SHA-256", user, password).close()
    except ClientError as error:
        if " login of user " not in str(error):
            raise
        return False
    return True


def served_serial(secured: Secured) -> int:
    host, _, port = secured.listeners[LISTENER].rpartition(":")
    text = ssl.get_server_certificate((host, int(port)))
    return x509.load_pem_x509_certificate(text.encode()).serial_number


def test_kafka_configs_replaces_a_certificate(
    tools: Tools, secured: Secured, tmp_path: Path
) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    old = secured.as_admin()
    before = served_serial(secured)
    fresh = secured.authority.issue("broker")
    file = tmp_path / "fresh.pem"
    file.write_text(fresh.key_text + fresh.certificate_text)

    tools.run(
        CONFIGS, "--alter", *broker, "--add-config",
        f"listener.name.sasl_ssl.ssl.keystore.location={file},"
        "listener.name.sasl_ssl.ssl.keystore.type=PEM",
    )  # fmt: skip

    until(
        "it serves the new one", lambda: served_serial(secured) == fresh.certificate.serial_number
    )
    assert before != fresh.certificate.serial_number
    assert old.call("Metadata", {"topics": []}, version=9)["brokers"], "cut off"
    refused = tools.run(
        CONFIGS, "--alter", *broker, "--add-config", f"ssl.keystore.location={file}", code=1
    )
    assert "only per-listener using the listener prefix" in refused
    assert served_serial(secured) == fresh.certificate.serial_number
    old.close()


def test_kafka_delegation_tokens_creates_renews_and_expires_tokens(
    tools: Tools, secured: Secured, name: str
) -> None:
    made = tools.run(
        TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal",
        f"User:{WRITER}", "--owner-principal", f"User:{WRITER}",
    )  # fmt: skip
    [[token, secret, owner, requester, renewers, *_]] = token_rows(made)
    assert (owner, requester, renewers) == (
        f"User:{WRITER}", f"User:{ADMIN}", f"[User:{WRITER}]",
    )  # fmt: skip
    assert [row[:2] for row in until("it is told of", lambda: tokens_of_writer(tools))] == [
        [token, secret]
    ]
    bearer = tools.properties(
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config="org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{token}" password="{secret}" tokenauth="true";',
    )
    topic = make_topic(secured, name)
    written = run(java.KAFKA_NEW, ("token", "write", bearer, topic, WHOLE))
    assert written == {"token": f"ok {WHOLE}"}

    of_token = ("--hmac", secret)
    others = tools.run(TOKENS, "--renew", "--renew-time-period", "60000", *of_token, code=1)
    assert "is not valid Owner/Renewer" in others
    tools.run(TOKENS, "--renew", "--renew-time-period", "60000", *of_token, user=WRITER)
    tools.run(TOKENS, "--expire", "--expiry-time-period", "-1", *of_token, user=WRITER)
    until("it is gone", lambda: not tokens_of_writer(tools))


def tokens_of_writer(tools: Tools) -> list[list[str]]:
    return token_rows(tools.run(TOKENS, "--describe", "--owner-principal", f"User:{WRITER}"))


def token_rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.count("User:") >= 2]
