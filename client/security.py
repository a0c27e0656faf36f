"""The security of a connection: TLS by the standard library, and SASL.

The mechanisms are in `security/sasl/client_side.py`. For brokers before Kafka 1.0 (SaslHandshake
version 0), SASL messages are sent without a request header.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from client.errors import ClientError, Unreachable
from client.files import read_bytes
from protocol import errors

if TYPE_CHECKING:
    import ssl

    from security.sasl.client_side import Credentials

OPTION: Final = "--command-config"


class Caller(Protocol):
    """The connection through which a login sends its requests."""

    address: str

    def supports(self, name: str, version: int) -> bool:
        """Returns True if the broker supports this version of an API."""

    def call(
        self, name: str, value: dict[str, Any], timeout_s: float | None, version: int | None
    ) -> dict[str, Any]: ...

    def exchange(self, token: bytes, timeout_s: float) -> bytes:
        """Sends bytes without a request header and returns the response."""


@dataclass(frozen=True)
class Tls:
    """The trusted certificates, and the client's private key and certificates, all in PEM
    format."""

    trusted: str | None = None
    """The trusted certificates; None means the certificates that this machine trusts."""
    certificates: str | None = None
    """The client's certificate, and then its chain."""
    key: str | None = field(default=None, repr=False)
    key_password: str = field(default="", repr=False)
    check_host: bool = True
    """True if the broker's certificate must contain the host name to which the client connects."""

    def context(self) -> ssl.SSLContext:
        """Returns the SSL context. Raises ClientError if certificates or keys can't be used."""
        import ssl  # not imported for plaintext connections

        try:
            context = ssl.create_default_context(cadata=self.trusted)
        except (ssl.SSLError, ValueError) as error:
            raise ClientError(f"can't read the certificates of the truststore: {error}") from None
        context.check_hostname = self.check_host
        if self.certificates is not None and self.key is not None:
            self._load_own(context, f"{self.key}\n{self.certificates}\n")
        return context

    def _load_own(self, context: ssl.SSLContext, text: str) -> None:
        import ssl

        # readable only by this user
        descriptor, name = tempfile.mkstemp(prefix="muster-", suffix=".pem")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            context.load_cert_chain(name, password=self.key_password)
        except (ssl.SSLError, ValueError) as error:
            raise ClientError(
                "can't use the client's key and certificates: is ssl.key.password right?"
                f" ({getattr(error, 'reason', None) or error})"
            ) from None
        finally:
            os.unlink(name)


@dataclass(frozen=True)
class Login:
    """The SASL settings with which the client logs in."""

    mechanism: str
    who: Credentials
    token_file: str | None = None
    """The file with the OAUTHBEARER token. It is read at each login, since another program may
    renew the token."""

    def credentials(self) -> Credentials:
        """Returns the current credentials. Raises ClientError if the token file can't be read."""
        if self.token_file is None:
            return self.who
        from security.sasl.client_side import Credentials

        try:
            return Credentials("", read_bytes(self.token_file).decode("ascii").strip())
        except UnicodeDecodeError:
            raise ClientError(f"{self.token_file} does not contain a token") from None

    @property
    def says(self) -> str:
        return f"user {self.who.name}" if self.who.name else "the client"


@dataclass(frozen=True)
class Security:
    """The security settings of Kafka's clients. The object can be pickled. Its repr contains no
    password and no key."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def advice(self) -> str:
        """The advice for the user if the broker closes the connection."""
        if self.tls is None and self.login is None:
            return (
                f"; if the listener needs TLS or SASL, pass Kafka client properties with {OPTION}"
            )
        return "; does security.protocol match this listener?"

    def wrap(self, plain: socket.socket, host: str, address: str) -> socket.socket:
        """Returns the socket to use: ``plain`` itself, or TLS over it. Raises ClientError if the
        broker's certificate is not trusted."""
        if self.tls is None:
            return plain
        import ssl

        try:
            return self.tls.context().wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise ClientError(
                f"the certificate of the broker at {address} is not trusted:"
                f" {error.verify_message}; add its issuer to ssl.truststore.location"
            ) from None
        except TimeoutError:
            raise Unreachable(
                f"timeout of the TLS handshake with the broker at {address}"
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise Unreachable(
                f"the TLS handshake with the broker at {address} failed ({reason}); does"
                " security.protocol match this listener?"
            ) from None

    def authenticate(self, caller: Caller, left_s: Callable[[], float]) -> int:
        """Logs in if SASL is configured. Returns the session's lifetime in milliseconds; 0 means no
        limit. Raises ClientError if the broker rejects the login."""
        if self.login is None:
            return 0
        return _Authentication(caller, self.login, left_s).run()


PLAINTEXT: Final = Security()


class _Authentication:
    """One login: SaslHandshake, and then the messages of the mechanism."""

    def __init__(self, caller: Caller, login: Login, left_s: Callable[[], float]) -> None:
        self._caller = caller
        self._login = login
        self._left_s = left_s
        self._in_requests = caller.supports("SaslHandshake", 1)
        self._lifetime_ms = 0

    def run(self) -> int:
        """Logs in. Returns the session's lifetime in milliseconds; 0 means no limit."""
        from client.chance import fresh_nonce
        from security.sasl.client_side import NotBelieved, client_login

        mechanism, who = self._login.mechanism, self._login.credentials()
        self._handshake()
        try:
            login = client_login(mechanism, who, fresh_nonce())
            message: bytes | None = login.first()
            while message is not None:
                message = login.answer(self._exchange(message))
        except NotBelieved as error:
            raise self._refused(str(error)) from None
        return self._lifetime_ms

    def _handshake(self) -> None:
        mechanism = self._login.mechanism
        answer = self._caller.call(
            "SaslHandshake", {"mechanism": mechanism}, self._left_s(), int(self._in_requests)
        )
        if answer["error_code"] == errors.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer["mechanisms"]) or "none"
            raise ClientError(
                f"the broker at {self._caller.address} does not accept sasl.mechanism={mechanism}:"
                f" it accepts {offered}"
            )
        if answer["error_code"]:
            name = errors.NAMES.get(answer["error_code"], answer["error_code"])
            raise ClientError(
                f"the broker at {self._caller.address} does not accept SASL here: {name}; does"
                " security.protocol match this listener?"
            )

    def _exchange(self, token: bytes) -> bytes:
        if not self._in_requests:
            return self._caller.exchange(token, self._left_s())
        version = 1 if self._caller.supports("SaslAuthenticate", 1) else 0
        asked = {"auth_bytes": token}
        answer = self._caller.call("SaslAuthenticate", asked, self._left_s(), version)
        if answer["error_code"]:
            name = errors.NAMES.get(answer["error_code"], str(answer["error_code"]))
            raise self._refused(answer["error_message"] or name)
        self._lifetime_ms = answer.get("session_lifetime_ms", 0)
        answered: bytes = answer["auth_bytes"]
        return answered

    def _refused(self, reason: str) -> ClientError:
        login = self._login
        return ClientError(
            f"the broker at {self._caller.address} rejected the {login.mechanism} login of"
            f" {login.says}: {reason}"
        )
