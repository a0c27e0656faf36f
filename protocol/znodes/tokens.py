"""``/delegation_token``: delegation tokens, and the notices of their changes.

A node contains no secret, because the password of a token is computed from its id. Principals are
percent-encoded, including their colon. Source: Kafka 3.9 ``ZkData``, ``DelegationTokenManager``.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from protocol.znodes.configs import sanitized
from protocol.znodes.fields import INT64_MAX, BadNode, Fields, encode

ROOT = "/delegation_token"
TOKENS = f"{ROOT}/tokens"
CHANGES = f"{ROOT}/token_changes"
CHANGE = f"{CHANGES}/token_change_"
VERSION = 3
_WITHOUT_REQUESTER = (1, 2)
_VERSIONS = (*_WITHOUT_REQUESTER, VERSION)
_ID_CHARACTERS_MAX = 200


class TokenNode(NamedTuple):
    """The content of a token's node. Principals have the form ``User:alice``, times are wall times
    in ms."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    ends_ms: int
    expires_ms: int


def path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: TokenNode) -> bytes:
    return encode(
        {
            "issueTimestamp": token.issued_ms,
            "renewers": [sanitized(each) for each in token.renewers],
            "tokenRequester": sanitized(token.requester),
            "tokenId": token.token_id,
            "owner": sanitized(token.owner),
            "expiryTimestamp": token.expires_ms,
            "maxTimestamp": token.ends_ms,
            "version": VERSION,
        }
    )


def decode_token(path: str, data: bytes) -> TokenNode:
    """Returns the token in a node's data of version 1 or later. Raises BadNode."""
    fields = Fields(path, data)
    version = fields.number("version")
    if version not in _VERSIONS:
        raise fields.bad("version", "1 to 3")
    renewers = fields.all.get("renewers", [])
    if not isinstance(renewers, list) or not all(isinstance(each, str) for each in renewers):
        raise fields.bad("renewers", "a list of strings")
    owner = fields.text("owner")
    issued_ms = fields.number("issueTimestamp", most=INT64_MAX)
    ends_ms = fields.number("maxTimestamp", most=INT64_MAX)
    return TokenNode(
        _token_id(path, fields.text("tokenId")),
        unquote(owner),
        unquote(owner if version in _WITHOUT_REQUESTER else fields.text("tokenRequester")),
        tuple(map(unquote, renewers)),
        issued_ms,
        ends_ms,
        fields.number("expiryTimestamp", ends_ms, most=INT64_MAX),
    )


def decode_change(path: str, data: bytes) -> str:
    """Returns the id of the token in a notice. Raises BadNode."""
    return _token_id(path, data.decode(errors="replace"))


def _token_id(path: str, text: str) -> str:
    if not text or len(text) > _ID_CHARACTERS_MAX or "/" in text or not text.isprintable():
        raise BadNode(path, "does not name a token")
    return text
