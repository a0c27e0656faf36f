"""Sequences of login messages, with the responses that Apache Kafka 4.3.1 returns."""

from __future__ import annotations

from tests.interop.secured.brokers import password_of
from tests.interop.secured.conversations import (
    Conversation,
    Together,
    handshake,
    metadata,
    raw,
    token,
    versions,
)
from tests.interop.secured.least_rights import READER, WRITER

GOOD = f"\0{WRITER}\0{password_of(WRITER)}".encode()
BAD = f"\0{WRITER}\0wrong".encode()
SHA = "SCRAM-SHA-256"
FIRST = f"n,,n={WRITER},r=abc".encode()
TOO_LARGE = b"\0" * 524_289

CONVERSATIONS = [
    Conversation("a login", (versions(), handshake(), token(GOOD), metadata()), ("0", "0", "0", "metadata")),
    Conversation("no versions asked", (handshake(), token(GOOD), metadata()), ("0", "0", "metadata")),
    Conversation("tokens of version 0", (handshake(), token(GOOD, 0), metadata()), ("0", "0", "metadata")),
    Conversation("tokens of version 2", (handshake(), token(GOOD, 2), metadata()), ("0", "0", "metadata")),
    Conversation("all at once", (Together((handshake(), token(GOOD), metadata(), metadata())),), ("0", "0", "metadata", "metadata")),
    Conversation("versions of the future", (
        versions(99, answered_as=0), versions(), handshake(), token(GOOD)), ("35", "0", "0", "0")),
    Conversation("versions twice", (versions(), versions()), ("0", "closed")),
    Conversation("versions of no software", (versions(name="-"), versions(), handshake()), ("42", "0", "0")),
    Conversation("versions behind the handshake", (handshake(), versions(0)), ("0", "34")),
    Conversation("an unknown mechanism", (handshake("GSSAPI"), handshake()), ("33", "closed")),
    Conversation("a mechanism in small letters", (handshake("plain"), handshake()), ("33", "closed")),
    Conversation("an unknown mechanism of version 0", (handshake("X", 0), handshake()), ("33", "closed")),
    Conversation("metadata before the login", (metadata(),), ("closed",)),
    Conversation("metadata behind versions", (versions(), metadata()), ("0", "closed")),
    Conversation("a token before the handshake", (token(GOOD),), ("closed",)),
    Conversation("a second handshake", (handshake(), handshake()), ("0", "34")),
    Conversation("raw tokens", (handshake(version=0), raw(GOOD), metadata()), ("0", "0 bytes", "metadata")),
    Conversation("a raw token that is wrong", (handshake(version=0), raw(BAD)), ("0", "closed")),
    Conversation("a raw token that is none", (handshake(version=0), raw(b"x")), ("0", "closed")),
    Conversation("a raw token that is empty", (handshake(version=0), raw(b"")), ("0", "closed")),
    Conversation("a wrong password", (handshake(), token(BAD), metadata()), ("0", "58 Authentication failed: Invalid username or password", "closed")),
    Conversation("a user of that kind only", (handshake(), token(b"\0nobody\0x")), ("0", "58 Authentication failed: Invalid username or password")),
    Conversation("two tokens", (handshake(), token(b"a\0b")), ("0", "58 Invalid SASL/PLAIN response: expected 3 tokens, got 2")),
    Conversation("four tokens", (handshake(), token(b"a\0b\0c\0d")), ("0", "58 Invalid SASL/PLAIN response: expected 3 tokens, got 4")),
    Conversation("no user", (handshake(), token(b"\0\0x")), ("0", "58 Authentication failed: username not specified")),
    Conversation("no password", (handshake(), token(f"\0{WRITER}\0".encode())), ("0", "58 Authentication failed: password not specified")),
    Conversation("in the name of another", (
        handshake(), token(f"{READER}\0{WRITER}\0{password_of(WRITER)}".encode())), ("0", "58 Authentication failed: Client requested an authorization id that is different from username")),
    Conversation("in one's own name", (
        handshake(), token(f"{WRITER}\0{WRITER}\0{password_of(WRITER)}".encode())), ("0", "0")),
    Conversation("a token that is empty", (handshake(), token(b"")), ("0", "58 Invalid SASL/PLAIN response: expected 3 tokens, got 1")),
    Conversation("the first of SCRAM", (handshake(SHA), token(FIRST)), ("0", "0")),
    Conversation("binding to a channel", (handshake(SHA), token(b"y,,n=writer,r=abc")), ("0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("SCRAM in the name of another", (
        handshake(SHA), token(b"n,a=reader,n=writer,r=abc")), ("0", "58 Authentication failed: Client requested an authorization id that is different from username")),
    Conversation("SCRAM that is none", (handshake(SHA), token(b"hello")), ("0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("a name of SCRAM with a letter beyond ASCII", (
        handshake(SHA), token("n,,n=wäiter,r=abc".encode())), ("0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("a nonce of one's own", (
        handshake(SHA), token(FIRST), token(b"c=biws,r=abc,p=AAAA")), ("0", "0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("no proof", (handshake(SHA), token(FIRST), token(b"c=biws,r=abc")), ("0", "0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("SCRAM without a user", (handshake(SHA), token(b"n,,n=,r=abc")), ("0", "58 Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256")),
    Conversation("more than a login may be", (raw(TOO_LARGE),), ("closed",)),
    Conversation("bytes that are no request", (raw(b"\xff" * 40),), ("closed",)),
    Conversation("an API that nobody has", (raw(b"\x7f\0\0\0\0\0\0\7\0\1x"),), ("closed",)),
    Conversation("an empty frame", (raw(b""),), ("closed",)),
    Conversation("a login behind the login", (
        handshake(), token(GOOD), handshake(), token(GOOD), metadata()), ("0", "0", "34", "34 SaslAuthenticate request received after successful authentication", "metadata")),
    Conversation("versions behind the login", (
        handshake(), token(GOOD), versions(), versions(), metadata()), ("0", "0", "0", "0", "metadata")),
    Conversation("a login where none is asked", (
        handshake(), token(GOOD), metadata(), versions(), versions()), ("34", "34 SaslAuthenticate request received after successful authentication", "metadata", "0", "0"), "PLAINTEXT"),
]  # fmt: skip
