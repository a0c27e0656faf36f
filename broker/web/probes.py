"""`/livez`, `/readyz`, `/healthz`: whether to restart the broker, send clients to it, look at it.

A broker that loads is live and not ready: a restart would begin the load anew. One with a log that
takes no writes is live and ready: it probes the log, and serves all others, reads and heartbeats
meanwhile. `/healthz` says so with 503, for who watches. Only a broker that can't go on, and stops,
is not live. A stranger, where readers have to say who they are, learns the state and no reason.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.metrics.sources import Sources
from broker.web.health import health, is_loading
from broker.web.readers.reader import reader_of

View = dict[str, Any]


def probes(sources: Sources) -> list[Route]:
    """Their routes."""

    async def livez(request: Request) -> Response:
        reason = sources.fatal()
        if reason is None:
            return JSONResponse({"live": True})
        return _told(request, {"live": False}, {"reason": reason}, 503)

    async def readyz(request: Request) -> Response:
        ready = sources.fatal() is None and not is_loading(sources)
        return _told(request, {"ready": ready}, health(sources), 200 if ready else 503)

    async def healthz(request: Request) -> Response:
        report = health(sources)
        state = {"state": report["state"]}
        return _told(request, state, report, 200 if report["state"] == "ready" else 503)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/healthz", healthz)]


def _told(request: Request, to_all: View, more: View, status: int) -> Response:
    told = to_all if reader_of(request.scope).is_stranger else {**to_all, **more}
    return JSONResponse(told, status)
