"""Connections to other brokers with TLS, SASL or both.

Before its SASL session expires, this broker authenticates again, between two requests: the broker
first waits for earlier responses, and sends later requests afterwards. The SASL requests have
versions that the other broker supports. To a broker before Kafka 1.0, this broker sends SASL tokens
without a request header.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.cluster.peers.fitting import Value
from broker.cluster.peers.peer import Address, Decode, Peer, PeerLost, connect_as
from broker.time import Time
from protocol.errors import NAMES, NONE, UNSUPPORTED_SASL_MECHANISM
from protocol.messages import api_versions, sasl_authenticate, sasl_handshake
from protocol.schema import Api
from security.sasl.client_side import ClientLogin, Credentials, NotBelieved, client_login

if TYPE_CHECKING:
    import ssl

RENEWED_AT: Final = (0.85, 0.95)
"""This broker authenticates again after a random fraction of the session's lifetime, between these
two bounds, as in Kafka."""
_NEVER: Final = float("inf")
_AUTHENTICATE_VERSION_MAX: Final = 2


class BrokerLogin(NamedTuple):
    """The credentials that this broker uses to authenticate to other brokers."""

    mechanism: str
    who: Credentials


class SecuredPeers:
    """Makes connections with the security settings of the inter-broker listener. The method
    `connect` has the type `peer.Connect`."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None, login: BrokerLogin | None) -> None:
        """``tls`` returns the TLS context for the next connection; None for connections without
        TLS. ``tls`` may read files, so it is called in a thread."""
        self._tls = tls
        self._login = login

    async def connect(self, address: Address, client_id: str, time: Time, timeout_ms: int) -> Peer:
        """Returns an authenticated connection. Raises PeerLost."""
        context = None if self._tls is None else await time.in_thread(self._tls)
        if self._login is None:
            return await connect_as(Peer(address, client_id, time), time, timeout_ms, context)
        peer = LoggedInPeer(address, client_id, time, self._login)
        await connect_as(peer, time, timeout_ms, context)
        await peer.begin(timeout_ms)
        return peer


class LoggedInPeer(Peer):
    """A connection with SASL. `begin` authenticates, and `send` authenticates again before the
    session expires."""

    def __init__(self, address: Address, client_id: str, time: Time, login: BrokerLogin) -> None:
        super().__init__(address, client_id, time)
        self._login = login
        self._renewing = asyncio.Lock()
        self._renewed_at_s = _NEVER
        """The monotonic time in seconds at which this broker must authenticate again. The session's
        lifetime also passes while this process is paused, so this clock includes pauses."""
        self._handshake_version = 0
        self._authenticate_version = 0

    async def begin(self, timeout_ms: int) -> None:
        """Authenticates the new connection. Raises PeerLost."""
        async with self._renewing:
            await self._ended_if_refused(self._begin(timeout_ms))

    async def send(
        self, api: Api, version: int, body: bytes, decode: Decode, timeout_ms: int
    ) -> Any:
        """Implements `Peer.send`. If the session expires soon, authenticates again first."""
        if self._renewing.locked() or self._is_due:
            async with self._renewing:
                if self._is_due and self.lost is None:
                    await self._ended_if_refused(self._log_in(timeout_ms))
        return await super().send(api, version, body, decode, timeout_ms)

    @property
    def _is_due(self) -> bool:
        return self._time.monotonic_s() >= self._renewed_at_s

    async def _ended_if_refused(self, login: Awaitable[None]) -> None:
        try:
            await login
        except PeerLost as lost:
            self.close(lost)
            raise
        except NotBelieved as reason:
            refused = PeerLost(f"{self.address} sent an invalid SCRAM response: {reason}")
            self.close(refused)
            raise refused from None

    async def _begin(self, timeout_ms: int) -> None:
        answer = await self._ask(api_versions.API, 0, {}, timeout_ms)
        if answer["error_code"] != NONE:
            raise PeerLost(
                f"{self.address} returned an error for ApiVersions: {_name(answer['error_code'])}"
            )
        newest = {each["api_key"]: each["max_version"] for each in answer["api_keys"]}
        self._handshake_version = min(newest.get(sasl_handshake.API.key, 0), 1)
        self._authenticate_version = min(
            newest.get(sasl_authenticate.API.key, 0), _AUTHENTICATE_VERSION_MAX
        )
        await self._log_in(timeout_ms)

    async def _log_in(self, timeout_ms: int) -> None:
        began_s = self._time.monotonic_s()
        mechanism = self._login.mechanism
        answer = await self._ask(
            sasl_handshake.API, self._handshake_version, {"mechanism": mechanism}, timeout_ms
        )
        if answer["error_code"] == UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer["mechanisms"]) or "none"
            raise PeerLost(
                f"{self.address} does not enable sasl.mechanism.inter.broker.protocol={mechanism}:"
                f" it enables {offered}"
            )
        if answer["error_code"] != NONE:
            raise PeerLost(f"{self.address} rejects SaslHandshake: {_name(answer['error_code'])}")
        nonce = self._time.fresh_id().hex() + self._time.fresh_id().hex()
        login = client_login(mechanism, self._login.who, nonce)
        lifetime_ms = await self._exchanged(login, timeout_ms)
        self._renewed_at_s = _NEVER
        if lifetime_ms > 0:
            share = self._time.chance.uniform(*RENEWED_AT)
            self._renewed_at_s = began_s + share * lifetime_ms / 1000

    async def _exchanged(self, login: ClientLogin, timeout_ms: int) -> int:
        """Exchanges the messages of the SASL mechanism. Returns the session's lifetime in ms, or 0
        if the session does not expire."""
        token: bytes | None = login.first()
        lifetime_ms = 0
        while token is not None:
            said, lifetime_ms = await self._said(token, timeout_ms)
            # Computing a SCRAM proof takes some milliseconds; a thread keeps the event loop free.
            token = await self._time.in_thread(login.answer, said)
        return lifetime_ms

    async def _said(self, token: bytes, timeout_ms: int) -> tuple[bytes, int]:
        if not self._handshake_version:
            return await self.exchange(token, timeout_ms), 0
        version = self._authenticate_version
        asked = {"auth_bytes": token}
        answer = await self._ask(sasl_authenticate.API, version, asked, timeout_ms)
        if answer["error_code"] != NONE:
            raise self._refused(answer["error_message"] or _name(answer["error_code"]))
        return answer["auth_bytes"], answer.get("session_lifetime_ms", 0)

    async def _ask(self, api: Api, version: int, value: Value, timeout_ms: int) -> Value:
        answer: Value = await super().send(
            api,
            version,
            api.encode_request(version, value),
            lambda frame, position: api.decode_response(version, frame, position),
            timeout_ms,
        )
        return answer

    def _refused(self, reason: str) -> PeerLost:
        who = self._login.who.name
        return PeerLost(
            f"{self.address} rejects the login of {who} with {self._login.mechanism}: {reason}"
        )


def _name(code: int) -> str:
    return NAMES.get(code, str(code))
