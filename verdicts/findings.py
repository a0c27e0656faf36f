"""The results of the judge: marks, which are cheap to create, and findings, which have texts for
users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from verdicts.facts import FencedFacts, PartitionFacts, RefusedFacts, ReturnFacts
from verdicts.names import Verdict

if TYPE_CHECKING:
    from verdicts.share_rules import ExpiredFacts, RepeatedFacts


class Mark(NamedTuple):
    """A problem of a group, found by the judge. The texts about the problem are made later."""

    verdict: Verdict
    since_ms: int | None
    partitions: tuple[PartitionFacts, ...]
    """The affected partitions. The first one is the partition to check first."""
    member_id: str | None
    returned: ReturnFacts | None = None
    """For FLAPPING: the client that returns repeatedly. For STALLED: the client that restarts
    repeatedly, or None if the client does not restart."""
    times: int = 0
    """For FLAPPING, the number of events. The events are returns of a client if a client returns
    repeatedly, fencings if two processes fence each other, and otherwise rebalances."""
    fenced: FencedFacts | None = None
    """For FLAPPING, the processes that fence each other."""
    refused: tuple[RefusedFacts, ...] = ()
    """For REFUSED, the clients whose joins got the same error. The most recently rejected client is
    first."""
    repeated: RepeatedFacts | None = None
    """For STUCK_RECORD of a share group, the records that are delivered repeatedly."""
    expired: ExpiredFacts | None = None
    """For LOCKS_EXPIRE, the member and its locks that expired recently."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a group with its texts. The fields are those that /api returns
    (docs/use/http-api.md)."""

    verdict: Verdict
    since_ms: int | None
    """The wall time in ms at which the problem began, or None if it is unknown."""
    topic: str | None
    partition: int | None
    """The partition to check first, or None if no partition is affected."""
    member: str | None
    instance: str | None
    client: str | None
    host: str | None
    sentence: str
    """A sentence with the problem, the time at which it began, and the affected members."""
    advice: str
    """The next step for an operator; "" if no step is needed."""
    command: str | None
    """A command that a user can copy, without the option --bootstrap; None if no command helps."""
