"""The files of the page, which are read once, and response headers that prevent a browser from
running other code.

The files in broker/web/page/ are plain HTML, CSS and JavaScript without a build step. The page
receives names of groups and clients as JSON, and inserts them as text, never as markup. The
Content-Security-Policy is a second protection.
"""

from __future__ import annotations

import gzip
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from broker.web.compression import accepts_gzip

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_PLAIN = """muster
/         in a browser: groups, transactions, topics and the broker, live
/metrics  Prometheus series
/runbooks what to do for each alert
/healthz  loading, ready or poisoned; /readyz and /livez for probes
/api/groups, /api/groups/GROUP, /api/groups/GROUP/journal  groups, verdicts, rebalances and causes
/api/transactions, /api/transactions/ID, /api/held  transactions, and the groups that wait for them
/api/topics, /api/topics/TOPIC, /api/broker  topics and this broker
/api/cluster, /api/cluster/partitions/TOPIC/N, /api/cluster/brokers/ID  leaders, ISRs and causes
/api/live  changes of groups, transactions, topics and the broker as a stream
/api/offsets/expiring  committed offsets that retention will remove soon
/api/openapi.json  all paths and fields
"""


class PageFiles:
    """The files of the page, by name."""

    def __init__(self) -> None:
        self._files = {
            each.name: each.read_bytes()
            for each in (files("broker.web") / "page").iterdir()
            if each.name.rpartition(".")[2] in _TYPES
        }
        # They never change, so each is compressed once, at the highest level.
        self._packed = {name: gzip.compress(data, mtime=0) for name, data in self._files.items()}

    def routes(self) -> list[Route]:
        return [Route("/", self.index), Route("/page/{name}", self.file)]

    async def index(self, request: Request) -> Response:
        """Returns the page for a browser, and a list of paths for any other client."""
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(_PLAIN, headers={"vary": "accept"})
        answer = self._answer(request, "index.html")
        answer.headers.add_vary_header("Accept")
        return answer

    async def file(self, request: Request) -> Response:
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        is_packed = accepts_gzip(request.headers.getlist("accept-encoding"))
        data = (self._packed if is_packed else self._files).get(name)
        if data is None:
            return PlainTextResponse("file not found", 404)
        tag = f'"{sha256(data).hexdigest()[:20]}"'
        headers = {**HEADERS, "etag": tag, "vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        headers["content-type"] = _TYPES[name.rpartition(".")[2]]
        if is_packed:
            headers["content-encoding"] = "gzip"
        return Response(data, headers=headers)
