"""Delegation tokens (KIP-48): the tokens in memory, logins with a token, and the interface of their
store.

Logins and the APIs use `Tokens`. A `TokenStore` stores the tokens: a file in the data directory
(`broker/authentication/token_file.py`) or, in a cluster, nodes in ZooKeeper, which also report
changes by other brokers. The credentials for logins with a token are computed once, in a thread,
and remain in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import structlog

from broker.config.config import Config
from broker.config.token_settings import token_secret
from broker.loop.background import Background
from broker.time import Time
from broker.topics.registry import uuid_text
from protocol.errors import (
    DELEGATION_TOKEN_NOT_FOUND,
    INVALID_PRINCIPAL_TYPE,
    POLICY_VIOLATION,
    UNKNOWN_SERVER_ERROR,
)
from security.credentials import BY_NAME, Found, ScramCredential, ScramMechanism
from security.principal import Principal
from security.tokens import (
    Lifetimes,
    Token,
    credential_of,
    expired,
    hmac_of,
    is_over,
    new_token,
    renewed,
    wrong_renewer,
)

logger = structlog.get_logger(__name__)

OWNED_MAX: Final = 1000
"""The maximum number of tokens of one owner; Kafka does not limit this number. A token lasts a week
by default."""
TOKENS_MAX: Final = 5000
"""The maximum number of tokens in total. Each token adds 4 ms to the start of the broker, and each
change writes all tokens."""
NAMES_BYTES_MAX: Final = 4096
"""The maximum total size in bytes of a token's owner and renewers as text."""
AGAIN_MS: Final = 60_000
"""The minimum interval in ms between two log lines about tokens that exceed a limit."""

Credentials = Mapping[ScramMechanism, ScramCredential]
"""The SCRAM credentials of one token, for each enabled mechanism."""


class CannotKeep(Exception):
    """A token can't be stored; the exception's text is a complete sentence for the operator."""


class TokenStore(Protocol):
    """Stores the delegation tokens."""

    async def read(self, token_id: str) -> Token | None:
        """Returns the stored token; None if the token was deleted. Raises CannotKeep."""

    async def keep(self, token: Token, before: Token | None) -> bool:
        """Stores a new token or, if ``before`` is given, replaces the stored token ``before``.

        Returns False if another broker has changed or removed ``before``. Raises CannotKeep.
        """

    async def remove(self, token: Token) -> None: ...


