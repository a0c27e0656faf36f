"""The results of the judge: marks, which are cheap to create, and findings, which users read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from verdicts.facts import FencedFacts, PartitionFacts, RefusedFacts, ReturnFacts
from verdicts.names import Verdict

if TYPE_CHECKING:
    from verdicts.share_rules import ExpiredFacts, RepeatedFacts


class Mark(NamedTuple):
    """A finding without its texts."""

    verdict: Verdict
    since_ms: int | None
    partitions: tuple[PartitionFacts, ...]
    """The affected partitions, first the partition that an operator should check first."""
    member_id: str | None
    """The id of the affected member."""
    returned: ReturnFacts | None = None
    """FLAPPING: the client that returns. STALLED: the client, if it restarts again and again."""
    times: int = 0
    """FLAPPING: the number of returns, fencings or rebalances."""
    fenced: FencedFacts | None = None
    """FLAPPING: the processes that fence each other."""
    refused: tuple[RefusedFacts, ...] = ()
    """REFUSED: the clients whose joins got the same error, the most recently rejected client first.
    """
    repeated: RepeatedFacts | None = None
    """STUCK_RECORD: the records of a share group."""
    expired: ExpiredFacts | None = None
    """LOCKS_EXPIRE: the member and its expired locks within the period of the rule."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a group, with the fields that /api returns (docs/use/http-api.md)."""

    verdict: Verdict
    since_ms: int | None
    """The start of the problem in wall milliseconds; None if unknown."""
    topic: str | None
    partition: int | None
    """The partition to check first, if partitions are affected."""
    member: str | None
    instance: str | None
    client: str | None
    host: str | None
    sentence: str
    """The problem, its start, and the affected members."""
    advice: str
    """The next step for an operator; "" if no step is needed."""
    command: str | None
    """A command to copy, without --bootstrap."""
