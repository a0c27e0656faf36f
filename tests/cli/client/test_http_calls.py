"""Commands send user names and passwords only over HTTPS, or over HTTP to a loopback address."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cli.client.http_calls import HttpEndpoint, _Connection
from cli.clock import Deadline
from client.security import PLAINTEXT, Login, Security
from security.sasl.client_side import Credentials

ALICE = Security(None, Login("SCRAM-SHA-512", Credentials("alice", "a:b")))
BY_TOKEN = Security(None, Login("SCRAM-SHA-512", Credentials("id", "mac", by_token=True)))
OAUTH = Security(None, Login("OAUTHBEARER", Credentials("", "to.ken")))
SENT = {"Authorization": "Basic YWxpY2U6YTpi"}


@pytest.mark.parametrize(
    ("address", "peer", "security", "sent"),
    [
        ("https://b1:9644", "10.0.0.5", ALICE, SENT),
        ("b1:9644", "127.0.0.1", ALICE, SENT),
        ("http://b1:9644", "::1", ALICE, SENT),
        ("b1:9644", "10.0.0.5", ALICE, {}),
        ("localhost:9644", "10.0.0.5", ALICE, {}),  # the name may resolve to any machine
        ("https://b1:9644", "10.0.0.5", PLAINTEXT, {}),
        ("https://b1:9644", "10.0.0.5", BY_TOKEN, {}),
        ("https://b1:9644", "10.0.0.5", OAUTH, {}),
    ],
)
def test_password_is_sent_only_over_https_or_loopback(
    address: str, peer: str, security: Security, sent: dict[str, str]
) -> None:
    stream: Any = SimpleNamespace(getpeername=lambda: (peer, 9644))
    connection = _Connection(HttpEndpoint(address, security), security, Deadline(1))

    assert connection._who(stream) == sent


def test_error_about_http_401_advises_how_to_log_in() -> None:
    assert HttpEndpoint("https://b1:9644", PLAINTEXT).advice(401) == (
        "; log in with a file of Kafka client properties: --command-config"
    )
    assert "use https://" in HttpEndpoint("b1:9644", ALICE).advice(401)
    assert HttpEndpoint("https://b1:9644", ALICE).advice(401) == ""
    assert HttpEndpoint("b1:9644", PLAINTEXT).advice(404) == ""
