"""Authentication over HTTP, if it is enabled. It happens before any response is created.

/healthz, /livez and /readyz are public, and show an anonymous reader only the broker's state. The
token of /metrics gives access only to /metrics. All other paths need a principal, from a client
certificate or from a name and password. A browser prompts for the name and password, and sends them
again with each request. Muster sets no cookies, so that a page of another site can't use a reader's
login. `broker/web/http_guard.py` rejects requests that such a page sends with a browser's
credentials.

Password guesses over HTTP and at Kafka's listeners are limited together: the response to a failed
login is delayed. After a few failures of a user from an address, later passwords of this user are
checked one by one, with pauses. Tokens are limited in the same way. A scraper that recently sent
the right token does not wait.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from binascii import Error as NotBase64
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.authentication.logins import FAILURE, SUCCESS, Logins
from broker.config.http_settings import BASIC, CERTIFICATE, HTTP
from broker.net.clients.failure_lines import FailureLines
from broker.net.peer import network_of
from broker.time import Time
from broker.web.http_connection import CERTIFIED
from broker.web.readers.reader import EVERYTHING, STRANGER, JudgedReader, Reader, set_reader
from broker.web.readers.users import HttpUsers

if TYPE_CHECKING:
    from broker.authorizer.authorizer import Authorizer
    from security.principal import Principal

OPEN: Final = frozenset(("/healthz", "/livez", "/readyz"))
METRICS: Final = "/metrics"
TOKEN: Final = "token"
_TOKENS_NAME: Final = "\0token of /metrics"
"""The user name under which failed tokens are counted. No real user can have this name, since names
in PLAIN can't contain its first byte."""
_CHECKS_MAX: Final = 64
"""The maximum number of passwords that are checked at the same time. Further requests are rejected.
"""
_WAITING_MAX: Final = 8
"""The maximum number of requests from one address that wait for the check of a password or token.
Further requests from this address are rejected. All addresses together may have 128 connections."""
_KNOWN_S: Final = 600.0
"""After an address has sent the right token, the broker accepts this token from the address without
a wait for this number of seconds, even while wrong tokens arrive.

From any other address, even the right token waits, so that a guess is not confirmed immediately.
Passwords have no such exception, since they may be short: while checks of a user's passwords fail,
the right password waits too.
"""
_KNOWN_MAX: Final = 1000
"""The maximum number of remembered addresses that have sent the right token."""


