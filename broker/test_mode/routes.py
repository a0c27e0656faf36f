"""The HTTP routes of a broker in test mode. A path below /test calls a verb, such as
``/test/time/advance``; the running broker serves all other paths. The HTTP server continues when
the broker is stopped.

The arguments of a verb are a JSON object in the request body, or the query if the body is empty.
Every response is a JSON object. Every error has the form ``{"error": ...}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from broker.test_mode.arguments import values_of
from broker.test_mode.refusals import NotNow, Refused, UnknownVerb, WrongArgument
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.table import OF_BROKER, OF_CLUSTER, VERBS
from broker.test_mode.verbs.verb import Verb

logger = structlog.get_logger(__name__)

BODY_BYTES_MAX = 1 << 20


class Routes:
    """The ASGI application of a tested broker."""

    def __init__(self, tested: TestedBroker, *served: tuple[object, Sequence[Verb]]) -> None:
        """Each element of ``served`` is a pair: an object (the tested broker or its cluster), and
        its verbs. The function of a verb gets the object as an argument."""
        self._tested = tested
        self._verbs = [verb for _, verbs in served for verb in verbs]
        self._by_place = {(each.method, each.path): each for each in self._verbs}
        self._subjects = {
            (each.method, each.path): subject for subject, verbs in served for each in verbs
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/test" or path.startswith("/test/"):
            answer = await self._verb(Request(scope, receive), path.removeprefix("/test"))
            await answer(scope, receive, send)
            return
        try:
            run = self._tested.run
        except NotNow as refused:
            await _refusal(503, str(refused))(scope, receive, send)
            return
        await run.serve_pages(scope, receive, send)

    async def _verb(self, request: Request, path: str) -> Response:
        try:
            if path in ("", "/"):
                return JSONResponse({"verbs": [each.described() for each in self._verbs]})
            verb, named = self._find(request.method, path)
            values = await _values(verb, request, named)
            return JSONResponse(await verb.do(self._subjects[verb.method, verb.path], **values))
        except Refused as refused:
            return _refusal(refused.status, str(refused))
        except Exception as error:
            logger.exception("test verb failed", method=request.method, path=request.url.path)
            return _refusal(500, f"internal error of the broker: {type(error).__name__}: {error}")

    def _find(self, method: str, path: str) -> tuple[Verb, Mapping[str, str]]:
        """Returns the verb for a method and path, with the arguments in the path."""
        found = self._by_place.get((method, path))
        if found is not None:
            return found, {}
        for each in self._verbs:
            before, _, name = each.path.partition("/{")
            last = path.removeprefix(f"{before}/")
            if name and each.method == method and last not in ("", path) and "/" not in last:
                return each, {name.removesuffix("}"): last}
        raise UnknownVerb(self._unknown(method, path))

    def _unknown(self, method: str, path: str) -> str:
        others = [each.shown for each in self._verbs if each.path == path]
        if others:
            return f"unknown verb {method} /test{path}; did you mean {' or '.join(others)}?"
        elsewhere = _elsewhere(method, path)
        if elsewhere:
            return f"unknown verb {method} /test{path}: {elsewhere}; GET /test lists all verbs"
        near = get_close_matches(path, [each.path for each in self._verbs], 1)
        hint = [each.shown for each in self._verbs if near and each.path == near[0]]
        nearest = f"; did you mean {' or '.join(hint)}?" if hint else ";"
        return f"unknown verb {method} /test{path}{nearest} GET /test lists all verbs"


def _elsewhere(method: str, path: str) -> str:
    """Returns which test servers have a verb that this server does not have; an empty text if none
    has the verb."""
    if any((each.method, each.path) == (method, path) for each in VERBS):
        at = (
            "test clusters do not have this verb; only a single test broker has it (`Muster`,"
            " `muster serve --test` without --brokers)"
        )
        return f"{at}. {_IN_CLUSTER[path]}" if path in _IN_CLUSTER else at
    if any((each.method, each.path) == (method, path) for each in (*OF_CLUSTER, *OF_BROKER)):
        return (
            "a single test broker does not have this verb; only test clusters have it"
            " (`MusterCluster`, `muster serve --test --brokers 3`)"
        )
    return ""


_IN_CLUSTER = {
    "/groups/move_coordinator": (
        "In a cluster, the coordinator is the leader of the group's partition of"
        " __consumer_offsets: use `MusterCluster.move_coordinator` or POST /test/move_leader"
    )
}
"""By path of a verb that exists only for a single test broker: advice for use in a cluster."""


async def _values(verb: Verb, request: Request, named: Mapping[str, str]) -> dict[str, object]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise WrongArgument(f"{verb.shown}: the body has more than {BODY_BYTES_MAX} bytes")
    query = dict(request.query_params)
    if not body.strip():
        return values_of(verb.shown, verb.arguments, {**query, **named}, as_text=True)
    if query:
        raise WrongArgument(
            f"{verb.shown}: pass arguments in the query or in the body, not in both"
        )
    try:
        given = json.loads(body)
    except ValueError as error:
        raise WrongArgument(f"{verb.shown}: the body is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise WrongArgument(f'{verb.shown}: the body must be a JSON object, such as {{"ms": 1000}}')
    return values_of(verb.shown, verb.arguments, {**given, **named}, as_text=False)


def _refusal(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)
