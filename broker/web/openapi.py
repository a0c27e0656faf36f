"""`/api/openapi.json`: the description of the HTTP API in OpenAPI 3.1. The file is written by hand.
`tests/broker/web/test_openapi.py` compares it with the routes. The tests in `tests/broker/web`
check every response against the schemas in the file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def routes() -> list[Route]:
    return [Route("/api/openapi.json", _description)]


async def _description(request: Request) -> Response:
    del request
    return Response(_file(), media_type="application/json")


@cache
def _file() -> bytes:
    return (files("broker.web") / "openapi.json").read_bytes()
