"""Answers that wait for something. Who waits in vain is sent away, and asks another broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.net.request import Request, Steps

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Answer = Callable[["Services", Request], Steps | None]
"""As a handler: it ends the request, or returns the steps that do."""


TOLD_WITHIN_S = 5.0
"""How long a client waits for what the controller tells."""


def await_live_brokers(services: Services, request: Request, answer: Answer) -> Steps | None:
    """Answer when the controller has told which brokers live; a broker by itself knows at once.

    A broker of a cluster that has just started knows of nobody before. librdkafka forgets all
    brokers when it is told of none, and finds no other ever again.
    """
    if services.cluster.is_told:
        return answer(services, request)
    request.check()
    there = services.cluster.told(services.time.within(TOLD_WITHIN_S))
    deferred_answer(there, services, request, answer)
    return None


def deferred_answer(
    there: Awaitable[bool], services: Services, request: Request, answer: Answer
) -> None:
    """Answers when ``there`` says that it can; closes the connection when that took too long."""
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
