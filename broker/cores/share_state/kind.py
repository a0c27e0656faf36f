"""Defines the kind of core that stores the states of share partitions: its topic
``__share_group_state``, the records of this topic, and the replies of the share coordinator."""

from __future__ import annotations

from typing import Any

from broker.cores.core import Kind
from broker.cores.share_state.records import ShareStateReader
from broker.topics.partition import NotYetStable
from broker.topics.registry import SHARE_STATE_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from share.persister.calls import (
    Call,
    FindRedundant,
    ReadStateSummary,
    RedundantReply,
    StateReply,
    WriteState,
)
from share.persister.record_codec import run_records
from share.persister.shard import ShareStateShard

_READS = (ReadStateSummary, FindRedundant)
Reply = StateReply | RedundantReply


def refusal(call: Call | FindRedundant, error_code: int) -> Reply:
    """Returns a reply to ``call`` with only an error code."""
    return RedundantReply(error_code) if type(call) is FindRedundant else StateReply(error_code)


def loading_error(call: Call | FindRedundant) -> int:  # noqa: ARG001
    """Returns the error code for calls that arrive while their shard is being loaded."""
    return COORDINATOR_LOAD_IN_PROGRESS


def write_failed(reply: Reply) -> Reply:
    """Returns the reply that replaces ``reply``, because the records of ``reply`` could not be
    appended.

    The error code is NOT_COORDINATOR, to which Kafka maps KAFKA_STORAGE_ERROR. Source: Kafka 4.3.1
    ``CoordinatorOperationExceptionHelper``.
    """
    return type(reply)(NOT_COORDINATOR)


def not_stable(reply: Any, error: Exception) -> Reply:
    """Returns the reply to send in place of a reply whose record did not become stable. After a
    timeout, the error code is COORDINATOR_NOT_AVAILABLE, as in Kafka."""
    if isinstance(error, NotYetStable):
        return type(reply)(COORDINATOR_NOT_AVAILABLE)  # type: ignore[no-any-return]
    return write_failed(reply)


SHARE_STATES = Kind(
    topic=SHARE_STATE_TOPIC,
    things="share partitions",
    new_core=ShareStateShard,
    partition_of=partition_for,
    reader=ShareStateReader,
    skip_setting="share.coordinator.load.skip.records",
    encode=run_records,
    refusal=refusal,
    not_served=refusal,
    loading_error=loading_error,
    write_failed=write_failed,
    not_stable=not_stable,
    reads=_READS,
    needs_no_record=_READS,
    sets_no_deadline=_READS,
    counted=WriteState,
)
