"""Connects the tools to secured brokers, configured by Kafka's own properties.

    --command-config FILE   the properties of the clients: security.protocol, sasl.*
    --server-config FILE    the properties of the started brokers: ssl.*, authorizer ...

A tool gives each broker a listener with the protocol of ``--command-config``. For connections to
each other, the brokers log in with the user of ``--command-config``. The tools ignore listeners,
directories and HTTP settings in the file of ``--server-config``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from client.errors import ClientError
from client.security import PLAINTEXT, Login, Security
from client.settings import read_settings
from protocol.messages import BY_NAME
from protocol.properties import parse
from security.credentials import BY_NAME as SCRAM
from security.sasl import oauthbearer, plain
from security.sasl.client_side import module_of
from tests.brokers import CHECKOUT, COMMAND
from tests.raw_connection import RawConnection

TIMEOUT_S = 20.0
LISTENER = "PLAINTEXT"
"""The name of the listener of each started broker, whatever its security protocol."""
_NOT_TAKEN = (
    "listeners", "advertised.listeners", "listener.security.protocol.map",
    "inter.broker.listener.name", "security.inter.broker.protocol", "log.dir", "log.dirs", "http.",
)  # fmt: skip


class Access(NamedTuple):
    """The security settings for brokers and clients of a measurement."""

    security: Security = PLAINTEXT
    file: Path | None = None
    """The file of ``--command-config``, for tools that read a properties file."""
    settings: Mapping[str, str] = {}
    """The settings with which each broker starts."""

    def connect(self, port: int, timeout_s: float = TIMEOUT_S) -> RawConnection:
        """Returns an authenticated connection to a broker on this machine."""
        connection = RawConnection(port, timeout_s)
        caller = _Caller(connection, port)
        connection.socket = self.security.wrap(connection.socket, "127.0.0.1", caller.address)
        self.security.authenticate(caller, lambda: timeout_s)
        return connection

    @property
    def scram(self) -> Login | None:
        """The login if its mechanism is SCRAM, else None. The user of a SCRAM login must be added
        before the brokers start."""
        login = self.security.login
        return login if login is not None and login.mechanism in SCRAM else None

    def add_user(self, data: Path) -> None:
        """Adds the user of a SCRAM login to the data directory of a Muster broker."""
        if self.scram is None:
            return
        command = [*COMMAND, "users", "add", self.scram.who.name, "--data-dir", str(data)]
        subprocess.run(
            [*command, "--mechanism", self.scram.mechanism],
            cwd=CHECKOUT, input=self.scram.who.secret, text=True, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def sets(self) -> list[str]:
        """Returns the command-line options for `muster serve`."""
        return [f"--set={name}={value}" for name, value in self.settings.items()]

    def groupload(self) -> list[str]:
        """Returns the command-line options for the load generator groupload."""
        return [] if self.file is None else ["-command-config", str(self.file)]

    def librdkafka(self) -> dict[str, Any]:
        """Returns the configuration for librdkafka clients."""
        tls, login = self.security.tls, self.security.login
        found: dict[str, Any] = {"security.protocol": _protocol(self.security)}
        if tls is not None:
            found |= {
                "ssl.ca.pem": tls.trusted,
                "ssl.certificate.pem": tls.certificates,
                "ssl.key.pem": tls.key,
                "ssl.key.password": tls.key_password,
                "ssl.endpoint.identification.algorithm": "https" if tls.check_host else "none",
            }
        if login is not None:
            found |= {
                "sasl.mechanism": login.mechanism,
                "sasl.username": login.who.name,
                "sasl.password": login.who.secret,
            }
        return {name: value for name, value in found.items() if value}


PLAIN = Access()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options ``--command-config`` and ``--server-config`` to a tool."""
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="Kafka's client properties for the load: security.protocol, ssl.*, sasl.*",
    )
    parser.add_argument(
        "--server-config",
        metavar="FILE",
        type=Path,
        help="Kafka's properties for the started brokers: ssl.*, sasl.*, authorizer",
    )


def chosen(given: argparse.Namespace) -> Access:
    """Returns the settings from the files that the options name. Exits the tool if the settings are
    invalid."""
    try:
        return read(given.command_config, given.server_config)
    except (ClientError, OSError) as error:
        sys.exit(str(error))


def read(client: Path | None, server: Path | None) -> Access:
    """Reads the properties files for the load (``client``) and the brokers (``server``). Raises
    ClientError and OSError."""
    security = PLAINTEXT if client is None else read_settings(client).security
    settings = {} if server is None else _settings(server)
    if security.tls is not None and client is not None:
        trust = {k: v for k, v in _settings(client).items() if k.startswith("ssl.truststore.")}
        settings = {**trust, **settings}  # brokers trust the same certificates as the load
    if security != PLAINTEXT:
        protocols = f"{LISTENER}:{_protocol(security)},CONTROLLER:PLAINTEXT"
        settings["listener.security.protocol.map"] = protocols
        settings["inter.broker.listener.name"] = LISTENER
    if security.login is not None:
        settings = {**_login(security.login), **settings}
    return Access(security, client, settings)


def _login(login: Login) -> dict[str, str]:
    """Returns the broker settings for connections between brokers with this login."""
    found = dict.fromkeys(
        ("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"), login.mechanism
    )
    if login.mechanism != oauthbearer.MECHANISM:
        name, secret = login.who.name, re.sub(r'(["\\])', r"\\\1", login.who.secret)
        words = [module_of(login.mechanism), "required"]
        words += [f'username="{name}"', f'password="{secret}"']
        if login.mechanism == plain.MECHANISM:
            words.append(f'user_{name}="{secret}"')
        prefix = f"listener.name.{LISTENER.lower()}.{login.mechanism.lower()}"
        found[f"{prefix}.sasl.jaas.config"] = " ".join(words) + ";"
    return found


def _settings(file: Path) -> dict[str, str]:
    found = {}
    for name, value in parse(file.read_text()).items():
        if not name.startswith(_NOT_TAKEN):
            # Brokers are started in another folder.
            found[name] = str(Path(value).resolve()) if name.endswith(".location") else value
    return found


def _protocol(security: Security) -> str:
    end = "PLAINTEXT" if security.tls is None else "SSL"
    return end if security.login is None else f"SASL_{end}"


class _Caller:
    """Adapts a `RawConnection` for `Security.authenticate`; every API counts as supported."""

    def __init__(self, connection: RawConnection, port: int) -> None:
        self._connection = connection
        self.address = f"127.0.0.1:{port}"

    def supports(self, name: str, version: int) -> bool:
        return version <= BY_NAME[name].versions[-1]

    def call(
        self, name: str, value: dict[str, Any], timeout_s: float | None, version: int | None
    ) -> dict[str, Any]:
        self._connection.socket.settimeout(timeout_s)
        assert version is not None
        return self._connection.call(name, version, **value)

    def exchange(self, token: bytes, timeout_s: float) -> bytes:
        raise AssertionError(f"{len(token)} bytes without a request, answered in {timeout_s} s")
