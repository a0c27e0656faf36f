"""Sends GET requests to Muster's HTTP API, over TLS if the address begins with https://. User name,
password and client certificate come from the file of ``--command-config``, as for Kafka's
listeners. The password is sent only over TLS or to this machine."""

from __future__ import annotations

import http.client
import socket
from base64 import b64encode
from contextlib import closing
from ipaddress import ip_address

from cli.client.cluster import is_port
from cli.clock import Deadline
from cli.errors import USAGE, CommandError
from client.security import OPTION, Security, Tls

HTTPS = "https://"
MAX_ANSWER_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
_MISDIRECTED = 421
_UNKNOWN = 401
_SCHEMES = (HTTPS, "http://")


class HttpEndpoint:
    """The address of Muster's HTTP API, and the credentials for it."""

    def __init__(self, address: str, security: Security) -> None:
        """Creates the endpoint. ``address`` is HOST:PORT, or https://HOST:PORT for TLS."""
        self.has_tls = address.startswith(HTTPS)
        self.host, self.port = host_and_port(address)
        self._security = security

    def get(self, target: str, deadline: Deadline) -> tuple[int, bytes]:
        """Returns status and body of the response. Raises OSError or HTTPException if no server
        answers, and ClientError for a certificate that is not trusted."""
        with closing(_Connection(self, self._security, deadline)) as connection:
            status, body = connection.exchange(target, None, deadline)
            if status == _MISDIRECTED:
                # The broker rejects the host name; it always accepts its IP address.
                connection.close()
                status, body = connection.exchange(target, connection.peer(), deadline)
            return status, body

    def advice(self, status: int) -> str:
        """Returns advice for status 401, which means that authentication is required; "" for any
        other status."""
        if status != _UNKNOWN:
            return ""
        if self._security.login is None:
            return f"; log in with a file of Kafka client properties: {OPTION}"
        if self.has_tls or is_loopback(self.host):
            return ""
        return "; the password was not sent, because the connection is not encrypted; use https://"


class _Connection(http.client.HTTPConnection):
    """A connection that may use TLS."""

    def __init__(self, endpoint: HttpEndpoint, security: Security, deadline: Deadline) -> None:
        super().__init__(endpoint.host, endpoint.port, timeout=deadline.left_s())
        self._security = security
        self._tls = (security.tls or Tls()) if endpoint.has_tls else None

    def connect(self) -> None:
        super().connect()
        if self._tls is not None:
            tls = Security(self._tls)
            try:
                self.sock = tls.wrap(self.sock, self.host, f"{self.host}:{self.port}")
            except BaseException:
                self.close()
                raise

    def peer(self) -> str:
        """Returns the server's IP address as a Host header spells it."""
        if self.sock is None:
            self.connect()
        found: str = self.sock.getpeername()[0]
        return f"[{found}]" if ":" in found else found

    def exchange(self, target: str, host: str | None, deadline: Deadline) -> tuple[int, bytes]:
        """Sends one GET request and returns status and body. The whole response must arrive before
        the deadline."""
        if self.sock is None:
            self.connect()
        stream = self.sock
        stream.settimeout(deadline.left_s())
        headers = {"Accept": "*/*", **({} if host is None else {"Host": host})}
        self.request("GET", target, headers={**headers, **self._who(stream)})
        answer = self.getresponse()
        body = bytearray()
        while len(body) < MAX_ANSWER_BYTES:
            stream.settimeout(deadline.left_s())
            chunk = answer.read1(_CHUNK_BYTES)
            if not chunk:
                break
            body += chunk
        if answer.length:
            raise http.client.IncompleteRead(bytes(body), answer.length)
        return answer.status, bytes(body)

    def _who(self, stream: socket.socket) -> dict[str, str]:
        """Returns the header with user name and password. Returns no header if the user has no
        password, or if the password would be sent to another machine without TLS."""
        login = self._security.login
        if login is None or not login.who.name or login.who.by_token:
            return {}
        if self._tls is None and not is_loopback(stream.getpeername()[0]):
            return {}
        given = b64encode(f"{login.who.name}:{login.who.secret}".encode()).decode()
        return {"Authorization": f"Basic {given}"}


def host_and_port(address: str) -> tuple[str, int]:
    """Returns host and port of the value of --http. Raises CommandError if the value is invalid."""
    rest = address
    for scheme in _SCHEMES:
        rest = rest.removeprefix(scheme)
    host, colon, port = rest.removesuffix("/").rpartition(":")
    if not colon or not is_port(port):
        raise CommandError(f"--http {address}: write it as HOST:PORT", USAGE)
    return host.strip("[]"), int(port)


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)