class HttpAccess(NamedTuple):
    """The configuration of the authentication over HTTP. The repr omits the token."""

    ways: frozenset[str]
    token: str | None
    """The token that gives access to /metrics; None if no token is configured."""
    users: HttpUsers
    authorizer: Callable[[], Authorizer]
    failure_delay_ms: int
    logins: Logins
    """Counts logins, and limits how often passwords can be guessed. HTTP and Kafka's listeners
    share this object."""

    def __repr__(self) -> str:
        return f"HttpAccess({sorted(self.ways)})"


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Authenticated:
    """An ASGI application that passes requests of authenticated readers to the application
    ``inner``."""

    def __init__(self, inner: ASGIApp, access: HttpAccess, time: Time) -> None:
        self._inner = inner
        self._access = access
        self._time = time
        self._guesses = access.logins.guesses
        self._lines = FailureLines(time)
        self._checking = 0
        self._waiting = Counter[str]()
        """The number of requests that wait until their password or token is checked, by address."""
        self._token_right_s: OrderedDict[str, float] = OrderedDict()
        """The time in seconds at which each address last sent the right token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reader = await self._reader(scope)
        except _Refused as refused:
            headers = {"connection": "close"}
            if refused.status == 401:
                headers["www-authenticate"] = self._challenge(scope["path"])
            answer = JSONResponse({"error": str(refused)}, refused.status, headers)
            await answer(scope, receive, send)
            return
        set_reader(scope, reader)
        await self._inner(scope, receive, send)

    def _challenge(self, path: str) -> str:
        ways = ['Basic realm="Muster", charset="UTF-8"'] if BASIC in self._access.ways else []
        if not ways or (self._access.token is not None and path == METRICS):
            ways.append('Bearer realm="Muster"')
        return ", ".join(ways)

    async def _reader(self, scope: Scope) -> Reader:
        host = scope["client"][0] if scope.get("client") else ""
        certified = scope.get("state", {}).get(CERTIFIED)
        if certified is not None and CERTIFICATE in self._access.ways:
            return self._judged(certified, host, _always)
        given = _authorization(scope)
        path = scope["path"]
        if given is None:
            if path in OPEN:
                return STRANGER
            raise _Refused(401, "authentication is required")
        scheme, value = given
        if scheme == "bearer" and self._access.token is not None:
            return await self._by_token(value, path, host)
        if scheme == "basic" and BASIC in self._access.ways:
            return await self._by_password(value, host)
        if path in OPEN:
            return STRANGER
        raise _Refused(401, "the scheme of the Authorization header is not supported")

    def _judged(
        self, principal: Principal, host: str, stands: Callable[[], Coroutine[None, None, bool]]
    ) -> Reader:
        return JudgedReader(principal, host, self._access.authorizer(), stands)

    async def _by_token(self, value: str, path: str, host: str) -> Reader:
        expected = self._access.token or ""
        is_right = hmac.compare_digest(expected.encode(), value.encode())
        if not (is_right and self._is_known(host)):
            await self._turn(host, _TOKENS_NAME)
        if not is_right:
            await self._failed(host, TOKEN, _TOKENS_NAME, "wrong token for /metrics")
            raise _Refused(401, "the token does not match http.metrics.token")
        if path != METRICS and path not in OPEN:
            raise _Refused(403, "this token gives access to /metrics only")
        network = network_of(host)
        self._token_right_s.pop(network, None)
        self._token_right_s[network] = self._time.monotonic_s()
        if len(self._token_right_s) > _KNOWN_MAX:
            self._token_right_s.popitem(last=False)
        return EVERYTHING

    def _is_known(self, host: str) -> bool:
        right_s = self._token_right_s.get(network_of(host))
        return right_s is not None and self._time.monotonic_s() - right_s < _KNOWN_S

    async def _by_password(self, value: str, host: str) -> Reader:
        try:
            name, colon, password = b64decode(value, validate=True).decode().partition(":")
        except (NotBase64, ValueError):
            colon = ""
        if not colon:
            raise _Refused(401, "Authorization: Basic needs NAME:PASSWORD in base64")
        principal = await self._checked(name, password, host)
        if principal is None:
            reason = "unknown user or wrong password"
            await self._failed(host, BASIC, name, reason, user=name[:100])
            raise _Refused(401, "unknown user or wrong password")

        async def stands() -> bool:
            return await self._access.users.check(name, password) is not None

        return self._judged(principal, host, stands)

    async def _checked(self, name: str, password: str, host: str) -> Principal | None:
        await self._turn(host, name)
        remembered = self._access.users.remembered(name, password)
        if remembered is not None:
            return remembered
        if self._checking >= _CHECKS_MAX:
            raise _Refused(503, "too many passwords are being checked; try again")
        self._checking += 1
        try:
            principal = await self._access.users.check(name, password)
        finally:
            self._checking -= 1
        if principal is not None:
            self._access.logins.counted(HTTP, BASIC, SUCCESS)
            now_ms = self._time.now().mono_ms
            self._guesses.judged(network_of(host), name, now_ms, is_right=True)
        return principal

    async def _turn(self, host: str, name: str) -> None:
        """Waits until the broker may check a password or token that the address ``host`` has sent
        for the user ``name``."""
        network = network_of(host)
        wait_ms = self._guesses.wait_ms(
            network,
            name,
            self._time.now().mono_ms,
            may_wait=self._waiting.get(network, 0) < _WAITING_MAX,
        )
        if wait_ms is None:
            raise _Refused(429, "too many failed logins from this address; try again in a minute")
        if not wait_ms:
            return
        self._waiting[network] += 1
        try:
            await self._time.sleep(wait_ms / 1000)
        finally:
            self._waiting[network] -= 1
            if not self._waiting[network]:
                del self._waiting[network]

    async def _failed(self, host: str, way: str, name: str, reason: str, **about: str) -> None:
        self._access.logins.counted(HTTP, way, FAILURE)
        now_ms = self._time.now().mono_ms
        self._guesses.judged(network_of(host), name, now_ms, is_right=False)
        self._lines.report("HTTP authentication failed", host, reason, host=host, **about)
        await self._time.sleep(self._access.failure_delay_ms / 1000)


async def _always() -> bool:
    return True


def _authorization(scope: Scope) -> tuple[str, str] | None:
    """Returns the two parts of the Authorization header: the scheme in lower case, and the
    credentials. Returns None if the header is missing."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").strip().partition(" ")
            return scheme.lower(), rest.strip()
    return None
