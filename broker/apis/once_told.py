"""Answers that name the cluster's brokers wait until the controller has told who lives.

A broker of a cluster that has just started knows of nobody before that. librdkafka forgets all
brokers when it is told of none, and finds no other ever again. Whoever has waited in vain is sent
away, and asks another broker. A broker by itself knows at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.answer_once import Answer, answer_once
from broker.net.request import Request, Steps

if TYPE_CHECKING:
    from broker.apis.services import Services

TOLD_WITHIN_S = 5.0
"""How long a client waits for what the controller tells."""


def once_told(services: Services, request: Request, answer: Answer) -> Steps | None:
    """Answers at once where the brokers are known, and as soon as they are elsewhere."""
    if services.cluster.is_told:
        return answer(services, request)
    request.check()
    there = services.cluster.told(services.time.within(TOLD_WITHIN_S))
    answer_once(there, services, request, answer)
    return None
