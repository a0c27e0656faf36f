"""Responses that wait for a condition. On timeout the connection is closed, so that the client
tries another broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.net.request import Request, Steps

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Answer = Callable[["Services", Request], Steps | None]
"""A function like a handler: it completes a request, or returns the steps that complete the
request."""


BROKERS_WITHIN_S = 5.0
"""The maximum time in seconds for which a response waits for the controller's first UpdateMetadata.
"""


def await_live_brokers(services: Services, request: Request, answer: Answer) -> Steps | None:
    """Calls ``answer`` as soon as the controller has sent the live brokers to this broker, and
    immediately on a standalone broker.

    A broker that has just started in a cluster does not know the other brokers. librdkafka replaces
    its list of brokers by the list in each response, and never recovers from an empty list.
    """
    if services.cluster.has_brokers:
        return answer(services, request)
    request.check()
    there = services.cluster.await_brokers(services.time.within(BROKERS_WITHIN_S))
    deferred_answer(there, services, request, answer)
    return None


def deferred_answer(
    there: Awaitable[bool], services: Services, request: Request, answer: Answer
) -> None:
    """Calls ``answer`` when ``there`` returns True. If ``there`` returns False because of a
    timeout, closes the connection of the request instead."""
    request.answer_later(_answer_once(there, services, request, answer))


async def _answer_once(
    there: Awaitable[bool], services: Services, request: Request, answer: Answer
) -> None:
    if not await there:
        request.connection.close()
        return
    steps = answer(services, request)
    if steps is not None:
        request.work_off(steps)
