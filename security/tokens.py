"""Delegation tokens: their content, the rights to change a token, and its lifetime.

A token authenticates its owner with SCRAM. The password of a token is a hash of its id and the
cluster's secret, so that the broker stores no secret for a token. Source: KIP-48, KIP-373; Kafka
3.9 ``DelegationTokenControlManager``.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Final, NamedTuple

from protocol.errors import (
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    INVALID_PRINCIPAL_TYPE,
    NONE,
)
from security.credentials import (
    ITERATIONS_MIN,
    SALT_BITS,
    ScramCredential,
    ScramMechanism,
    credential,
    salt_of,
)
from security.principal import USER, Principal

AT_ONCE: Final = -1
"""The period in an ExpireDelegationToken request that makes the token expire now."""


class Token(NamedTuple):
    """One delegation token. Times are wall times in ms."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    ends_ms: int
    """The end of the token's lifetime. It can't be renewed beyond this time."""
    expires_ms: int


class Lifetimes(NamedTuple):
    """The values of ``delegation.token.max.lifetime.ms`` and
    ``delegation.token.expiry.time.ms``."""

    longest_ms: int = 604_800_000
    expiry_ms: int = 86_400_000


def hmac_of(token_id: str, secret: bytes) -> bytes:
    """Returns the HMAC of a token: 64 bytes."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(token_id: str, secret: bytes) -> str:
    """Returns the SCRAM password of a token. The SCRAM user name is the token's id."""
    return b64encode(hmac_of(token_id, secret)).decode()


def credential_of(token_id: str, secret: bytes, mechanism: ScramMechanism) -> ScramCredential:
    """Returns the SCRAM credential of a token. This takes milliseconds and must not run on the
    event loop."""
    drawn = hmac.digest(secret, b"salt of " + token_id.encode(), "sha256")
    salt = salt_of(int.from_bytes(drawn) & ((1 << SALT_BITS) - 1))
    password = password_of(token_id, secret).encode()
    salted = mechanism.salted_password(password, salt, ITERATIONS_MIN)
    return credential(mechanism, salted, salt, ITERATIONS_MIN)


def wrong_renewer(renewers: tuple[Principal, ...]) -> int:
    """Returns INVALID_PRINCIPAL_TYPE if a renewer is not a user, otherwise NONE."""
    return NONE if all(each.type == USER for each in renewers) else INVALID_PRINCIPAL_TYPE


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: tuple[Principal, ...],
    asked_ms: int,
    lifetimes: Lifetimes,
    now_ms: int,
) -> Token:
    """Returns a new token with the lifetime ``asked_ms``, but at most the maximum lifetime. If
    ``asked_ms`` is 0 or negative, the token has the maximum lifetime."""
    longest_ms = lifetimes.longest_ms if asked_ms <= 0 else min(asked_ms, lifetimes.longest_ms)
    ends_ms = now_ms + longest_ms
    expires_ms = min(ends_ms, now_ms + lifetimes.expiry_ms)
    return Token(token_id, owner, requester, renewers, now_ms, ends_ms, expires_ms)


def may_change(token: Token, who: Principal) -> bool:
    """Returns True if a principal may renew or expire a token. Only the owner and the renewers of
    the token may do so. The requester of a token for another owner may not."""
    return who in (token.owner, *token.renewers)


def is_about(token: Token, who: Principal) -> bool:
    """Returns True if a principal is the owner, the requester or a renewer of a token. Such a
    principal may describe the token."""
    return who in (token.owner, token.requester, *token.renewers)


def is_over(token: Token, now_ms: int) -> bool:
    """Returns True if a token has expired, so that it can be neither used nor renewed."""
    return now_ms >= min(token.expires_ms, token.ends_ms)


def renewed(
    token: Token, who: Principal, period_ms: int, lifetimes: Lifetimes, now_ms: int
) -> Token | int:
    """Returns the token with its new expiry after a renewal, or the error code."""
    if is_over(token, now_ms):
        return DELEGATION_TOKEN_EXPIRED
    if not may_change(token, who):
        return DELEGATION_TOKEN_OWNER_MISMATCH
    period_ms = lifetimes.expiry_ms if period_ms <= 0 else min(period_ms, lifetimes.expiry_ms)
    return token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))


def expired(token: Token, who: Principal, period_ms: int, now_ms: int) -> Token | int | None:
    """Handles ExpireDelegationToken. Returns the token with its new expiry; None if the token must
    be removed now; or an error code."""
    if not may_change(token, who):
        return DELEGATION_TOKEN_OWNER_MISMATCH
    if period_ms < 0:
        return None
    if is_over(token, now_ms):
        return DELEGATION_TOKEN_EXPIRED
    return token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))