class Tokens:
    """The delegation tokens of a broker. Only the event loop's thread may use this class, except
    for `_derived`."""

    def __init__(self, config: Config, time: Time) -> None:
        self._secret = token_secret(config).encode()
        self._lifetimes = Lifetimes(
            config["delegation.token.max.lifetime.ms"], config["delegation.token.expiry.time.ms"]
        )
        self._check_s = config["delegation.token.expiry.check.interval.ms"] / 1000
        self._mechanisms = offered_by(config)
        self._time = time
        self._store: TokenStore
        self._known: dict[str, Token] = {}
        self._ids: dict[bytes, str] = {}
        """The id of each token, by the token's HMAC."""
        self._credentials: dict[str, Credentials] = {}
        self._owned = Counter[Principal]()
        """The number of tokens by owner, including expired tokens that are not removed yet."""
        self._limit_logged_ms = -AGAIN_MS
        self._changing = asyncio.Lock()
        self._sweeping: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    # -- stored tokens

    def keep_in(self, store: TokenStore, known: Iterable[Token] = ()) -> None:
        """Sets the store in which changes of tokens are saved. ``known`` are the tokens that the
        store contains. The call takes some ms per token, because it computes the token's
        credentials."""
        self._store = store
        for token in known:
            self._take(token, self._derived(token.token_id))

    def _derived(self, token_id: str) -> Credentials:
        """Returns the credentials for logins with a token. The computation takes milliseconds.
        Thread-safe."""
        return {each: credential_of(token_id, self._secret, each) for each in self._mechanisms}

    def start(self, background: Background) -> None:
        self._sweeping = background.every(
            "delegation tokens", lambda: self._check_s, self.sweep, _failed, self._idle_ms
        )

    def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def update(self, token_id: str, token: Token | None) -> None:
        """Applies a change of a stored token to the tokens in memory. In a cluster another broker
        may have made the change."""
        if token is None:
            self._drop(token_id)
            return
        credentials = self._credentials.get(token_id)
        if credentials is None:
            credentials = await self._time.in_thread(self._derived, token_id)
        self._take(token, credentials)

    def ids(self) -> list[str]:
        return list(self._known)

    def _take(self, token: Token, credentials: Credentials) -> None:
        token_id = token.token_id
        before = self._known.get(token_id)
        if before is not None:
            self._count(before.owner, -1)
        self._known[token_id] = token
        self._count(token.owner, 1)
        self._credentials[token_id] = credentials
        self._ids[self.hmac_of(token)] = token_id

    def _drop(self, token_id: str) -> None:
        token = self._known.pop(token_id, None)
        if token is not None:
            self._count(token.owner, -1)
            del self._credentials[token_id]
            del self._ids[self.hmac_of(token)]

    def _count(self, owner: Principal, by: int) -> None:
        self._owned[owner] += by
        if not self._owned[owner]:
            del self._owned[owner]

    # -- lookups

    def all(self) -> Iterable[Token]:
        """Returns all tokens, including expired tokens that are not removed yet."""
        return list(self._known.values())

    def hmac_of(self, token: Token) -> bytes:
        """Returns the HMAC of a token, with which a client can log in, renew and expire the
        token."""
        return hmac_of(token.token_id, self._secret)

    def found(self, mechanism: ScramMechanism, token_id: str) -> Found | None:
        """Returns the credential and the owner's name for a login with a token, and the token's
        expiry. Returns None for an unknown or expired token."""
        token = self._known.get(token_id)
        if token is None or is_over(token, self._now_ms()):
            return None
        credential = self._credentials[token_id].get(mechanism)
        if credential is None:
            return None
        return Found(credential, token.owner.name, min(token.expires_ms, token.ends_ms))

    # -- changes by clients

    async def create(
        self, owner: Principal, requester: Principal, renewers: tuple[Principal, ...], asked_ms: int
    ) -> Token | int:
        """Creates and returns a token. Returns an error code if the token is invalid, exceeds a
        limit or can't be stored."""
        if wrong_renewer((owner, *renewers)):  # a login with the token makes its principal a user
            return INVALID_PRINCIPAL_TYPE
        if self._wrong_new(owner, renewers):
            return POLICY_VIOLATION
        token_id = self._fresh_id()
        token = new_token(
            token_id, owner, requester, renewers, asked_ms, self._lifetimes, self._now_ms()
        )
        credentials = await self._time.in_thread(self._derived, token_id)
        async with self._changing:
            if self._wrong_new(owner, renewers):  # other tokens may have been created in between
                return POLICY_VIOLATION
            try:
                await self._store.keep(token, None)
            except CannotKeep as error:
                return _not_kept(error)
            self._take(token, credentials)
        return token

    def _wrong_new(self, owner: Principal, renewers: tuple[Principal, ...]) -> bool:
        """Returns True if a new token would exceed a limit. Logs the reason, at most once a
        minute."""
        if sum(len(str(each).encode()) for each in (owner, *renewers)) > NAMES_BYTES_MAX:
            reason = f"the names of owner and renewers exceed {NAMES_BYTES_MAX} bytes"
        elif self._owned[owner] >= OWNED_MAX:
            reason = f"the owner already has {OWNED_MAX} tokens"
        elif len(self._known) >= TOKENS_MAX:
            reason = f"the cluster already has {TOKENS_MAX} tokens"
        else:
            return False
        now_ms = self._time.now().mono_ms
        if now_ms - self._limit_logged_ms >= AGAIN_MS:
            self._limit_logged_ms = now_ms
            logger.warning("delegation token not created", owner=str(owner)[:300], reason=reason)
        return True

    async def renew(self, proof: bytes, who: Principal, period_ms: int) -> Token | int:
        """Extends the expiry of the token whose HMAC is ``proof``. Returns the token, or an error
        code."""
        return await self._change(
            proof, lambda token, now_ms: renewed(token, who, period_ms, self._lifetimes, now_ms)
        )

    async def expire(self, proof: bytes, who: Principal, period_ms: int) -> Token | int:
        """Changes the expiry of the token whose HMAC is ``proof``; removes the token if
        ``period_ms`` is negative. Returns the token, or an error code."""

        def ended(token: Token, now_ms: int) -> Token | int:
            after = expired(token, who, period_ms, now_ms)
            return token._replace(expires_ms=now_ms) if after is None else after

        return await self._change(proof, ended, removes=period_ms < 0)

    async def _change(
        self, proof: bytes, change: Callable[[Token, int], Token | int], *, removes: bool = False
    ) -> Token | int:
        async with self._changing:
            try:
                # Repeated if another broker has changed the token since it was read: otherwise a
                # renewal there would undo an expiry that was acknowledged here.
                while (token_id := self._ids.get(proof)) is not None:
                    token = await self._store.read(token_id)
                    if token is None:
                        self._drop(token_id)
                        break
                    after = change(token, self._now_ms())
                    if isinstance(after, int):
                        return after
                    if removes:
                        await self._store.remove(token)
                        self._drop(token_id)
                        return after
                    if await self._store.keep(after, token):
                        await self.update(token_id, after)
                        return after
            except CannotKeep as error:
                return _not_kept(error)
            return DELEGATION_TOKEN_NOT_FOUND

    # -- expiry

    async def sweep(self) -> None:
        for token_id in [each.token_id for each in self._over()]:
            async with self._changing:
                token = await self._store.read(token_id)
                if token is not None and is_over(token, self._now_ms()):
                    await self._store.remove(token)
                    logger.info("delegation token expired", token=token_id, owner=str(token.owner))
                    token = None
                await self.update(token_id, token)

    def _over(self) -> list[Token]:
        now_ms = self._now_ms()
        return [each for each in self._known.values() if is_over(each, now_ms)]

    def _idle_ms(self) -> int | None:
        """Returns the milliseconds until the next token expires; None without tokens."""
        ends = [min(each.expires_ms, each.ends_ms) for each in self._known.values()]
        return max(0, min(ends) - self._now_ms()) if ends else None

    def _fresh_id(self) -> str:
        """Returns a new token id in the form of Kafka's UUIDs. The id does not start with "-", so
        that command lines can't mistake it for an option."""
        while (found := uuid_text(self._time.fresh_id())).startswith("-"):
            pass
        return found

    def _now_ms(self) -> int:
        return self._time.now().wall_ms


def offered_by(config: Config) -> list[ScramMechanism]:
    """Returns the SCRAM mechanisms that at least one listener offers."""
    names = {
        name
        for each in config.listeners
        if each.has_sasl
        for name in config.of_listener(each.name)["sasl.enabled.mechanisms"].split(",")
    }
    return [mechanism for name, mechanism in BY_NAME.items() if name in names]


def _not_kept(error: CannotKeep) -> int:
    logger.error("delegation token can't be stored", reason=str(error))
    return UNKNOWN_SERVER_ERROR


def _failed(error: Exception) -> None:
    logger.warning("expired delegation tokens can't be removed", reason=str(error))
