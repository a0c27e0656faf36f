"""The broker's part of SCRAM-SHA-256 and SCRAM-SHA-512.

A login has four messages. The client sends its user name and a nonce. The broker sends the salt,
the number of iterations, and the client's nonce followed by its own nonce. The client sends its
proof, and the broker sends its own proof.

A client can't find out whether a user name exists: an unknown name always gets the same salt and
iterations, which look like those of a user, and the broker checks the proof in the same way.
Source: RFC 5802; Kafka 3.9 ``ScramSaslServer``, ``ScramMessages``, ``ScramFormatter``.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from typing import Final

from security.credentials import ITERATIONS_MIN, Decoy, Find, Found, ScramCredential, ScramMechanism
from security.sasl.steps import Accepted, Challenge, Refused, Step, too_long

TOKEN_LOGIN: Final = "tokenauth"
"""The SCRAM extension with which a client says that its name is the id of a delegation token."""

MESSAGE_BYTES_MAX: Final = 4096
"""The maximum size of a client's message in bytes. Kafka's limit is the size of a frame. A message
of the maximum size takes 0.5 ms to parse."""

# One regex step matches a run of ordinary letters, because a step per letter costs 200 bytes and
# 0.2 us.
_NAME: Final = rb"(?!,)[\x01-\x2b\x2d-\x3c\x3e-\x7f]*(?:=(?:2C|3D)[\x01-\x2b\x2d-\x3c\x3e-\x7f]*)*"
_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,"
    rb"(?P<bare>(?:m=[\x01-\x2b\x2d-\x7f]+,)?n=(?P<name>" + _NAME + rb"),"
    rb"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*))"
)
_FINAL = re.compile(
    rb"(?P<unproved>c=(?P<channel>[A-Za-z0-9/+=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rb"(?:,[A-Za-z]=[\x01-\x2b\x2d-\x7f]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)


class ScramServer:
    """One login. `step` receives the client's first message, then its final message."""

    def __init__(
        self, mechanism: ScramMechanism, find: Find, server_nonce: str, decoy: Decoy
    ) -> None:
        """``server_nonce`` must be new and have at least 130 random bits."""
        self._mechanism = mechanism
        self._find = find
        self._server_nonce = server_nonce
        self._decoy = decoy
        self._shown: ScramCredential
        """The credential that the login uses: that of the user, or a decoy."""
        self._name = ""
        self._by_token = False
        self._nonce = b""
        self._channel = b""
        self._said = b""
        """The client's first message without its header, and then the server's first message. The
        text that the proofs cover begins with these messages."""

    def tries(self, message: bytes) -> str | None:  # noqa: ARG002 - PLAIN's message has the name
        """Returns the name of the user who tries to log in. The name is in the client's first
        message; before this message, returns None."""
        return self._name if self._said else None

    def step(self, message: bytes) -> Step:
        """Handles the client's next message. Returns its result."""
        refused = too_long(message, self._mechanism.mechanism, MESSAGE_BYTES_MAX)
        if refused is not None:
            return refused
        return self._final(message) if self._said else self._first(message)

    def _first(self, message: bytes) -> Step:
        found = _FIRST.fullmatch(message)
        if found is None:
            return Refused(
                "client-first-message does not have the form n,[a=AUTHZID],n=NAME,r=NONCE in ASCII,"
                " without channel binding"
            )
        name = _unescaped(found["name"])
        if found["authzid"] is not None and _unescaped(found["authzid"]) not in ("", name):
            said = "Authentication failed: Client requested an authorization id that is different"
            return Refused(
                f"the client logs in as {name!r}, but requests another authorization id",
                said + " from username",
            )
        extensions = dict(
            part.partition(b"=")[::2] for part in found["extensions"].split(b",") if part
        )
        self._by_token = extensions.get(TOKEN_LOGIN.encode(), b"").lower() == b"true"
        self._name = name
        # A decoy is computed for every name, because otherwise the time would reveal which names
        # exist.
        self._shown = self._decoy(name, self._by_token)
        known = self._known()
        if known is not None:
            self._shown = known.credential
        salt, iterations = self._shown.salt, self._shown.iterations
        self._nonce = found["nonce"] + self._server_nonce.encode()
        header = message[: len(message) - len(found["bare"])]
        self._channel = b64encode(header)
        answer = b"r=%s,s=%s,i=%d" % (self._nonce, b64encode(salt), iterations)
        self._said = found["bare"] + b"," + answer
        return Challenge(answer)

    def _known(self) -> Found | None:
        """Returns the current credential of the user or token that the client named. Returns None
        if the credential does not exist or has too few iterations."""
        known = self._find(self._name, self._by_token)
        return known if known and known.credential.iterations >= ITERATIONS_MIN else None

    def _final(self, message: bytes) -> Step:
        found = _FINAL.fullmatch(message)
        if found is None:
            return Refused("client-final-message does not have the form c=...,r=NONCE,p=PROOF")
        if found["channel"] != self._channel:
            return Refused("SCRAM: channel binding of client-final-message does not match")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            said = "SCRAM: nonce of client-final-message does not match"
            if found["nonce"].endswith(self._nonce):
                said += (
                    ": librdkafka before 2.6.1 sends its nonce twice, which Kafka 4 also rejects;"
                    " upgrade librdkafka"
                )
            return Refused(said)
        mechanism, shown = self._mechanism, self._shown
        try:
            proof = b64decode(found["proof"], validate=True)
        except binascii.Error:
            return Refused("SCRAM: proof is not base64")
        if len(proof) != mechanism.size_bytes:
            return Refused(f"SCRAM: proof has {len(proof)} bytes, not {mechanism.size_bytes}")
        covered = self._said + b"," + found["unproved"]
        signature = mechanism.hmac(shown.stored_key, covered)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(mechanism.hash(client_key), shown.stored_key)
        known = self._known()
        if known is None:
            what = "no valid token" if self._by_token else "no credential"
            return Refused(f"user {self._name!r} has {what} for {mechanism.mechanism}")
        if known.credential != shown:
            return Refused(f"the credential of user {self._name!r} changed during the login")
        if not is_right:
            return Refused(f"wrong password for user {self._name!r}")
        verifier = b64encode(mechanism.hmac(shown.server_key, covered))
        return Accepted(b"v=" + verifier, known.owner, known.expires_ms, by_token=self._by_token)


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")
