"""Verdicts as plain values for JSON. docs/use/http-api.md describes the fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.sources import Sources
from coordinator.read_only import GroupView
from verdicts.facts import PartitionFacts
from verdicts.findings import Finding
from verdicts.judge import Judgement
from verdicts.spelling import plain_host

FINDINGS_MAX = 32
"""The maximum number of findings about a group that are shown. Further findings are only counted.
"""

View = dict[str, Any]


def verdict_of(sources: Sources, hosted: HostedGroups, group: GroupView) -> View:
    """Returns the last verdict on a group, with its reasons and the time since which the verdict
    has applied."""
    held = sources.verdicts.of(hosted, group)
    return {
        "verdict": held.verdict,
        "verdict_since_ms": held.since_ms,
        "sentence": held.sentence,
    }


def findings_of(judgement: Judgement | None) -> View:
    """Returns all findings about a group, worst first. The list is empty for a deleted group."""
    if judgement is None:
        return {"findings": [], "more_findings": 0}
    shown = [_finding(each) for each in judgement.first(FINDINGS_MAX)]
    return {"findings": shown, "more_findings": len(judgement.marks) - len(shown)}


def _finding(finding: Finding) -> View:
    host = None if finding.host is None else plain_host(finding.host)
    return {**asdict(finding), "host": host}


def never_committed(judgement: Judgement) -> Iterator[tuple[PartitionFacts, View]]:
    """Yields each partition without a committed offset, and its row. This row has the same fields
    as the row of a partition with a committed offset."""
    for each in judgement.facts.partitions:
        if each.committed is None:
            yield (
                each,
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "offset": None,
                    "log_start_offset": each.log_start,
                    "log_end_offset": each.log_end,
                    "lag": None,
                    "lost_records": 0,
                    "lag_seconds": None,
                    "metadata": None,
                    "committed_ms": None,
                    "verdict": judgement.of_partition(each.topic, each.partition),
                },
            )
