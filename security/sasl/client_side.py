"""The client of each mechanism, for commands, the pipeline, and connections between brokers.

A client sends its first message, and then a response to each message of the broker until the login
is complete. This module also parses the client's options in ``sasl.jaas.config``. Source: RFC 4616,
5802, 7628; Kafka 3.9 ``PlainSaslClient``, ``ScramSaslClient``, ``OAuthBearerSaslClient``. Like
Kafka's clients, they use no channel binding and do not normalize names (`ScramFormatter.normalize`
is plain UTF-8).
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass, field
from typing import Final, Protocol

from security.credentials import BY_NAME, ITERATIONS_MIN, ScramMechanism
from security.jaas import JaasError, LoginModule
from security.sasl import oauthbearer, plain
from security.sasl.scram import TOKEN_LOGIN

MECHANISMS: Final = (plain.MECHANISM, *BY_NAME, oauthbearer.MECHANISM)
ITERATIONS_MAX: Final = 10_000_000
"""The maximum number of iterations. A login with this number takes some seconds of CPU time.
Without a limit, a server could make a client compute for hours."""
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_NO_BINDING: Final = "n,,"
_HEARD: Final = b"\x01"
_DECIMAL = re.compile(r"[0-9]{1,8}")
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")


class NotBelieved(Exception):
    """The broker's message is invalid for the mechanism, or does not prove that the broker knows
    the password."""


@dataclass(frozen=True)
class Credentials:
    """The identity of the client, for every mechanism that uses a name and a secret."""

    name: str
    secret: str = field(repr=False)
    """The password, the HMAC of a delegation token, or the token of OAUTHBEARER."""
    by_token: bool = False
    """True if the name is the id of a delegation token."""


class ClientLogin(Protocol):
    """One login with one mechanism."""

    def first(self) -> bytes:
        """Returns the client's first message."""

    def answer(self, message: bytes) -> bytes | None:
        """Returns the client's response to the broker's message; None if the login needs no further
        message. Raises NotBelieved."""


def client_login(mechanism: str, who: Credentials, nonce: str) -> ClientLogin:
    """Returns a login with one of `MECHANISMS`. ``nonce`` must be new and unpredictable."""
    if mechanism == plain.MECHANISM:
        return PlainClient(who)
    if mechanism == oauthbearer.MECHANISM:
        return OAuthBearerClient(who)
    return ScramClient(BY_NAME[mechanism], who, nonce)


def module_of(mechanism: str) -> str:
    """Returns the name of the Java class whose options configure a mechanism."""
    if mechanism == plain.MECHANISM:
        return plain.MODULE
    return OAUTHBEARER_MODULE if mechanism == oauthbearer.MECHANISM else SCRAM_MODULE


def credentials_of(mechanism: str, module: LoginModule) -> Credentials:
    """Returns the credentials in the options of a login module. Raises JaasError."""
    expected = module_of(mechanism)
    if module.name != expected:
        raise JaasError(f"{module.name:.60} does not support {mechanism}: use {expected}")
    name, secret = module.options.get("username"), module.options.get("password")
    if not name or secret is None:
        raise JaasError(f'{expected} needs username="..." and password="..."')
    by_token = module.options.get(TOKEN_LOGIN, "").lower() == "true"
    return Credentials(name, secret, by_token and mechanism in BY_NAME)


class PlainClient:
    """PLAIN: the client sends the password itself."""

    def __init__(self, who: Credentials) -> None:
        self._who = who

    def first(self) -> bytes:
        """Returns the only message, which contains the name and the password."""
        return f"\0{self._who.name}\0{self._who.secret}".encode()

    def answer(self, message: bytes) -> None:
        """Returns None, because the broker's message is empty and needs no response."""


class OAuthBearerClient:
    """The client's side of an OAUTHBEARER login. The secret in ``who`` is the bearer token. Raises
    NotBelieved if the secret has characters that a bearer token can't have."""

    def __init__(self, who: Credentials) -> None:
        if _TOKEN.fullmatch(who.secret) is None:
            raise NotBelieved("the token has characters that a bearer token can't have")
        self._token = who.secret

    def first(self) -> bytes:
        """Returns the first message, which contains the token."""
        return f"{_NO_BINDING}\x01auth=Bearer {self._token}\x01\x01".encode()

    def answer(self, message: bytes) -> bytes | None:
        """Returns None if the broker accepted the token. After an error message, returns the
        confirmation that the broker expects."""
        return _HEARD if message else None


class ScramClient:
    """SCRAM: client and broker each prove that they know the password, without sending it."""

    def __init__(self, mechanism: ScramMechanism, who: Credentials, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = who.secret.encode()
        self._nonce = nonce
        name = who.name.replace("=", "=3D").replace(",", "=2C")
        extension = f",{TOKEN_LOGIN}=true" if who.by_token else ""
        self._first_bare = f"n={name},r={nonce}{extension}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """Returns the first message, which contains the name and the nonce."""
        return f"{_NO_BINDING}{self._first_bare}".encode()

    def answer(self, message: bytes) -> bytes | None:
        """Answers the broker's first message with the client's proof. Verifies the broker's proof
        in its second message, and returns None."""
        if self._signature is None:
            return self._proof(message)
        self._verify(message, self._signature)
        return None

    def _proof(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        iterations = fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt:
            raise NotBelieved("the nonce belongs to another exchange")
        if not _DECIMAL.fullmatch(iterations) or not (
            # With fewer iterations the password is cheap to guess; Kafka's client rejects fewer
            # too.
            ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX
        ):
            raise NotBelieved(f"the message requests {iterations:.20} iterations")
        bare = f"c={b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        covered = b",".join((self._first_bare.encode(), server_first, bare.encode()))
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, salt, int(iterations))
        key = mechanism.hmac(salted, b"Client Key")
        signed = mechanism.hmac(mechanism.hash(key), covered)
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), covered)
        shown = bytes(a ^ b for a, b in zip(key, signed, strict=True))
        return f"{bare},p={b64encode(shown).decode()}".encode()

    def _verify(self, server_final: bytes, expected: bytes) -> None:
        fields = _fields(server_final)
        if "e" in fields:
            raise NotBelieved(fields["e"])
        if not hmac.compare_digest(_decoded(fields.get("v", "")), expected):
            raise NotBelieved("the server signature does not match the password")


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise NotBelieved("the message is not UTF-8") from None
    return {name: value for name, _, value in parts}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise NotBelieved("the message has a field that is not base64") from None
