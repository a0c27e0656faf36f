"""ListTransactions (66): the transactional ids of every shard (KIP-664).

v1 duration filter (KIP-994); v2 a pattern that the whole id matches (KIP-1152). While a shard
loads, the answer is COORDINATOR_LOAD_IN_PROGRESS and nothing else, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from protocol.errors import NONE
from protocol.messages.list_transactions import API
from transactions.calls import ListTransactions
from transactions.outcome import ListReply
from transactions.states import State

if TYPE_CHECKING:
    from broker.apis.services import Services

_NAMES = frozenset({*(state.wire_name for state in State), "PrepareEpochFence"})
"""Kafka's words for states; its last is one that no id is ever seen in."""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    states = frozenset(value["state_filters"])
    producer_ids = frozenset(value["producer_id_filters"])
    gather: Gather[ListReply] = Gather()
    for hosted in services.transactions.hosted_shards:
        services.transactions.submit_to(
            hosted,
            ListTransactions(gather.ticket(), states, producer_ids, value["duration_filter"]),
        )
        yield from gather.sent()
    yield from gather.rest()
    error_code = max((reply.error_code for reply in gather.replies), default=NONE)
    listed = request.array("transaction_states")
    for reply in gather.replies if error_code == NONE else ():
        for transaction in reply.transactions:
            listed.append(
                {
                    "transactional_id": transaction.transactional_id,
                    "producer_id": transaction.producer_id,
                    "transaction_state": transaction.state,
                }
            )
            yield None
    request.respond(
        {
            "error_code": error_code,
            "unknown_state_filters": [] if error_code else sorted(states - _NAMES),
            "transaction_states": listed,
        }
    )


SERVED = ServedApi(API, 0, 2, _handle)
