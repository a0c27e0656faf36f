"""Applies the acknowledgements of ShareFetch and ShareAcknowledge requests, and closes share
sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from broker.apis.shared.authorization import TEXTS
from broker.loop.slices import Slices
from broker.share.live_partition import LivePartition
from broker.share.partitions import Code, SharePartitions
from broker.share.sessions import Place, ShareSession
from protocol.errors import (
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.partition.acknowledgement import PIECE, pieces
from share.partition.values import AckBatch

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from share.partition.values import Change

Batches = Sequence[tuple[int, int, Sequence[int]]]
"""Batches of acknowledgements, each with its first offset, last offset and types."""
Asked = tuple[bytes, int, Batches]
"""The acknowledgements for one partition: topic id, partition index, batches."""


class ShareAcknowledgements:
    """The acknowledgements of one request; call `apply`, then `results`."""

    def __init__(
        self, services: Services, group_id: str, member_id: str, *, is_renew: bool = False
    ) -> None:
        assert services.share_partitions is not None
        self._partitions: SharePartitions = services.share_partitions
        self._registry = services.registry
        self._group_id = group_id
        self._member_id = member_id
        self._is_renew = is_renew and self._partitions.settings_of(group_id).may_renew
        self._results: dict[Place, Code] = {}
        self._missing = 0
        """The number of changes to delivery states that are not stored yet."""
        self._waiter: asyncio.Future[None] | None = None

    async def apply(self, slices: Slices, asked: Iterable[Asked], denied: Set[str]) -> None:
        """Applies the acknowledgements of all partitions, except those of denied topics."""
        for topic_id, index, batches in asked:
            name = self._registry.topic_name(topic_id)
            if name is None:
                self._put((topic_id, index), UNKNOWN_TOPIC_ID, None)
            elif name in denied:
                text = TEXTS[TOPIC_AUTHORIZATION_FAILED]
                self._put((topic_id, index), TOPIC_AUTHORIZATION_FAILED, text)
            else:
                await self._apply(slices, (topic_id, index), name, batches)
            if slices.over:
                await slices.pause()

    async def _apply(self, slices: Slices, place: Place, name: str, batches: Batches) -> None:
        live = self._partitions.get(self._group_id, *place_of(place, name))
        if isinstance(live, LivePartition) and live.share is None:
            await slices.until(live.loaded)
        if not isinstance(live, LivePartition):
            self._put(place, live, None)
        elif live.share is None:  # not loaded, so that no member holds its records
            self._put(place, UNKNOWN_TOPIC_OR_PARTITION, live.error_message)
        elif len(batches) <= PIECE and sum([len(types) for _, _, types in batches]) <= PIECE:
            self._acknowledge(live, place, [AckBatch(*batch) for batch in batches])
        else:
            await self._apply_in_pieces(slices, live, place, batches)

    async def _apply_in_pieces(
        self, slices: Slices, live: LivePartition, place: Place, batches: Batches
    ) -> None:
        """Applies many acknowledgements of one partition in pieces, so that a large request does
        not block the event loop.

        The changes are stored only when all pieces are accepted. If one piece is refused, for
        example because an acquisition lock has expired, the earlier pieces are undone, except
        renewals.
        """
        for index in range(0, len(batches), PIECE):
            # With the last batch before, since batches must ascend.
            checked = [AckBatch(*each) for each in batches[max(index - 1, 0) : index + PIECE]]
            refusal = live.ready.refusal(self._member_id, checked, self._is_renew)
            if refusal is not None:
                self._put(place, *refusal)
                return
            if slices.over:
                await slices.pause()
        changes: list[Change] = []
        refused: Code = NONE, None
        for piece in pieces(batches, live.ready.start_offset):
            found = self._partitions.begin_acknowledging(
                live, self._member_id, piece, is_renew=self._is_renew
            )
            if found.change is not None:
                changes.append(found.change)
            if found.error_code:
                refused = found.error_code, found.error_message
                break
            if slices.over:
                await slices.pause()
        for change in changes:
            if refused[0]:
                self._partitions.take_back(live, change)
            else:
                self._missing += 1
                self._partitions.store_begun(live, change, self._done(place))
            if slices.over:
                await slices.pause()
        self._put(place, *refused)

    def _acknowledge(self, live: LivePartition, place: Place, batches: list[AckBatch]) -> None:
        self._missing += 1
        self._partitions.acknowledge(
            live, self._member_id, batches, self._done(place), is_renew=self._is_renew
        )

    def _done(self, place: Place) -> Callable[[int, str | None], None]:
        def done(error_code: int, error_message: str | None) -> None:
            self._missing -= 1
            self._put(place, error_code, error_message)
            if not self._missing and self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

        return done

    def _put(self, place: Place, error_code: int, error_message: str | None) -> None:
        """Stores the result of a partition. If a request names the partition twice, the first error
        is kept."""
        if self._results.get(place, (NONE, None))[0] == NONE:
            self._results[place] = error_code, error_message

    async def results(self, slices: Slices) -> dict[Place, Code]:
        """Waits until all changes are stored. Returns the result of each partition."""
        if self._missing:
            self._waiter = asyncio.get_running_loop().create_future()
            await slices.until(self._waiter)
        return self._results


def place_of(place: Place, name: str) -> tuple[bytes, str, int]:
    """Returns the topic id, topic name and index of a partition, which are arguments of
    `SharePartitions.get`."""
    return place[0], name, place[1]


async def close_session(services: Services, slices: Slices, session: ShareSession) -> None:
    """Closes a share session, and waits until the release of its acquired records is stored."""
    assert services.share_partitions is not None
    assert services.share_sessions is not None
    services.share_sessions.close(session)
    await services.share_partitions.releases.until_stored(slices, session.key)
