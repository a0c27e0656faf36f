"""The results of the judge: a mark, which is cheap to make, and the finding that users read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from verdicts.facts import FencedFacts, PartitionFacts, RefusedFacts, ReturnFacts
from verdicts.names import Verdict


class Mark(NamedTuple):
    """A finding without its texts."""

    verdict: Verdict
    since_ms: int | None
    partitions: tuple[PartitionFacts, ...]
    """The affected partitions, the one to check first at the front."""
    member_id: str | None
    """The affected member."""
    returned: ReturnFacts | None = None
    """FLAPPING: the client. STALLED: the client, if it restarts again and again."""
    times: int = 0
    """FLAPPING: the number of times."""
    fenced: FencedFacts | None = None
    """FLAPPING: the processes that fence each other."""
    refused: tuple[RefusedFacts, ...] = ()
    """REFUSED: the clients that got the same error, the most recently rejected one first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, in words; the fields are those of /api (docs/use/http-api.md)."""

    verdict: Verdict
    since_ms: int | None
    """Wall time; None if unknown."""
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
    """The advice; "" for none."""
    command: str | None
    """A command to copy, without --bootstrap."""
