"""Rejects requests that a browser sends on behalf of web pages of other sites.

Suppose that a developer opens a malicious page and that authentication is off. The page must not be
able to read data of a broker on the developer's loopback interface or private network. Browsers
isolate pages by host name, but an attacker can make a name resolve to this machine (DNS rebinding).
Therefore a name in ``Host`` must be an allowed name; an IP address can't be rebound. Responses do
not allow other origins (CORS).

Requests from pages of other sites are also rejected, since they would cost work or a connection of
``/api/live``. Requests have no body, since the API only reads data. Only the verbs under ``/test``
of a broker with ``--test`` change data, and web pages may not use these verbs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.config.http_settings import is_loopback

_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::\d*)?")
_LOGGED_MAX = 20
"""The maximum number of distinct rejected host names that are logged."""
_SHOWN_MAX = 100
_VERBS = "/test"
WITHOUT_TEST = "this broker runs without --test: only `muster serve --test` serves /test"

logger = structlog.get_logger(__name__)


class Hosts:
    """The host names under which HTTP is available. ``allowed`` is the setting
    ``http.allowed.hosts``.

    If the listener is not on loopback, names without a dot are accepted: sites on the internet do
    not have such names, but containers and machines in the same network often do.
    """

    def __init__(self, listener: str, names: Iterable[str], allowed: str) -> None:
        given = [part.strip().lower() for part in allowed.split(",") if part.strip()]
        self._any = "*" in given
        self._below = tuple(name[1:] for name in given if name.startswith("*."))
        known = {"localhost", listener.lower(), *(name.lower() for name in names), *given}
        self._names = known - {""}
        self._short = not is_loopback(listener)

    def has(self, host: str) -> bool:
        """Returns True if ``host``, the value of a Host header, is an allowed name or an IP
        address."""
        found = _HOST.fullmatch(host.strip().lower())
        if found is None:
            return False
        in_brackets, name = found[1], (found[2] or "").removesuffix(".")
        if in_brackets is not None or _is_address(name):
            return _is_address(in_brackets or name)
        if self._any or name in self._names or name.endswith(self._below):
            return True
        return self._short and name != "" and "." not in name


class Guard:
    """An ASGI application that passes requests to the application ``inner``, but rejects requests
    from pages of other sites."""

    def __init__(self, inner: ASGIApp, hosts: Hosts, *, with_verbs: bool = False) -> None:
        self._inner = inner
        self._hosts = hosts
        self._with_verbs = with_verbs
        self._logged: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope["path"], dict(scope["headers"]))
        if refused is None:
            await self._inner(scope, receive, send)
            return
        status, sentence = refused
        # The rest of the request, perhaps a body, is not read.
        answer = JSONResponse({"error": sentence}, status, {"connection": "close"})
        await answer(scope, receive, send)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host")
        # HTTP 1.0 has no Host header. No browser uses it: this is a probe.
        if host is not None and not self._hosts.has(host.decode("latin-1")):
            shown = repr(host.decode("latin-1")[:_SHOWN_MAX])
            self._log_once(shown)
            return 421, (
                f"Host {shown} is not allowed: use an address, such as 127.0.0.1:9644, or add the"
                " name to http.allowed.hosts"
            )
        if _is_foreign(headers):
            return 403, "requests from web pages of other sites are not allowed"
        if path == _VERBS or path.startswith(f"{_VERBS}/"):
            if not self._with_verbs:
                return 404, WITHOUT_TEST
            if b"origin" in headers:
                return 403, "requests from web pages to /test are not allowed"
            return None
        if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            return 413, "this API is read-only: send the request without a body"
        return None

    def _log_once(self, shown: str) -> None:
        if shown not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(shown)
            logger.warning(
                "HTTP request refused: its Host is not in http.allowed.hosts", host=shown
            )


def _is_foreign(headers: dict[bytes, bytes]) -> bool:
    """Returns True if a page of another site sent the request by itself. Returns False if a user
    followed a link on such a page."""
    return (
        headers.get(b"sec-fetch-site") == b"cross-site"
        and headers.get(b"sec-fetch-mode") != b"navigate"
    )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
