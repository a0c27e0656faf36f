"""Checks an acknowledgement, and splits it into ranges with one acknowledge type each. Source:
Kafka 4.3.1 ``KafkaApis.validateAcknowledgementBatches``, ``SharePartition.acknowledge``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from protocol import errors
from share.partition.ranges import ACQUIRED, Ranges
from share.partition.values import AckBatch, AcknowledgeType

PIECE = 500
"""The maximum number of acknowledge types, or of ranges, in one step of a long operation. Such a
step takes about 4 ms."""


class Refusal(NamedTuple):
    """The error of an acknowledgement that is rejected."""

    error_code: int
    message: str


class AckRun(NamedTuple):
    """Consecutive offsets with one acknowledge type. The first and the last offset are included."""

    first_offset: int
    last_offset: int
    type: int


def refusal_of_batches(batches: Sequence[AckBatch], is_renew: bool) -> Refusal | None:
    """Returns the error of batches that are invalid for any share partition; None if they are
    valid."""
    before = -1
    greatest = AcknowledgeType.RENEW if is_renew else AcknowledgeType.REJECT
    for first, last, types in batches:
        if first > last:
            return _invalid(f"first offset {first} is greater than last offset {last}")
        if first < before:
            return _invalid(
                f"first offset {first} is before the last offset of the previous batch, {before}"
            )
        if not types:
            return _invalid(f"offsets {first} to {last} have no acknowledge type")
        if len(types) not in (1, last - first + 1):
            return _invalid(
                f"offsets {first} to {last} have {len(types)} acknowledge types, expected 1 or"
                f" {last - first + 1}"
            )
        if not 0 <= min(types) <= max(types) <= greatest:
            return _invalid(
                f"the acknowledge types {min(types)} to {max(types)} are not within 0 to {greatest}"
            )
        before = last
    return None


def refusal_of_member(
    ranges: Ranges, member_id: str, batches: Sequence[AckBatch]
) -> Refusal | None:
    """Returns the error if ``batches`` contain records that the member can't acknowledge, for
    example because it has not acquired them; otherwise None."""
    before = -1
    for first, last, _ in batches:
        if last < ranges.start_offset:
            continue
        if ranges.start_offset > ranges.end_offset:
            return _not_held(first, "no record is in flight")
        if last > ranges.end_offset:
            return _invalid(f"offset {last} is after the last acquired offset, {ranges.end_offset}")
        begin = max(first, ranges.start_offset)
        if begin <= before:
            return _not_held(begin, "an earlier batch of the same request acknowledges this offset")
        for each in ranges.overlapping(begin, last):
            if each.state != ACQUIRED or each.lock is None:
                return _not_held(max(each.first, begin), "no member holds it")
            if each.transition is not None:
                return _not_held(max(each.first, begin), "it is acknowledged already")
            if each.lock.member_id != member_id:
                return _not_held(max(each.first, begin), "another member holds it")
        before = last
    return None


def runs(batches: Sequence[AckBatch], start_offset: int) -> Iterator[AckRun]:
    """Yields consecutive offsets with the same acknowledge type. Offsets below ``start_offset`` are
    omitted."""
    for first, last, types in batches:
        if len(types) == 1:
            if last >= start_offset:
                yield AckRun(max(first, start_offset), last, types[0])
            continue
        begin = first
        for type_, run in groupby(types):
            end = begin + sum(1 for _ in run) - 1
            if end >= start_offset:
                yield AckRun(max(begin, start_offset), end, type_)
            begin = end + 1


def pieces(
    batches: Sequence[tuple[int, int, Sequence[int]]], start_offset: int
) -> Iterator[list[AckBatch]]:
    """Splits valid batches into pieces with at most `PIECE` acknowledge types.

    Omits batches below ``start_offset``. Yields an empty piece after every `PIECE` omitted batches,
    so that no step of the generator takes long.
    """
    piece: list[AckBatch] = []
    size = omitted = 0
    for first, last, types in batches:
        if last < start_offset:
            omitted += 1
            if omitted % PIECE == 0:
                yield []
            continue
        for begin in range(0, len(types), PIECE):
            part = types[begin : begin + PIECE]
            if size + len(part) > PIECE:
                yield piece
                piece, size = [], 0
            end = last if begin + len(part) == len(types) else first + begin + len(part) - 1
            piece.append(AckBatch(first + begin, end, part))
            size += len(part)
    if piece:
        yield piece


def _invalid(message: str) -> Refusal:
    return Refusal(errors.INVALID_REQUEST, message)


def _not_held(offset: int, why: str) -> Refusal:
    return Refusal(errors.INVALID_RECORD_STATE, f"offset {offset} can't be acknowledged: {why}")
