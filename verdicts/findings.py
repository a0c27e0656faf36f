"""What a judge finds: a mark, which is quick to make, and the finding that people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from verdicts.facts import FencedFacts, PartitionFacts, RefusedFacts, ReturnFacts
from verdicts.names import Verdict


class Mark(NamedTuple):
    """A finding before it has words."""

    verdict: Verdict
    since_ms: int | None
    partitions: tuple[PartitionFacts, ...]
    """Those that it is about, the one to look at first in front."""
    member_id: str | None
    """Whom it is about."""
    returned: ReturnFacts | None = None
    """FLAPPING: the client. STALLED: the same, if it restarts again and again."""
    times: int = 0
    """FLAPPING: how often."""
    fenced: FencedFacts | None = None
    """FLAPPING: the processes that fence each other."""
    refused: tuple[RefusedFacts, ...] = ()
    """REFUSED: the clients that got the same error, the one that was refused last in front."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in words; the fields are those of /api (docs/use/http-api.md)."""

    verdict: Verdict
    since_ms: int | None
    """Since when, wall time; None where that is not known."""
    topic: str | None
    partition: int | None
    """The partition to look at first, where it is about partitions."""
    member: str | None
    instance: str | None
    client: str | None
    host: str | None
    sentence: str
    """What is wrong, since when, with whom."""
    advice: str
    """What to do; "" where nothing is to be done."""
    command: str | None
    """A command to copy, without --bootstrap."""
