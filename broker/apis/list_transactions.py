"""ListTransactions (66): the transactional ids of every shard (KIP-664).

Versions: v1 adds a duration filter (KIP-994). v2 adds a pattern that the whole transactional id
must match (KIP-1152). The pattern has RE2's syntax, as in Kafka, so that matching takes linear
time. While a shard loads, the response has only the error COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.gather import Gather, error_of_all
from broker.cores.transactions.runtime import HostedTransactions
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Hides, Rights
from protocol.errors import INVALID_REGULAR_EXPRESSION, NONE
from protocol.messages.list_transactions import API
from security.acls.model import Operation, ResourceType
from transactions.calls import ListTransactions
from transactions.outcome import ListReply
from transactions.states import State

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_SHOWN = Hides(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
_NAMES = frozenset({*(state.wire_name for state in State), "PrepareEpochFence"})
"""Kafka's names of transaction states. The state PrepareEpochFence is a valid filter, but no
transaction is ever in this state."""
PATTERN_BYTES_MAX = 1 << 20
"""The maximum memory that a compiled pattern may use, in bytes."""
IDS_AT_ONCE = 1000
"""The maximum number of transactional ids of a shard that one call lists, in about 1 ms."""


class _BadPattern(ValueError):
    """A pattern that RE2 rejects."""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    try:
        pattern = _compiled(value["transactional_id_pattern"])
    except _BadPattern:
        request.respond({"error_code": INVALID_REGULAR_EXPRESSION})
        return
    states = frozenset(value["state_filters"])
    producer_ids = frozenset(value["producer_id_filters"])
    gather: Gather[ListReply] = Gather()
    for hosted in services.transactions.hosted_shards:
        for some in _pieces(hosted):
            call = ListTransactions(
                gather.ticket(), states, producer_ids, value["duration_filter"], some
            )
            services.transactions.submit(hosted, call)
            yield from gather.sent()
    yield from gather.rest()
    error_code = error_of_all(reply.error_code for reply in gather.replies)
    listed = request.array("transaction_states")
    for reply in gather.replies if error_code == NONE else ():
        for transaction in reply.transactions:
            transactional_id = transaction.transactional_id
            matches = pattern is None or pattern.fullmatch(transactional_id)
            if matches and is_allowed(services, request, _SHOWN, transactional_id):
                listed.append(
                    {
                        "transactional_id": transactional_id,
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


def _pieces(hosted: HostedTransactions) -> Iterator[list[str] | None]:
    """Yields the transactional ids of a shard in lists of at most IDS_AT_ONCE. If the shard has at
    most IDS_AT_ONCE ids, yields only None: then one call lists all ids."""
    known = hosted.core.view.transactions
    if len(known) <= IDS_AT_ONCE:
        yield None
        return
    ids = list(known)
    for start in range(0, len(ids), IDS_AT_ONCE):
        yield ids[start : start + IDS_AT_ONCE]


def _compiled(pattern: str | None) -> Any:
    """Returns the compiled pattern; None if the request has no pattern, so that all ids match.
    Raises _BadPattern."""
    if not pattern:
        return None
    import re2  # imported here: slow, and not needed at start

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise _BadPattern from error
    finally:
        re2.purge()  # otherwise the library keeps the last 128 patterns


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights(hides=(_SHOWN,)))
