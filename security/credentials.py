"""SCRAM credentials, which a broker stores instead of passwords, and Kafka's text form of a
credential.

A credential reveals neither the password, nor the key with which a client proves the password.
Source: RFC 5802, Kafka 3.9 ``ScramFormatter``, ``ScramCredentialUtils``. The password is used as
its UTF-8 bytes, without SASLprep, as in Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""The maximum number of iterations that AlterUserScramCredentials accepts. A login uses the number
in the stored credential."""
SALT_BITS: Final = 130
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(Enum):
    """A SCRAM mechanism: its name on the wire, its code in requests, and the name of its hash in
    hashlib."""

    SHA_256 = ("SCRAM-SHA-256", 1, "sha256")
    SHA_512 = ("SCRAM-SHA-512", 2, "sha512")

    def __init__(self, mechanism: str, code: int, hash_name: str) -> None:
        self.mechanism = mechanism
        self.code = code
        self.hash_name = hash_name
        self.size_bytes = hashlib.new(hash_name).digest_size

    def hash(self, data: bytes) -> bytes:
        """The function H of RFC 5802."""
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """The function HMAC of RFC 5802."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """The function Hi of RFC 5802. It takes about 5 ms for 4096 iterations, so it must be
        called outside the event loop's thread."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)


BY_NAME: Final = {each.mechanism: each for each in ScramMechanism}
BY_CODE: Final = {each.code: each for each in ScramMechanism}


class ScramCredential(NamedTuple):
    """The stored credential of one user for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations)"


class Found(NamedTuple):
    """A credential and its owner."""

    credential: ScramCredential
    owner: str
    """The name of the principal that logs in with the credential."""
    expires_ms: int | None = None
    """Wall time in ms at which the delegation token expires; None for a password."""


Find = Callable[[str, bool], Found | None]
"""Returns the credential of the user with this name. If the second argument is True, the name is
the id of a delegation token."""
Decoy = Callable[[str, bool], ScramCredential]
"""A function with the arguments of `Find`. It returns a decoy for unknown users or tokens, so that
clients can't find out which names exist."""


def salt_of(number: int) -> bytes:
    """Returns ``number`` in base 36, as a salt. Kafka's tools make salts in the same way from a
    random number of `SALT_BITS` bits, so that a salt has at most 26 letters and digits."""
    salt = bytearray()
    while number:
        number, digit = divmod(number, 36)
        salt.append(_DIGITS[digit])
    return bytes(reversed(salt))


def decoy(
    mechanism: ScramMechanism, name: bytes, secret: bytes, iterations: Iterable[int]
) -> ScramCredential:
    """Returns a credential that matches no password. It is always the same for a name, and looks
    like the credential of a user.

    ``iterations`` are the numbers of iterations of existing users. The decoy has one of these
    numbers, so that its number does not reveal that the name is unknown.
    """
    seed = mechanism.hmac(secret, name)
    drawn = int.from_bytes(mechanism.hmac(seed, b"salt"))
    return ScramCredential(
        salt_of(drawn & ((1 << SALT_BITS) - 1)),
        mechanism.hmac(seed, b"stored key"),
        mechanism.hmac(seed, b"server key"),
        # The number with the largest hash is used, so that a further number of iterations changes
        # the decoys of only few names.
        max(
            iterations, key=lambda each: mechanism.hmac(seed, b"%d" % each), default=ITERATIONS_MIN
        ),
    )


def credential(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Returns the credential that belongs to a salted password."""
    client_key = mechanism.hmac(salted_password, b"Client Key")
    return ScramCredential(
        salt,
        mechanism.hash(client_key),
        mechanism.hmac(salted_password, b"Server Key"),
        iterations,
    )


def wrong_iterations(iterations: int) -> str | None:
    """Returns Kafka's message for an invalid number of iterations; None for a valid number."""
    if iterations < ITERATIONS_MIN:
        return "Too few iterations"
    if iterations > ITERATIONS_MAX:
        return "Too many iterations"
    return None


def credential_text(value: ScramCredential) -> str:
    """Returns Kafka's text of a credential:
    ``salt=...,stored_key=...,server_key=...,iterations=4096``."""
    salt, stored_key, server_key = (b64encode(each).decode() for each in value[:3])
    return (
        f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={value.iterations}"
    )


def parse_credential(text: str) -> ScramCredential:
    """Parses a text that `credential_text` or Kafka wrote. Raises ValueError for other text, with a
    message that shows no values."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            b64decode(fields.pop(name), validate=True)
            for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields.pop("iterations"))
    except (KeyError, ValueError):
        fields = {"": ""}
    if fields:
        raise ValueError(
            "a SCRAM credential must have the form"
            " salt=...,stored_key=...,server_key=...,iterations=..."
        )
    return ScramCredential(salt, stored_key, server_key, iterations)
