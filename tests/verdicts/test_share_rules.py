"""Tests of the verdicts of share groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdicts.groups import NOW_MS, ago, member
from verdicts.facts import STABLE, GroupFacts
from verdicts.judge import judge
from verdicts.names import Verdict
from verdicts.share_rules import ExpiredFacts, RepeatedFacts, ShareFacts
from verdicts.thresholds import Thresholds

REPEATED = RepeatedFacts("orders", 3, 120, 120, 4, 5, ago(90), "m1", "lock expired")
EXPIRED = ExpiredFacts("m1", [ago(200), ago(100), ago(70)], [1, 5, 2], 30_000)


def judged(share: ShareFacts | None, members: int = 1, **fields: Any) -> Any:
    facts = GroupFacts(
        "payments",
        STABLE,
        protocol_type="share",
        members=[member(f"m{number + 1}") for number in range(members)],
        share=share,
        **fields,
    )
    return judge(facts, Thresholds(), NOW_MS)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, Verdict.OK),
        (ShareFacts(0, 0, ago(900)), Verdict.OK),
        (ShareFacts(5, 0, ago(29)), Verdict.OK),
        (ShareFacts(5, 0, ago(30)), Verdict.STALLED),
        (ShareFacts(0, 5, ago(30)), Verdict.STALLED),
        (ShareFacts(0, 1, ago(1), [REPEATED]), Verdict.STUCK_RECORD),
        (ShareFacts(5, 1, ago(31), [REPEATED]), Verdict.STALLED),
        (ShareFacts(0, 1, ago(1), [], [EXPIRED]), Verdict.LOCKS_EXPIRE),
        (ShareFacts(0, 1, ago(1), [REPEATED], [EXPIRED]), Verdict.STUCK_RECORD),
        (ShareFacts(0, 1, ago(1), [], [EXPIRED._replace(member="gone")]), Verdict.OK),
        (
            ShareFacts(0, 1, ago(1), [], [EXPIRED._replace(at_ms=[ago(301), ago(100), ago(70)])]),
            Verdict.OK,
        ),
    ],
)
def test_expected_verdict_is_computed_from_facts_about_a_share_group(
    share: ShareFacts | None, expected: Verdict
) -> None:
    assert judged(share).verdict is expected


def test_share_group_without_members_is_not_stalled() -> None:
    assert judged(ShareFacts(5, 0, ago(900), [REPEATED]), members=0).verdict is Verdict.OK


def test_pause_of_the_broker_does_not_make_a_share_group_stalled() -> None:
    share = ShareFacts(5, 0, ago(900))
    assert judged(share, state_counts_from_ms=ago(10)).verdict is Verdict.OK


def test_finding_of_a_stalled_share_group_counts_waiting_and_acquired_records() -> None:
    worst = judged(ShareFacts(5, 1, ago(40)), members=2).worst
    assert worst.sentence == (
        "5 records wait and members hold 1 record; no record was accepted or rejected since"
        " 2026-11-22T12:04:51Z, although the group has 2 members"
    )
    assert worst.command == "muster share describe payments"


def test_finding_of_a_redelivered_record_has_the_member_and_result_of_its_last_delivery() -> None:
    [finding] = judged(ShareFacts(0, 1, ago(1), [REPEATED])).findings
    assert (finding.topic, finding.partition, finding.member) == ("orders", 3, "m1")
    assert finding.sentence == (
        "orders:3 offset 120 was delivered 4 times since 2026-11-22T12:04:01Z; the last delivery to"
        " m1 on 10.0.0.7 ended with: lock expired"
    )
    assert finding.command == "muster share why payments orders:3@120"


def test_finding_of_expired_acquisition_locks_names_the_member_and_counts_records() -> None:
    old = EXPIRED._replace(at_ms=[ago(900), *EXPIRED.at_ms], records=[7, *EXPIRED.records])
    [finding] = judged(ShareFacts(0, 1, ago(1), [], [old])).findings
    assert (finding.verdict, finding.member, finding.topic) == (Verdict.LOCKS_EXPIRE, "m1", None)
    assert finding.sentence == (
        "the locks of m1 on 10.0.0.7 have expired 3 times since 2026-11-22T12:02:11Z, the last time"
        " at 2026-11-22T12:04:21Z: the member did not acknowledge 8 records within 30.0 s, and"
        " they were delivered again or archived"
    )
    assert finding.advice.startswith("check that the member acknowledges the records")
    assert finding.command == "muster share why payments"
