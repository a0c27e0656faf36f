"""Tests of the judge with a table: each row has facts and the expected verdict and sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.classic.member_restarts import Way
from tests.verdicts.groups import (
    NOW_MS,
    ago,
    at,
    empty,
    every_ten_seconds,
    hanging,
    held,
    held_elsewhere,
    joining,
    member,
    refused,
    returns,
    simple,
    stable,
)
from verdicts import flapping_words
from verdicts.facts import (
    AwaitedFacts,
    FencedFacts,
    GroupFacts,
    HoldFacts,
    MemberFacts,
    PartitionFacts,
    ReturnFacts,
    StreakFacts,
)
from verdicts.findings import Finding
from verdicts.judge import Judgement, judge
from verdicts.names import Verdict
from verdicts.share_rules import ExpiredFacts, ShareFacts
from verdicts.thresholds import Thresholds

TWO = (member(), member("m2", host="/10.0.0.8"))
CRASHED = member("m2", host="/10.0.0.8")._replace(
    is_heard=False, closed_for_ms=2_000, session_left_ms=8_000
)
RESTARTED = ReturnFacts(
    "m2",
    CRASHED.client,
    CRASHED.host,
    tuple(every_ten_seconds(16)),
    streak=StreakFacts(412, 1),
    ways=(("restarted", 412),),
)
FENCED = FencedFacts(
    "i-1", "m1", "a", "/10.0.0.7", "b", "/10.0.0.8", every_ten_seconds(16), StreakFacts(33, 1)
)
MEANWHILE = "while other partitions of orders advance; m1 on 10.0.0.7 owns the partition"


def judged(facts: GroupFacts, **thresholds: int) -> Judgement:
    return judge(facts, Thresholds(**thresholds), NOW_MS)


# fmt: off
TABLE = [
    # ---- OK
    ("all is read", stable(at(0, 9, 9), at(1, 4, 4)),
     "OK", "all records of 2 partitions are read"),
    ("all is read, and only counted", stable(all_read=12),
     "OK", "all records of 12 partitions are read"),
    ("an empty partition that nobody ever commits", stable(at(0, None, 0), at(1, 9, 9)),
     "OK", "all records of 2 partitions are read"),
    ("an empty partition that begins late", stable(at(0, None, 7, start=7)),
     "OK", "all records of 1 partition are read"),
    ("a few records to read", stable(at(0, 5, 9, moved=2, stands=2, oldest=3)),
     "OK", "4 unread records, none of them overdue"),
    ("idle for a day, then one record", stable(at(0, 9, 10, moved=86_400, commits=4, stands=3)),
     "OK", "1 unread record, not overdue"),
    ("a batch group that has read all", empty(at(0, 9, 9, moved=7200)),
     "OK", "all records of 1 partition are read; the group has no members"),
    ("a group that does nothing yet", stable(),
     "OK", "the group has not committed any offset yet"),
    ("a share group", empty(protocol_type="share"),
     "OK", "a share group, which has no committed offsets; the group has no members"),
    ("a topic that is not here", stable(PartitionFacts("gone", 0, 5)),
     "OK", "all records of 1 partition are read"),
    ("a topic that nobody subscribes any more",
     stable(at(0, 5, 9, moved=9000, stands=9000, oldest=9000, owner=None), at(0, 3, 3, topic="new"),
            subscribed={"new"}),
     "OK", "all records of 1 partition are read"),
    ("the same, of a client that does not say what it subscribes",
     stable(at(0, 5, 9, moved=9000, stands=9000, oldest=9000, owner=None),
            at(0, 3, 3, topic="new")),
     "OK", "all records of 1 partition are read"),

    # ---- outside the log
    ("above the end", stable(at(3, 60_000, 50_000, moved=60)),
     "OUT_OF_RANGE", "the committed offset of orders:3 is 60000, 10,000 records above its log end"
     " offset 50000; the offset was committed at 2026-11-22T12:04:31Z; m1 on 10.0.0.7 owns the"
     " partition"),
    ("below the start", stable(at(3, 10, 50_000, start=40_000, moved=1)),
     "OUT_OF_RANGE", "the committed offset of orders:3 is 10, below its log start offset 40000:"
     " 39,990 records were deleted before the group read them; m1 on 10.0.0.7 owns the partition"),
    ("below the start of a log that is empty by now", empty(at(0, 7, 8, start=8)),
     "OUT_OF_RANGE", "the committed offset of orders:0 is 7, below its log start offset 8: 1 record"
     " was deleted before the group read it"),

    # ---- blocked
    ("it heartbeats and does not rejoin", joining("m2", for_s=10, members=TWO),
     "BLOCKED", "a rebalance has been waiting for m2 on 10.0.0.8 since 2026-11-22T12:05:21Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member still heartbeats (last 1.6 s ago) but does"
     " not"
     " rejoin"),
    ("its process crashed", joining("m2", for_s=10, members=(member(), CRASHED)),
     "BLOCKED", "a rebalance has been waiting for m2 on 10.0.0.8 since 2026-11-22T12:05:21Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member's connection closed 2.0 s ago"),
    ("its process crashed once more",
     joining("m2", for_s=10, members=(member(), CRASHED))._replace(returns=[RESTARTED]),
     "BLOCKED", "a rebalance has been waiting for m2 on 10.0.0.8 since 2026-11-22T12:05:21Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member's connection closed 2.0 s ago; its client"
     " has"
     " restarted 412 times since 1970-01-01T00:00:00Z"),
    ("nobody reads meanwhile",
     joining("m2", for_s=60, members=TWO)._replace(partitions=[at(0, 5, 9, moved=90, stands=70)]),
     "BLOCKED", "a rebalance has been waiting for m2 on 10.0.0.8 since 2026-11-22T12:04:31Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member still heartbeats (last 1.6 s ago) but does"
     " not"
     " rejoin; no member of the group has read since 2026-11-22T12:04:21Z"),
    ("a silent static one",
     joining("m2", for_s=20, members=(member(), member("m2", silent_s=30, instance="i-2"))),
     "BLOCKED", "a rebalance has been waiting for i-2 (m2) on 10.0.0.7 since 2026-11-22T12:05:11Z"
     " (until 2026-11-22T12:06:21Z at the latest): the member has sent no heartbeat for 30.0 s"),
    ("an id that was given out and not used", joining("m7", for_s=20, members=TWO),
     "BLOCKED", "a rebalance has been waiting for m7 since 2026-11-22T12:05:11Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member received its member id but has not joined"
     " with that id"),
    ("two", joining("m1", "m2", for_s=20, members=TWO),
     "BLOCKED", "a rebalance has been waiting for m1 on 10.0.0.7 since 2026-11-22T12:05:11Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member still heartbeats (last 1.6 s ago) but does"
     " not"
     " rejoin (one of 2 awaited members)"),
    ("its assignment is not fetched", joining("m2", for_s=20, members=TWO, phase="sync"),
     "BLOCKED", "a rebalance has been waiting for m2 on 10.0.0.8 since 2026-11-22T12:05:11Z (until"
     " 2026-11-22T12:06:21Z at the latest): the member still heartbeats (last 1.6 s ago) but does"
     " not"
     " sync"),
    ("as long as any rebalance", joining("m2", for_s=9.9, members=TWO),
     "OK", "the group has not committed any offset yet"),
    ("the first members of a group", joining("m2", for_s=60, members=TWO, phase="initial delay"),
     "OK", "the group has not committed any offset yet"),

    # ---- not ready
    ("for 10 s", stable()._replace(state="NotReady", state_since_ms=ago(10)),
     "NOT_READY", "no instance has had a task since 2026-11-22T12:05:21Z: a topic of the"
     " application is missing, although the group has 1 member"),

    # ---- held back
    ("by a transaction", stable(at(0, 120, 124, moved=60, stands=41, hold=held())),
     "HELD_BACK", "orders:0 is blocked at offset 120 by transaction 'billing-1' (producer 4001,"
     " epoch 3) of client 'app' on 10.0.0.9, open since 2026-11-22T12:04:49Z; 4 records wait for"
     " the end of the transaction; m1 on 10.0.0.7 owns the partition"),
    ("in two partitions", stable(at(0, 120, 124, stands=41, hold=held()),
                                 at(1, 7, 9, stands=35, hold=held(offset=7))),
     "HELD_BACK", "orders:0-1 are blocked (orders:0 at offset 120) by transaction 'billing-1'"
     " (producer 4001, epoch 3) of client 'app' on 10.0.0.9, open since 2026-11-22T12:04:49Z; 6"
     " records wait for the end of the transaction; m1 on 10.0.0.7 owns the partitions"),
    ("by one that hangs", stable(at(0, 120, 121, stands=80, hold=hanging())),
     "HELD_BACK", "orders:0 is blocked at offset 120 by a hanging transaction of producer 4001,"
     " epoch 3 (no transactional id owns it), open since 2026-11-22T12:04:01Z; 1 record waits for"
     " the end of the transaction; m1 on 10.0.0.7 owns the partition"),
    ("by one of another coordinator", stable(at(0, 120, 121, stands=80, hold=held_elsewhere())),
     "HELD_BACK", "orders:0 is blocked at offset 120 by a transaction of producer 4001, epoch 3"
     " (another broker may coordinate its transactional id), open since 2026-11-22T12:04:01Z; 1"
     " record waits for the end of the transaction; m1 on 10.0.0.7 owns the partition"),
    ("not for so long yet", stable(at(0, 120, 124, stands=29, hold=held())),
     "OK", "4 unread records, none of them overdue"),
    ("it has stood for long, and the transaction is young",
     stable(at(0, 120, 124, stands=600, oldest=600, hold=held(open_s=5))),
     "OK", "4 unread records, none of them overdue"),
    ("nobody is there to wait", empty(at(0, 120, 124, moved=600, stands=600, hold=held())),
     "ABANDONED", "the group has no members, and 4 unread records have waited in orders:0 since"
     " 2026-11-22T11:55:31Z"),

    # ---- refused
    ("a client that can't join", stable(at(0, 9, 9), refused=[refused()]),
     "REFUSED", "client 'late' on 10.0.0.9 has been refused 7 times since 2026-11-22T12:04:31Z with"
     " INVALID_SESSION_TIMEOUT: session.timeout.ms is 100, but the broker accepts 6000 to 1800000"),
    ("many with the same error",
     stable(at(0, 9, 9), refused=[refused(30, 1, host="/10.0.0.8"), refused(5, 2)]),
     "REFUSED", "2 clients, the last of them client 'late' on 10.0.0.9, have been refused 3 times"
     " since 2026-11-22T12:04:06Z with INVALID_SESSION_TIMEOUT: session.timeout.ms is 100, but the"
     " broker accepts 6000 to 1800000"),
    ("its last attempt is long ago", stable(at(0, 9, 9), refused=[refused(601)]),
     "OK", "all records of 1 partition are read"),
    ("nobody is in the group, since nobody could join",
     empty(at(0, 5, 9, stands=600, oldest=600, moved=600), refused=[refused(times=1)]),
     "REFUSED", "client 'late' on 10.0.0.9 has been refused 1 time since 2026-11-22T12:04:31Z with"
     " INVALID_SESSION_TIMEOUT: session.timeout.ms is 100, but the broker accepts 6000 to 1800000"),

    # ---- stalled
    ("no progress", stable(at(0, 5, 9, moved=40, stands=30)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:05:01Z; m1 on 10.0.0.7 owns the partition; the member is alive (last"
     " heartbeat 1.6 s"
     " ago)"),
    ("not so long yet", stable(at(0, 5, 9, moved=40, stands=29.9)),
     "OK", "4 unread records, none of them overdue"),
    ("it keeps committing the same offset", stable(at(0, 5, 9, moved=40, stands=30, commits=2)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:05:01Z; m1 on 10.0.0.7 owns the partition; the member keeps committing the"
     " same offset"),
    ("a silent member", stable(at(0, 5, 9, stands=40), members=(member(silent_s=38),)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:04:51Z; m1 on 10.0.0.7 owns the partition; the member has sent no heartbeat"
     " for"
     " 38.0 s, and its session expires in 7.0 s"),
    ("silent, with a long session timeout",
     stable(at(0, 5, 9, stands=40), members=(member(silent_s=16, session_timeout_ms=600_000),)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:04:51Z; m1 on 10.0.0.7 owns the partition; the member has sent no heartbeat"
     " for"
     " 16.0 s, and its session expires in 10 min"),
    ("never a commit", stable(at(0, None, 9, stands=31), at(1, 3, 3)),
     "STALLED", "9 unread records wait in orders:0; the partition has had unread records since"
     " 2026-11-22T12:05:00Z and has no committed offset; m1 on 10.0.0.7 owns the partition; the"
     " member is alive (last heartbeat 1.6 s ago)"),
    ("never a commit anywhere, of records of before",
     stable(at(0, None, 9, stands=31, has_grown=False)),
     "STALLED", "9 unread records wait in orders:0; the partition has had unread records since"
     " 2026-11-22T12:05:00Z and has no committed offset; m1 on 10.0.0.7 owns the partition; the"
     " member is alive (last heartbeat 1.6 s ago)"),
    ("it may have begun at the end", stable(at(0, None, 9, stands=99, has_grown=False),
                                            at(1, 3, 3, moved=9)),
     "OK", "9 unread records, none of them overdue"),
    ("all that it owns",
     stable(at(0, 5, 9, stands=31), at(2, 1, 2, stands=44), at(1, 5, 9, stands=31)),
     "STALLED", "9 unread records wait in orders:0-2; orders:2 has been stuck at offset 1 since"
     " 2026-11-22T12:04:47Z; m1 on 10.0.0.7 owns the partitions; the member is alive (last"
     " heartbeat 1.6"
     " s ago)"),
    ("of two members one",
     stable(at(0, 5, 9, stands=31, moved=40), at(1, 9, 9, moved=1, owner="m2"), members=TWO),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:05:00Z; m1 on 10.0.0.7 owns the partition; the member is alive (last"
     " heartbeat 1.6 s"
     " ago)"),
    ("a new owner has its time", stable(at(0, 5, 9, stands=900), state_since_ms=ago(29)),
     "OK", "4 unread records, none of them overdue"),
    ("while it rebalances", joining("m2", for_s=1, members=TWO)._replace(
        partitions=[at(0, 5, 9, stands=900)]),
     "OK", "4 unread records, none of them overdue"),
    ("a client that assigns to itself and goes on committing",
     simple(at(0, 5, 9, moved=90, stands=90, commits=4)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:04:01Z, though a client that is not a member keeps committing"),

    # ---- stuck records
    ("its neighbour of the same member moves",
     stable(at(0, 5, 9, stands=31, moved=40), at(1, 9, 9, moved=5)),
     "STUCK_RECORD", f"orders:0"
     " has been stuck at offset 5 since 2026-11-22T12:05:00Z with 4 unread records,"
     f" {MEANWHILE}"),
    ("a neighbour that has newer records to read",
     stable(at(0, 5, 9, stands=31, moved=40), at(1, 7, 9, moved=5, stands=1, oldest=3)),
     "STUCK_RECORD", f"orders:0"
     " has been stuck at offset 5 since 2026-11-22T12:05:00Z with 4 unread records,"
     f" {MEANWHILE}"),
    ("its only one, committed again and again, while others' move",
     stable(at(0, 5, 9, stands=31, moved=40, commits=3), at(1, 9, 9, moved=5, owner="m2"),
            members=TWO),
     "STUCK_RECORD", f"orders:0"
     " has been stuck at offset 5 since 2026-11-22T12:05:00Z with 4 unread records,"
     f" {MEANWHILE}"),
    ("a neighbour that has long been idle tells nothing",
     stable(at(0, 5, 9, stands=31, moved=40), at(1, 9, 9, moved=50, commits=2)),
     "STALLED", "4 unread records wait in orders:0; the partition has been stuck at offset 5 since"
     " 2026-11-22T12:05:00Z; m1 on 10.0.0.7 owns the partition; the member is alive (last"
     " heartbeat 1.6 s"
     " ago)"),
    ("a backlog that is read partition by partition",
     stable(at(0, 5, 9, stands=58, moved=59, oldest=59), at(1, 5, 900, moved=5, oldest=59)),
     "OK", "899 unread records, none of them overdue"),
    ("the same of clients that assign to themselves",
     simple(at(0, 5, 9, stands=40, moved=41), at(1, 9, 9, moved=5)),
     "STUCK_RECORD", "orders:0 has been stuck at offset 5 since 2026-11-22T12:04:51Z with 4 unread"
     " records, while other partitions of orders advance"),
    ("somebody set offsets by hand",
     simple(at(0, 5, 9, stands=40, moved=40), at(1, 9, 9, moved=35)),
     "OK", "4 unread records, none of them overdue; the group has no members"),

    # ---- locks of share groups
    ("its locks expire", stable(share=ShareFacts(0, 1, ago(1), (), [
        ExpiredFacts("m1", [ago(90), ago(60), ago(30)], [1, 1, 1], 30_000)])),
     "LOCKS_EXPIRE", "the locks of m1 on 10.0.0.7 have expired 3 times since 2026-11-22T12:04:01Z,"
     " the last time at 2026-11-22T12:05:01Z: the member did not acknowledge 3 records within"
     " 30.0 s, and they were delivered again or archived"),
    # ---- flapping
    ("under a new id", stable(at(0, 9, 9), returns=[returns(3)]),
     "FLAPPING", "the client of m9 on 10.0.0.7 has restarted 3 times since 2026-11-22T12:05:01Z,"
     " each time with a new member id"),
    ("it left each time", stable(returns=[returns(4, ways=(("left", 4),))]),
     "FLAPPING", "the client of m9 on 10.0.0.7 has left and rejoined 4 times since"
     " 2026-11-22T12:04:51Z, each time with a new member id"),
    ("it polled too late", stable(returns=[returns(4, ways=(("poll_timed_out", 4),))]),
     "FLAPPING", "the client of m9 on 10.0.0.7 has left (its poll timeout expired) and rejoined 4"
     " times since 2026-11-22T12:04:51Z, each time with a new member id"),
    ("it paused", stable(returns=[returns(4, ways=(("session_expired", 4),))]),
     "FLAPPING", "the client of m9 on 10.0.0.7 was removed (session expired) and rejoined 4 times"
     " since 2026-11-22T12:04:51Z, each time with a new member id"),
    ("it never synced", stable(returns=[returns(4, ways=(("sync_timed_out", 4),))]),
     "FLAPPING", "the client of m9 on 10.0.0.7 was removed (it sent no SyncGroup in time) and"
     " rejoined 4 times since 2026-11-22T12:04:51Z, each time with a new member id"),
    ("it left and crashed", stable(returns=[returns(4, ways=(("left", 1), ("restarted", 3)))]),
     "FLAPPING", "the client of m9 on 10.0.0.7 has rejoined 4 times since 2026-11-22T12:04:51Z,"
     " each time with a new member id: 3 times its connection had closed, 1 time it had left"),
    ("nobody wrote down how", stable(returns=[returns(4, ways=())]),
     "FLAPPING", "the client of m9 on 10.0.0.7 has left and rejoined 4 times since"
     " 2026-11-22T12:04:51Z, each time with a new member id"),
    ("more often than is kept, and it crashed again",
     stable(returns=[RESTARTED], members=(member(), CRASHED)),
     "FLAPPING", "the client of m2 on 10.0.0.8 has restarted 412 times since 1970-01-01T00:00:00Z,"
     " each time with a new member id; its connection closed 2.0 s ago"),
    ("the whole group, more often than is kept",
     stable(rebalances_ms=every_ten_seconds(8), rebalances_streak=StreakFacts(777, 1)),
     "FLAPPING", "the group has rebalanced 777 times since 1970-01-01T00:00:00Z"),
    ("with other topics",
     stable(returns=[returns(3, has_new_id=False, why="changed its subscription: added a")]),
     "FLAPPING", "m9 on 10.0.0.7 has rejoined 3 times since 2026-11-22T12:05:01Z; the last time,"
     " the member"
     " changed its subscription: added a"),
    ("two processes fence each other", stable(fenced=[FENCED]),
     "FLAPPING", "group.instance.id 'i-1' is used by two processes, client 'a' on 10.0.0.7 and"
     " client 'b' on 10.0.0.8: they have fenced each other 33 times since 1970-01-01T00:00:00Z"),
    ("two processes, long ago", stable(fenced=[FENCED._replace(at_ms=(1, 2, 3))]),
     "OK", "the group has not committed any offset yet"),
    ("twice is a restart", stable(returns=[returns(2)]), "OK", "the group has not committed any"
    " offset yet"),
    ("six that look alike, restarted together twice", stable(returns=[returns(2)] * 6, members=[
        member(f"m{each}") for each in range(4, 10)]),
     "OK", "the group has not committed any offset yet"),
    ("one of two that look alike", stable(returns=[returns(3)], members=(member(), member("m9"))),
     "FLAPPING", "the client of m9 on 10.0.0.7 has restarted 3 times since 2026-11-22T12:05:01Z,"
     " each time with a new member id (2 members share client id 'app')"),
    ("a static one that its session does not outlive",
     stable(returns=[returns(4, instance="i-9", away_ms=2000)]),
     "FLAPPING", "static member i-9 (m9) on 10.0.0.7 has restarted 4 times since"
     " 2026-11-22T12:04:51Z, each time after its session had expired, the last time 2.0 s after the"
     " expiry"),
    ("a static one that restarts within its session",
     stable(returns=[returns(4, instance="i-9", ways=(("restarted_in_session", 4),))]),
     "FLAPPING", "static member i-9 (m9) on 10.0.0.7 has restarted 4 times since"
     " 2026-11-22T12:04:51Z"),
    ("a static one that restarts, and its connection has closed again",
     stable(returns=[returns(4, instance="i-9", away_ms=2000,
                             ways=(("restarted_in_session", 3), ("restarted", 1)))],
            members=(member("m9", instance="i-9", closed_for_ms=700),)),
     "FLAPPING", "static member i-9 (m9) on 10.0.0.7 has restarted 4 times since"
     " 2026-11-22T12:04:51Z: 3 times it had restarted before its session expired, 1 time"
     " its connection had closed; its connection closed 0.7 s ago"),
    ("a static one that pauses",
     stable(returns=[returns(4, instance="i-9", away_ms=0, ways=(("session_expired", 4),))]),
     "FLAPPING", "static member i-9 (m9) on 10.0.0.7 was removed (session expired) and rejoined 4"
     " times since 2026-11-22T12:04:51Z"),
    ("the ids that its crashes leave behind do not count", stable(returns=[returns(3)], members=(
        member(), member("m2")._replace(closed_for_ms=9_000))),
     "FLAPPING", "the client of m9 on 10.0.0.7 has restarted 3 times since 2026-11-22T12:05:01Z,"
     " each time with a new member id"),
    ("long ago", stable(returns=[ReturnFacts("m9", "app", "/h", (1, 2, 3))]),
     "OK", "the group has not committed any offset yet"),
    ("the whole group",
     stable(rebalances_ms=every_ten_seconds(8), last_why="m3 from /10.0.0.7 left"),
     "FLAPPING", "the group has rebalanced 8 times since 2026-11-22T12:04:11Z; last cause: m3 from"
     " /10.0.0.7 left"),
    ("a few rebalances", stable(rebalances_ms=every_ten_seconds(7)),
     "OK", "the group has not committed any offset yet"),

    # ---- abandoned
    ("nobody reads", empty(at(0, 5, 9, moved=200, stands=100), at(1, 0, 9000, stands=90)),
     "ABANDONED", "the group has no members, and 9,004 unread records have waited in orders:0-1"
     " since 2026-11-22T12:03:51Z"),
    ("its members have just left", empty(at(0, 5, 9, moved=200, stands=100), for_s=59),
     "OK", "4 unread records, none of them overdue; the group has no members"),
    ("its offsets have just been set", empty(at(0, 5, 9, moved=59, stands=59)),
     "OK", "4 unread records, none of them overdue; the group has no members"),
    ("records have just come", empty(at(0, 5, 9, moved=9000, stands=59)),
     "OK", "4 unread records, none of them overdue; the group has no members"),
    ("clients that assign to themselves and read", simple(at(0, 5, 9, moved=20, stands=20)),
     "OK", "4 unread records, none of them overdue; the group has no members"),
    ("clients that assigned to themselves", simple(at(0, 5, 9, moved=100, stands=100)),
     "ABANDONED", "the group has no members, and 4 unread records have waited in orders:0 since"
     " 2026-11-22T12:03:51Z"),
    ("by one look over the wire, its members may just have left", empty(at(0, 5, 9), for_s=None),
     "OK", "4 unread records, none of them overdue; the group has no members"),
    ("by one look over the wire, of old records", empty(at(0, 5, 9, oldest=600), for_s=None),
     "LAGGING", "orders:0 has a lag of 4 records; the oldest is from 2026-11-22T11:55:31Z; the"
     " group has no members"),
    ("by one look, of a client that may be there", empty(at(0, 5, 9), for_s=None,
                                                         protocol_type=""),
     "OK", "4 unread records, none of them overdue; the group has no members"),

    # ---- lagging
    ("old records", stable(at(0, 5, 9, moved=1, stands=1, oldest=61),
                           at(1, 5, 9, moved=1, stands=1, oldest=661)),
     "LAGGING", "orders:0-1 have a lag of 8 records; the oldest is from 2026-11-22T11:54:30Z, in"
     " orders:1; m1 on 10.0.0.7 owns the partitions"),
    ("one partition", stable(at(0, 5, 9, moved=1, stands=1, oldest=61)),
     "LAGGING", "orders:0 has a lag of 4 records; the oldest is from 2026-11-22T12:04:30Z; m1 on"
     " 10.0.0.7 owns the partition"),
    ("a minute old", stable(at(0, 5, 9, moved=1, stands=1, oldest=60)),
     "OK", "4 unread records, none of them overdue"),
    ("a subscribed partition that nobody owns",
     stable(at(0, 5, 9, oldest=61, stands=61, owner=None), at(1, 9, 9), subscribed={"orders"}),
     "LAGGING", "orders:0 has a lag of 4 records; the oldest is from 2026-11-22T12:04:30Z"),
    ("members whose assignment can't be read",
     stable(at(0, 5, 9, oldest=61, stands=61, owner=None)),
     "LAGGING", "orders:0 has a lag of 4 records; the oldest is from 2026-11-22T12:04:30Z"),
    ("its members have just left", empty(at(0, 5, 9, moved=20, stands=100, oldest=100), for_s=5),
     "LAGGING", "orders:0 has a lag of 4 records; the oldest is from 2026-11-22T12:03:51Z; the"
     " group has no members"),
    ("of a backlog", stable(at(0, 5, 9, stands=70, moved=71, oldest=99),
                            at(1, 5, 900, moved=5, oldest=99)),
     "LAGGING", "orders:0-1 have a lag of 899 records; the oldest is from 2026-11-22T12:03:52Z, in"
     " orders:0; m1 on 10.0.0.7 owns the partitions"),
]
# fmt: on


@pytest.mark.parametrize(
    ("facts", "verdict", "sentence"),
    [row[1:] for row in TABLE],
    ids=[f"{row[2]}: {row[0]}" for row in TABLE],
)
def test_facts_about_a_group_produce_the_expected_verdict_and_sentence(
    facts: GroupFacts, verdict: str, sentence: str
) -> None:
    judgement = judged(facts)

    assert (judgement.verdict, judgement.worst.sentence) == (verdict, sentence)


def test_table_of_test_cases_contains_every_verdict() -> None:
    assert {row[2] for row in TABLE} == set(Verdict)


# ---------------------------------------------------------------------------- advice and commands

COMMANDS = [
    (stable(at(3, 60_000, 50_000)), "muster groups reset billing --topic orders:3 --to-earliest"),
    (empty(at(3, 1, 9, start=5)), "muster groups reset billing --topic orders:3 --to-earliest"),
    (joining("m2", for_s=10, members=TWO), "muster groups evict billing m2"),
    (
        joining("m2", for_s=10, members=(member("m2", instance="a b"),)),
        "muster groups evict billing --instance='a b'",
    ),
    (joining("m7", for_s=20, members=TWO), "muster groups why billing"),
    (stable(at(0, 5, 9, stands=31)), "muster groups evict billing m1"),
    (
        stable(at(0, 5, 9, stands=31, moved=40), at(1, 9, 9, moved=5)),
        "muster consume orders:0 --offset 5 --max 1",
    ),
    (stable(returns=[returns(3)]), "muster groups why billing"),
    (empty(at(0, 5, 9, stands=100)), "muster groups why billing"),
    (stable(at(0, 5, 9, moved=1, oldest=61)), "muster groups lag billing"),
    (stable(), None),
    (
        stable(at(0, 5, 9, moved=1, oldest=61))._replace(group="it's; rm"),
        """muster groups lag 'it'"'"'s; rm'""",
    ),
    (
        stable(at(0, 5, 9, moved=1, oldest=61))._replace(group="it's\u202e \\ \n"),
        r"muster groups lag $'it\'s\xe2\x80\xae \\ \x0a'",
    ),
    (
        joining("m2", for_s=10, members=TWO)._replace(group="-all"),
        "muster groups evict -- -all m2",
    ),
]


@pytest.mark.parametrize(
    ("silent_s", "advice"),
    [
        (2, "the member heartbeats but does not poll: take a thread dump; evict the member"),
        (30, "check whether the member's process is running and reaches the broker; evict"),
    ],
)
def test_advice_mentions_polling_only_for_a_member_that_heartbeats(
    silent_s: float, advice: str
) -> None:
    facts = joining("m2", for_s=20, members=(member(), member("m2", silent_s=silent_s)))

    assert (judged(facts).worst.advice or "").startswith(advice)


@pytest.mark.parametrize(("facts", "command"), COMMANDS)
def test_finding_has_the_expected_command(facts: GroupFacts, command: str | None) -> None:
    worst = judged(facts).worst

    assert worst.command == command
    assert bool(worst.advice) == (command is not None)


def test_advice_to_stop_all_consumers_is_given_only_when_the_group_has_members() -> None:
    outside = at(3, 60_000, 50_000)

    assert "stop all" not in judged(empty(outside)).worst.advice
    advice = judged(stable(outside)).worst.advice
    assert advice.endswith("stop all consumers of the group before a reset")


def test_advice_to_skip_a_stuck_record_names_the_offset_to_commit() -> None:
    facts = stable(at(0, 20, 24, stands=31, moved=40), at(1, 9, 9, moved=5))
    assert judged(facts).worst.advice == (
        "read the record at offset 20: the consumer probably can't process it; fix the consumer, or"
        " skip the record: commit offset 21; stop all consumers of the group before a reset"
    )


@pytest.mark.parametrize("host", ["10.0.0.7", "/10.0.0.7", "node-7/10.0.0.7"])
def test_host_is_shown_as_an_ip_address_for_each_form_of_a_client_host(host: str) -> None:
    facts = stable(at(0, 5, 9, stands=40), members=(member(host=host),))
    assert "m1 on 10.0.0.7 owns the partition" in judged(facts).worst.sentence


def test_worst_finding_has_member_client_host_partition_and_start_time() -> None:
    worst = judged(stable(at(0, 5, 9, stands=31))).worst

    assert (worst.member, worst.client, worst.host) == ("m1", "app", "/10.0.0.7")
    assert (worst.topic, worst.partition, worst.since_ms) == ("orders", 0, ago(31))


# ------------------------------------------------------------------------------- several findings


def test_findings_are_sorted_by_severity_and_every_partition_has_a_verdict() -> None:
    judgement = judged(
        stable(
            at(0, 5, 9, moved=1, oldest=61),
            at(1, 9, 9),
            at(2, 10, 9),
            at(3, 1, 50, start=49),
            at(4, 5, 9, stands=31, owner="m2"),
            returns=[returns(3)],
            members=TWO,
        )
    )

    assert [finding.verdict for finding in judgement.findings] == [
        "OUT_OF_RANGE",
        "OUT_OF_RANGE",
        "STALLED",
        "FLAPPING",
        "LAGGING",
    ]
    assert [judgement.of_partition("orders", each) for each in range(6)] == [
        "LAGGING",
        "OK",
        "OUT_OF_RANGE",
        "OUT_OF_RANGE",
        "STALLED",
        "OK",
    ]
    assert judgement.worst.partition == 3, "48 records are lost in it"
    assert len(list(judgement.first(2))) == 2


def test_advancing_offset_above_the_log_end_does_not_hide_a_stalled_partition() -> None:
    judgement = judged(stable(at(0, 5, 9, stands=40, moved=40), at(1, 10, 9, moved=5)))

    assert judgement.of_partition("orders", 0) is Verdict.STALLED


def test_verdict_depends_on_the_configured_thresholds() -> None:
    slow = stable(at(0, 5, 9, stands=90, moved=95, oldest=90))

    assert judged(slow).verdict is Verdict.STALLED
    assert judged(slow, stalled_ms=100_000, stuck_record_ms=100_000).verdict is Verdict.LAGGING
    assert judged(slow, stalled_ms=100_000, lagging_ms=100_000).verdict is Verdict.OK


# ----------------------------------------------------------------------------------- random facts

NUMBERS = st.none() | st.integers(-5, 50) | st.integers(-(2**63), 2**63 - 1)
TIMES = st.none() | st.integers(NOW_MS - 400_000, NOW_MS + 5000) | st.integers(-(2**63), 2**63 - 1)
IDS = st.sampled_from(["m1", "m2", "m3", "", "-x", "a b"])
NAMES = st.none() | st.text(max_size=3)
PHASES = st.sampled_from(["join", "sync", "initial delay", "coalescing", ""])
STATES = st.sampled_from(["Stable", "Empty", "Dead", "PreparingRebalance", "Assigning", ""])
HOLDS = st.builds(
    HoldFacts,
    st.none() | IDS,
    st.integers(0),
    st.integers(0, 32767),
    st.integers(0),
    TIMES.filter(bool),
    TIMES,
    NAMES,
    NAMES,
)
FACTS = st.builds(
    GroupFacts,
    group=st.text(max_size=5),
    state=STATES,
    state_since_ms=TIMES,
    protocol_type=st.sampled_from([None, "", "consumer", "connect"]),
    members=st.lists(
        st.builds(MemberFacts, IDS, NAMES, NAMES, NAMES, NUMBERS, NUMBERS), max_size=4
    ),
    partitions=st.lists(
        st.builds(
            PartitionFacts,
            st.sampled_from(["orders", "payments"]),
            st.integers(0, 3),
            *[NUMBERS] * 3,
            *[TIMES] * 4,
            st.none() | IDS,
            st.booleans(),
            st.none() | HOLDS,
        ),
        max_size=8,
        unique_by=lambda each: each[:2],
    ),
    subscribed=st.none() | st.sets(st.sampled_from(["orders", "payments"])),
    awaits=st.none() | st.builds(AwaitedFacts, PHASES, TIMES, st.lists(IDS).map(tuple)),
    returns=st.none()
    | st.lists(
        st.builds(ReturnFacts, IDS, NAMES, NAMES, st.lists(TIMES.filter(bool)).map(tuple)),
        max_size=3,
    ),
    fenced=st.none()
    | st.lists(
        st.builds(FencedFacts, IDS, IDS, *[NAMES] * 4, st.lists(TIMES.filter(bool)).map(tuple)),
        max_size=2,
    ),
    rebalances_ms=st.none() | st.lists(st.integers(NOW_MS - 400_000, NOW_MS), max_size=12),
    last_why=NAMES,
)


@settings(max_examples=300, deadline=None)
@given(FACTS)
def test_findings_about_a_group_with_random_facts_are_consistent_with_its_verdict(
    facts: GroupFacts,
) -> None:
    judgement = judged(facts)
    findings = judgement.findings

    ranks = [finding.verdict.rank for finding in findings]
    assert ranks == sorted(ranks)
    assert Verdict.OK not in [finding.verdict for finding in findings]
    assert judgement.worst.verdict is judgement.verdict
    assert (judgement.verdict is Verdict.OK) == (not findings)
    assert judgement.worst == (findings[0] if findings else judgement.worst)
    for finding in [*findings, judgement.worst]:
        check_words(finding)
    for each in facts.partitions:
        of_partition = judgement.of_partition(each.topic, each.partition)
        assert of_partition.rank >= judgement.verdict.rank
        outside = each.lost or each.above
        assert (of_partition is Verdict.OUT_OF_RANGE) == bool(outside)


def check_words(finding: Finding) -> None:
    assert finding.sentence
    assert "None" not in finding.sentence
    assert "  " not in finding.advice
    assert bool(finding.command) == (finding.verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way.RESTARTED, "why its process exits"),
        (Way.RESTARTED_IN_SESSION, "why its process exits"),
        (Way.LEFT, "max.poll.interval.ms (raise this setting, or lower max.poll.records)"),
        (Way.POLL_TIMED_OUT, "lower max.poll.records"),
        (Way.SESSION_EXPIRED, "raise session.timeout.ms above the length of the pauses"),
        (Way.SYNC_TIMED_OUT, "does not send SyncGroup: take a thread dump"),
        (Way.JOIN_TIMED_OUT, "does not rejoin: processing the records of one poll takes longer"),
        (Way.REMOVED, "why the coordinator removes the member"),
    ],
)
def test_advice_about_a_restarted_client_depends_on_the_cause_of_the_restart(
    way: Way, words: str
) -> None:
    worst = judged(stable(returns=[returns(4, ways=((way.value, 4),))])).worst
    assert words in worst.advice
    assert ("why its process exits" in worst.advice) == way.startswith("restarted")


def test_advice_about_many_rebalances_names_max_poll_interval() -> None:
    """When max.poll.interval.ms is exceeded, librdkafka leaves the group without a reason. It
    rejoins too late to be recognized as the same client."""
    worst = judged(stable(rebalances_ms=every_ten_seconds(8))).worst
    assert "max.poll.interval.ms: raise this setting, or lower max.poll.records" in worst.advice
    assert "group.instance.id" in worst.advice


def test_advice_about_a_restarting_static_member_is_a_longer_session_timeout() -> None:
    static = member("m9", instance="i-9", session_timeout_ms=3000)
    returned = returns(4, instance="i-9", away_ms=2000)
    worst = judged(stable(returns=[returned], members=[static])).worst
    assert "raise session.timeout.ms, now 3.0 s, above the duration of" in worst.advice
    for way in Way:
        again = returned._replace(ways=((way.value, 4),))
        worst = judged(stable(returns=[again], members=[static])).worst
        assert "group.instance.id" not in worst.advice, "it has one"


@pytest.mark.parametrize("closed_for_ms", [None, 700])
def test_advice_about_a_crashing_static_member_does_not_recommend_eviction(
    closed_for_ms: int | None,
) -> None:
    static = member("m9", silent_s=0.2, instance="i-9", closed_for_ms=closed_for_ms)
    crashing = returns(4, instance="i-9", ways=(("restarted_in_session", 4),))
    crashing = crashing._replace(streak=StreakFacts(91, ago(390)))
    facts = stable(at(0, None, 499, stands=390, owner="m9"), members=[static])
    stalled, flapping = judged(facts._replace(returns=[crashing])).findings
    assert (stalled.verdict, flapping.verdict) == (Verdict.STALLED, Verdict.FLAPPING)
    assert stalled.sentence.endswith("its client has restarted 91 times since 2026-11-22T11:59:01Z")
    assert (
        stalled.advice
        == flapping.advice
        == "check the client's log for the reason why its process exits"
    )
    assert stalled.command == "muster groups why billing"
    assert "no member of the group has read since 2026-11-22T11:59:01Z" in flapping.sentence
    long_ago = crashing._replace(at_ms=(1, 2, 3))
    (stalled,) = judged(facts._replace(returns=[long_ago])).findings
    assert "evict the member" in stalled.advice or closed_for_ms is not None


def test_broker_pause_delays_verdict_blocked_but_does_not_change_its_start_time() -> None:
    """The broker was paused, so ``state_counts_from_ms`` is later than the start of the rebalance.
    The finding still names the start."""
    waiting = joining("m2", for_s=25, members=TWO)
    assert judged(waiting._replace(state_counts_from_ms=ago(9.9))).verdict is Verdict.OK
    worst = judged(waiting._replace(state_counts_from_ms=ago(10))).worst
    assert (worst.verdict, worst.since_ms) == (Verdict.BLOCKED, ago(25))


def test_each_cause_of_a_restart_has_text_for_every_sentence_about_flapping() -> None:
    every = {each.value for each in Way}
    assert every == {*flapping_words._DOES} == {*flapping_words._BEFORE} == {*flapping_words._HELPS}


def test_advice_about_a_closed_connection_names_a_crash_and_the_command_groups_why() -> None:
    for facts in (
        joining("m2", for_s=10, members=(member(), CRASHED)),
        stable(at(0, 5, 9, stands=31, owner="m2"), members=(member(), CRASHED)),
    ):
        worst = judged(facts).worst
        assert "the member's process exited, or the network failed" in worst.advice
        assert worst.command == "muster groups why billing"


@pytest.mark.parametrize(
    ("facts", "since_ms"),
    [
        (stable(at(0, 5, 9, moved=90, stands=70)), NOW_MS - 70_000),
        (stable(at(0, 5, 9, moved=90, stands=70), at(1, 9, 9, moved=40)), NOW_MS - 40_000),
        (stable(at(0, 5, 9, moved=90, stands=70), at(1, 5, 9, moved=2, stands=2)), None),
        (stable(at(0, 9, 9, moved=90)), None),
        (empty(at(0, 5, 9, moved=90, stands=70)), None),
        (stable(at(0, 5, 9, moved=9, stands=9)), None),
    ],
)
def test_value_of_reads_nothing_since_ms_is_the_time_of_the_last_offset_change(
    facts: GroupFacts, since_ms: int | None
) -> None:
    assert judged(facts).facts.reads_nothing_since_ms == since_ms
