"""Log lines about transactions: one line for each change of a transactional id, with its cause.

The lines of successful transactions are frequent, and have the level ``debug``. Lines that an
operator may need have the level ``info``: a new id, a fenced producer, and the end of a transaction
that was open for a long time. A transaction that ends without a request of its producer has the
level ``warning``.
"""

from __future__ import annotations

import structlog

from protocol.errors import NAMES
from transactions.calls import BROKER, Client, Partitions
from transactions.events import (
    Cause,
    EndedPastCoordinator,
    Event,
    PartitionsAdded,
    ProducerFenced,
    ShardLoaded,
    TransactionRefused,
    Transition,
)
from transactions.journal_entries import LONG_MS
from transactions.states import State

logger = structlog.get_logger(__name__)

DEBUG, INFO, WARNING = 10, 20, 30
"""The log levels of structlog."""
_NAMED = 3
_ABORTS = (Cause.TIMEOUT, Cause.ADMIN)


def observe(event: Event) -> None:
    if isinstance(event, Transition):
        _moved(event)
    elif isinstance(event, PartitionsAdded):
        if not logger.is_enabled_for(DEBUG):
            return
        logger.debug(
            "partitions added to transaction",
            id=event.transactional_id,
            producer=event.producer_id,
            epoch=event.producer_epoch,
            partitions=sum(len(ids) for _, ids in event.partitions),
            first=_first(event.partitions),
            group=event.group_id,
        )
    elif isinstance(event, ProducerFenced):
        logger.info(
            "producer fenced",
            id=event.transactional_id,
            producer=event.producer_id,
            epoch=event.producer_epoch,
            client=event.client.client_id,
            host=event.client.host,
            fenced_client=event.fenced.client_id,
            fenced_host=event.fenced.host,
        )
    elif isinstance(event, TransactionRefused):
        logger.debug(
            "transaction request rejected",
            id=event.transactional_id,
            error=NAMES.get(event.error_code, event.error_code),
            detail=event.detail,
            producer=event.producer_id,
            epoch=event.producer_epoch,
            client=event.client.client_id,
            host=event.client.host,
        )
    elif isinstance(event, EndedPastCoordinator):
        logger.warning(
            "transaction ended by WriteTxnMarkers of a client, bypassing its coordinator",
            id=event.transactional_id,
            producer=event.producer_id,
            epoch=event.producer_epoch,
            committed=event.committed,
            partitions=sum(len(ids) for _, ids in event.partitions),
            first=_first(event.partitions),
            client=event.client.client_id,
            host=event.client.host,
        )
    else:
        _loaded(event)


def _first(partitions: Partitions) -> str:
    """Returns the names of the first partitions in ``partitions``, as text."""
    return ", ".join([f"{topic}-{ids[0]}" for topic, ids in partitions if ids][:_NAMED])


def _moved(event: Transition) -> None:
    is_logged = event.old is None or event.cause in (Cause.FENCED, Cause.EXPIRED)
    was_long = event.new is not State.ONGOING and event.open_ms >= LONG_MS
    if event.new is State.PREPARE_ABORT and event.cause in _ABORTS:
        level = WARNING
    elif is_logged or was_long:
        level = INFO
    elif logger.is_enabled_for(DEBUG):
        level = DEBUG
    else:
        return  # each healthy transaction has four of these events
    logger.log(
        level,
        "transaction state changed",
        id=event.transactional_id,
        old=None if event.old is None else event.old.wire_name,
        new=event.new.wire_name,
        producer=event.producer_id,
        epoch=event.producer_epoch,
        cause=event.cause.value,
        detail=event.detail,
        **_whose(event.client),
        **_lengths(event),
    )


def _whose(client: Client) -> dict[str, str]:
    """Returns the log fields that identify a client; an empty dict for the broker itself."""
    return {} if client == BROKER else {"client": client.client_id, "host": client.host}


def _lengths(event: Transition) -> dict[str, int]:
    found: dict[str, int] = {}
    if event.open_ms >= 0:
        found |= {"partitions": event.partitions, "open_ms": event.open_ms}
    if event.since_prepare_ms >= 0:
        found["markers_ms"] = event.since_prepare_ms
    return found


def _loaded(event: ShardLoaded) -> None:
    if event.completing:
        logger.info(
            "completing transactions whose markers were not all written before the last stop",
            transactions=event.completing,
            of=event.transactional_ids,
        )
