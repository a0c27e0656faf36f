"""The client's side of SCRAM (RFC 5802, RFC 7677), by which a password is proven and not sent.

Kafka leaves out channel binding and normalisation (`ScramFormatter.normalize` is plain UTF-8).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from binascii import Error as NotBase64

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MAX = 10_000_000
"""Some seconds: a server can't have a client compute for hours."""
_NO_BINDING = "n,,"


class ScramError(Exception):
    """What the server sent is not what RFC 5802 has it send, or it does not know the password."""


class ScramExchange:
    """One exchange: `first`, `final` with the server's first message, `verify` with its last."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return f"{_NO_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The client's last message: the proof."""
        fields = _fields(server_first)
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        iterations = fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt:
            raise ScramError("its answer is of another exchange")
        if not iterations.isdecimal() or not 0 < int(iterations) <= ITERATIONS_MAX:
            raise ScramError(f"it asks for {iterations:.20} iterations")
        bare = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        signed = b",".join((self._first_bare.encode(), server_first, bare.encode()))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(iterations))
        key = self._mac(salted, b"Client Key")
        proof = self._mac(hashlib.new(self._hash, key).digest(), signed)
        self._signature = self._mac(self._mac(salted, b"Server Key"), signed)
        shown = bytes(a ^ b for a, b in zip(key, proof, strict=True))
        return f"{bare},p={base64.b64encode(shown).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check that the server knows the password too."""
        fields = _fields(server_final)
        if "e" in fields:
            raise ScramError(fields["e"])
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._signature):
            raise ScramError("it does not know the password itself")

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise ScramError("its answer is not text") from None
    return {name: value for name, _, value in parts}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise ScramError("its answer is not base64") from None
