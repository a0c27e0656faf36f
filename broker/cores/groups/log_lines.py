"""Log lines about groups: one line for each event that operators need."""

from __future__ import annotations

from typing import Any

import structlog

from coordinator.consumer.events import (
    EpochBumped,
    GroupReconciled,
    HeartbeatRefused,
    RegexesResolved,
    TargetComputed,
)
from coordinator.events import (
    Assigned,
    Event,
    GenerationFormed,
    GroupConverted,
    GroupRemoved,
    LostByAdmin,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    OffsetsExpired,
    OffsetsExpiring,
    OffsetsMovedBack,
    TransactionalOffsets,
    Transition,
)
from coordinator.streams.events import FirstTargetDelayed, StreamsEvent, TopologyChecked
from coordinator.wording import some_of
from journal.texts import cut
from protocol.errors import NAMES

_NAMED, _REGEX_CHARACTERS = 3, 200
"""The maximum number of regexes in a log line, and the maximum number of characters of each regex.
"""

logger = structlog.get_logger()


def observe(event: Event) -> None:
    """Writes the log line of an event. Some events have no log line."""
    if isinstance(event, Transition):
        waits: dict[str, Any] = {}
        if event.awaited:  # the members that the group waits for, and until when
            waits = {"waits_for": some_of(list(event.awaited), ", "), "wait_ms": event.wait_ms}
        logger.info(
            "group state changed",
            group=event.group_id,
            old=event.old_state,
            new=event.new_state,
            generation=event.generation_id,
            cause=str(event.cause),
            detail=event.detail,
            **waits,
        )
    elif isinstance(event, GenerationFormed):
        logger.info(
            "generation formed",
            group=event.group_id,
            generation=event.generation_id,
            protocol=event.protocol_name,
            leader=event.leader,
            members=event.members,
            join_ms=event.join_ms,
        )
    elif isinstance(event, MemberJoined):
        logger.info(
            "member joined",
            group=event.group_id,
            member=event.member_id,
            instance=event.group_instance_id,
            client=event.client_id,
            host=event.client_host,
            reason=event.reason,
        )
    elif isinstance(event, MemberLeft):
        logger.info(
            "member removed",
            group=event.group_id,
            member=event.member_id,
            instance=event.group_instance_id,
            client=event.client_id,
            host=event.client_host,
            cause=str(event.cause),
            detail=event.detail,
        )
    elif isinstance(event, MemberChanged):
        logger.info(
            "member changed",
            group=event.group_id,
            member=event.member_id,
            client=event.client_id,
            host=event.client_host,
            detail=event.detail,
        )
    elif not isinstance(event, Assigned):  # the transition to Stable is logged
        _observe_consumers(event)


def _observe_consumers(event: Event) -> None:
    if isinstance(event, EpochBumped):
        logger.info(
            "group epoch raised",
            group=event.group_id,
            epoch=event.epoch,
            cause=event.cause.value,
            detail=event.detail,
        )
    elif isinstance(event, TargetComputed):
        logger.info(
            "target assignment computed",
            group=event.group_id,
            epoch=event.epoch,
            assignor=event.assignor,
            members=event.members,
            moved=event.moved,
        )
    elif isinstance(event, GroupReconciled):
        logger.info(
            "group reconciled", group=event.group_id, epoch=event.epoch, members=event.members
        )
    elif isinstance(event, GroupConverted):
        logger.info(
            "group converted",
            group=event.group_id,
            type=event.type,
            generation=event.generation_id,
            detail=event.detail,
        )
    elif isinstance(event, RegexesResolved):
        logger.info(
            "regexes resolved",
            group=event.group_id,
            regexes=[cut(each, _REGEX_CHARACTERS) for each in event.regexes[:_NAMED]],
            came=some_of(list(event.came), ", "),
            gone=some_of(list(event.gone), ", "),
        )
    elif isinstance(event, HeartbeatRefused):
        logger.info(
            "heartbeat refused",
            group=event.group_id,
            member=event.member_id,
            client=event.client_id,
            host=event.client_host,
            error=NAMES[event.error_code],
            detail=event.detail,
        )
    elif isinstance(event, StreamsEvent):
        _observe_streams(event)
    else:
        _observe_offsets(event)


def _observe_streams(event: StreamsEvent) -> None:
    if isinstance(event, TopologyChecked):
        if event.code:
            logger.warning("topology is not ready", group=event.group_id, detail=event.detail)
        else:
            logger.info("topology is ready", group=event.group_id)
    elif isinstance(event, FirstTargetDelayed):
        logger.info("assignment delayed", group=event.group_id, delay_ms=event.delay_ms)
    else:
        logger.warning("application shutdown requested", group=event.group_id, member=event.who)


def _observe_offsets(event: Event) -> None:
    if isinstance(event, OffsetsMovedBack):
        first = event.examples[0]
        logger.warning(
            "committed offsets moved back",
            group=event.group_id,
            member=event.member_id,
            client=event.client_id,
            host=event.client_host,
            offsets=event.offsets,
            example=f"{first.topic}-{first.partition}: {first.offset_before} to {first.offset}",
        )
    elif isinstance(event, LostByAdmin):
        logger.warning(
            "an admin request may make the group miss unread records",
            group=event.group_id,
            what=event.loss.value,
            principal=event.principal,
            client=event.client_id,
            host=event.client_host,
            offsets=event.offsets,
            examples=[f"{each.topic}-{each.partition}" for each in event.examples],
        )
    elif isinstance(event, TransactionalOffsets):
        logger.debug(
            "transaction offsets " + ("committed" if event.committed else "dropped"),
            group=event.group_id,
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            offsets=event.offsets,
        )
    elif isinstance(event, OffsetsExpiring):
        logger.warning(
            "committed offsets will expire",
            group=event.group_id,
            offsets=event.offsets,
            within_ms=event.within_ms,
            detail=event.detail,
        )
    elif isinstance(event, OffsetsExpired):
        logger.info(
            "committed offsets removed",
            group=event.group_id,
            offsets=event.offsets,
            cause=str(event.cause),
        )
    elif isinstance(event, GroupRemoved):
        logger.info("group removed", group=event.group_id, cause=str(event.cause))
