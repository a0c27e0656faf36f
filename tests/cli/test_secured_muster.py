"""Commands on a Muster broker with TLS, SASL and ACLs, over Kafka's protocol and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.errors import REFUSED, UNREACHABLE
from security.sasl.plain import MODULE
from tests.brokers import KIND, Broker, running
from tests.certificates import Authority
from tests.cli.running import Ran, run

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the HTTP API is Muster's own"),
]

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "carol": "carol-secret"}


class Secured:
    """A broker with a SASL_SSL listener and HTTPS. `as_` runs a command as one user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        own = str(self.authority.issue("broker").pem)
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": (
                f'{MODULE} required username="admin" password="admin-secret" {users};'
            ),
            "ssl.keystore.location": own,
            "ssl.truststore.location": str(self.authority.certificate),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "http.authentication": "basic",
            "http.security.protocol": "SSL",
            "http.ssl.keystore.location": own,
        }
        self.broker = Broker(folder / "data", settings, http="127.0.0.1:0")

    def as_(self, who: str, *words: str, password: str | None = None) -> Ran:
        """Runs a command as user ``who``. By default, the password is correct."""
        file = self.folder / f"{who}.properties"
        given = PASSWORDS[who] if password is None else password
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f"ssl.truststore.location={self.authority.certificate}\n"
            f'sasl.jaas.config={MODULE} required username="{who}" password="{given}";\n'
        )
        ran = run(*words, "--bootstrap", self.broker.bootstrap, "--command-config", str(file))
        assert given not in ran.out + ran.err
        return ran

    @property
    def http(self) -> str:
        [line] = [line for line in self.broker.lines() if "https://" in line]
        return line.rpartition("https://")[2].strip()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("secured"))
    with running(secured.broker):
        for topic in ("orders", "salaries"):
            assert secured.as_("admin", "topics", "create", topic).code == 0
        assert secured.as_("admin", "produce", "orders", "--value", "x").code == 0
        for group, topic in (("billing", "orders"), ("payroll", "salaries")):
            place = f"{topic}:0=0"
            ran = secured.as_("admin", "offsets", "set", group, place, "--execute")
            assert ran.code == 0, ran.err
        yield secured


def test_super_user_may_run_commands_over_https(secured: Secured) -> None:
    listed = secured.as_("admin", "groups", "list", "--json")
    assert listed.code == 0, listed.err
    assert {"billing", "payroll"} <= {row["group"] for row in listed.json}
    for words in (
        ("groups", "why", "billing"),
        ("top", "--once"),
        ("offsets", "expiring"),
        ("topics", "list"),
        ("cluster",),
        ("consume", "orders", "--from-beginning", "--max", "1"),
    ):
        ran = secured.as_("admin", *words)
        assert ran.code == 0, (words, ran.err)


def test_error_for_an_unauthorized_user_names_the_missing_right(secured: Secured) -> None:
    given = ("--http", f"https://{secured.http}")
    for words, said in (
        (("groups", "why", "billing", *given), "User:alice may not Describe group billing"),
        (
            ("top", "--once", *given),
            "may not read /metrics: it needs DESCRIBE|may not Describe the cluster",
        ),
    ):
        ran = secured.as_("alice", *words)
        assert ran.code == REFUSED, (words, ran.out, ran.err)
        assert any(each in ran.err for each in said.split("|")), ran.err
    assert secured.as_("alice", "groups", "list", "--json").json == []
    asked = secured.as_("alice", "groups", "why", "billing")
    assert "User:alice may not Describe group billing" in asked.err


def test_user_with_describe_on_a_group_gets_its_history_and_verdict(
    secured: Secured,
) -> None:
    """In an earlier version, `groups list` showed a wrong verdict if the user had no rights on the
    settings of the broker."""
    assert secured.as_("admin", "offsets", "set", "mail", "orders:0=0", "--execute").code == 0
    for what in (("--group", "mail"), ("--topic", "orders")):
        allowed = ("acls", "add", "--principal", "User:carol", "--operation", "describe", *what)
        assert secured.as_("admin", *allowed).code == 0

    why = secured.as_("carol", "groups", "why", "mail")
    listed = secured.as_("carol", "groups", "list", "--json")

    assert why.code == 0, why.err
    assert why.out.startswith("mail  Empty")
    assert "not checked" not in listed.err
    [row] = listed.json
    told = secured.as_("admin", "groups", "list", "mail", "--json").json
    assert (row["group"], row["verdict"]) == ("mail", told[0]["verdict"])


def test_error_names_a_wrong_password_bad_certificate_or_missing_login(
    secured: Secured,
) -> None:
    ran = secured.as_("alice", "topics", "list", password="guess")
    assert "rejected the PLAIN login of user alice: Authentication failed" in ran.err

    other = Authority(secured.folder, "another authority")
    file = secured.folder / "stranger.properties"
    trusted = (secured.folder / "admin.properties").read_text()
    file.write_text(trusted.replace(str(secured.authority.certificate), str(other.certificate)))
    ran = run("topics", "list", "-b", secured.broker.bootstrap, "--command-config", str(file))
    assert "is not trusted" in ran.err
    assert ran.code != 0

    ran = run("groups", "list", "--bootstrap", secured.broker.bootstrap)
    assert ran.code == UNREACHABLE
    assert "pass Kafka client properties with --command-config" in ran.err
