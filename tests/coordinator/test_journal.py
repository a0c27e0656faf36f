"""The journal of rebalances: cause, members and phases of each rebalance, and the size limits of
the journal."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.calls import LeaveGroup, Leaver, TopicOffsets
from coordinator.classic.member_restarts import MemberRestarts
from coordinator.events import (
    Assigned,
    AssignedMember,
    Cause,
    CommitRejected,
    Event,
    GenerationFormed,
    LoadedGeneration,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    MovedOffset,
    OffsetsMovedBack,
    ShardLoaded,
    Transition,
)
from coordinator.group_journal import GroupJournal
from coordinator.journal import Journal
from coordinator.journal_rebalance import Rebalance
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from offsets.runs import GroupMember, GroupRun, GroupValue
from protocol.consumer_protocol import encode_subscription
from protocol.now import Now
from tests.coordinator.calls_for_tests import (
    Driver,
    commit,
    end,
    heartbeat,
    join,
    leave,
    sync,
    txn_commit,
)


class JournaledShard(Driver):
    """A shard, and a journal that receives the events of this shard."""

    def __init__(self, journal: Journal | None = None, **settings: int) -> None:
        self.journal = journal or Journal()
        super().__init__(**settings)

    def take(self, outcome: Outcome) -> Outcome:
        for event in outcome.events:
            self.journal.observe(event, self.now)
        return super().take(outcome)

    def pass_time(self, milliseconds: int) -> None:
        """Advances the clock in one step. Work that was due earlier runs late, at the new time."""
        self.mono_ms += milliseconds
        self.take(self.shard.expire(self.now, 1000))

    @property
    def entry(self) -> GroupJournal:
        entry = self.journal.get("g")
        assert entry is not None
        return entry

    @property
    def last(self) -> Rebalance:
        last = self.entry.rebalances.last
        assert last is not None
        return last


def subscribed(*topics: str) -> list[tuple[str, bytes]]:
    return [("range", encode_subscription(list(topics)))]


def test_first_rebalance_has_cause_phases_and_assignments() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    last = told.last
    assert last.cause is Cause.MEMBER_JOINED
    assert last.detail == f"{a} from 10.0.0.1 joined"
    assert last.from_empty
    assert (last.phase, last.outcome, last.generation_id) == ("ended", "assigned", 1)
    assert (last.protocol_name, last.leader, last.members) == ("range", a, 1)
    assert [(each.member_id, each.assignment) for each in last.assigned] == [(a, a.encode())]
    assert [change.text for change in last.changes] == ["joined"]


def test_journal_entry_of_a_rebalance_has_the_phase_durations_and_the_last_member_to_join() -> None:
    told = JournaledShard()
    a, b, c = told.form("a", "b", "c")
    told.handle(join("again", a))
    assert told.last.awaited == (b, c)
    assert told.last.until_ms == told.now.wall_ms + 60_000
    told.mono_ms += 100
    told.handle(join("again b", b))
    told.mono_ms += 2500
    told.handle(join("again c", c))
    assert told.last.phase == "sync"
    assert told.last.awaited == (a, b, c)
    told.mono_ms += 40
    told.handle(sync("done", a, told.shard.view.groups["g"].generation_id))
    last = told.last
    assert last.cause is Cause.LEADER_REJOINED
    assert (last.join_ms, last.sync_ms) == (2600, 40)
    assert (last.last_member, last.last_wait_ms) == (c, 2500)
    assert last.awaited == ()


def test_rebalance_after_a_leave_has_the_host_and_the_leave_reason_of_the_member() -> None:
    told = JournaledShard()
    _, b = told.form("a", "b")
    reason = "the consumer unsubscribed from all topics"
    told.handle(LeaveGroup("bye", "g", [Leaver(b, None, reason)]))
    assert told.last.cause is Cause.MEMBER_LEFT
    assert told.last.detail == f"{b} from 10.0.0.1 left: {reason}"


def test_rebalance_caused_by_a_session_expiry_has_its_timeout_and_last_heartbeat() -> None:
    told = JournaledShard()
    a, b = told.form("a", "b")
    told.mono_ms += 4000
    heard_ms = told.now.wall_ms
    told.handle(heartbeat("beat", b, told.shard.view.groups["g"].generation_id))
    told.handle(heartbeat("beat a", a, told.shard.view.groups["g"].generation_id))
    told.mono_ms += 9000
    told.handle(heartbeat("beat a 2", a, told.shard.view.groups["g"].generation_id))
    told.pass_time(1250)
    last = told.last
    assert last.cause is Cause.SESSION_EXPIRED
    assert last.detail == f"session of {b} from 10.0.0.1 expired after 10.2 s"
    assert last.last_heard_ms == heard_ms
    assert last.awaited == (a,)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["t"], ["t", "u"], "changed its subscription: added u"),
        (["t", "u"], ["t"], "changed its subscription: removed u"),
        (["t", "u"], ["v", "t"], "changed its subscription: added v; removed u"),
        (["t", "u"], ["u", "t"], "listed the same topics in another order"),
    ],
)
def test_rebalance_caused_by_a_new_subscription_names_added_and_removed_topics(
    before: list[str], after: list[str], words: str
) -> None:
    told = JournaledShard()
    told.handle(join("a", protocols=subscribed("t")))
    told.handle(sync("s", "c-a"))
    told.handle(join("b", protocols=subscribed(*before)))
    told.handle(join("a2", "c-a", protocols=subscribed("t")))
    told.handle(sync("s2", "c-a", 2))
    told.handle(join("b2", "c-b", protocols=subscribed(*after)))
    assert told.last.cause is Cause.METADATA_CHANGED
    assert told.last.detail == f"c-b from 10.0.0.1 {words}"


def test_change_of_an_undecodable_subscription_is_recorded() -> None:
    told = JournaledShard()
    told.handle(join("a", protocols=[("range", b"?1")]))
    told.handle(sync("s", "c-a"))
    told.handle(join("a2", "c-a", protocols=[("range", b"?2")]))
    assert told.last.detail == (
        "c-a from 10.0.0.1, the leader, rejoined and changed its metadata, which can't be decoded"
    )


def test_rejoin_of_a_static_member_is_recorded_as_a_note_not_as_a_rebalance() -> None:
    told = JournaledShard()
    told.handle(join(1, group_instance_id="i", client_id="old"))
    told.handle(sync(2, "i-1", group_instance_id="i", assignments=[("i-1", b"A")]))
    told.handle(join(3, group_instance_id="i", client_id="new"))
    assert len(told.entry.rebalances) == 1
    assert [note.text for note in told.entry.notes] == [
        "new at 10.0.0.1 took over i from old at 10.0.0.1"
    ]


def test_static_member_with_a_changed_subscription_causes_a_rebalance() -> None:
    told = JournaledShard()
    told.handle(join(1, group_instance_id="i", protocols=subscribed("t")))
    told.handle(sync(2, "i-1", group_instance_id="i", assignments=[("i-1", b"A")]))
    told.handle(join(3, group_instance_id="i", protocols=subscribed("u")))
    assert told.last.cause is Cause.STATIC_MEMBER_REPLACED
    assert told.last.detail == "static member i from 10.0.0.1 rejoined with a changed subscription"


def test_journal_entry_of_a_rebalance_lists_member_changes_in_order() -> None:
    told = JournaledShard()
    a, b, c = told.form("a", "b", "c")
    told.handle(join("n", fresh_id="n"))
    told.handle(leave("bye", b))
    told.handle(join("again", a))
    for _ in range(7):  # sessions of parked members do not run; c only heartbeats and never rejoins
        told.mono_ms += 9_000
        told.handle(heartbeat("c", c, told.shard.view.groups["g"].generation_id))
        told.take(told.shard.expire(told.now, 100))
    changes = [(change.member_id, change.text) for change in told.last.changes]
    assert changes == [("c-n", "joined"), (b, "left"), (c, "did not rejoin in time")]
    assert told.last.join_ended_by == "join_timed_out"


def test_rebalance_is_marked_as_interrupted_when_a_later_rebalance_begins() -> None:
    told = JournaledShard()
    a, b = told.form("a", "b", settle=False)
    told.handle(join("n", fresh_id="n"))
    overtaken, last = list(told.entry.rebalances)[-2:]
    assert overtaken.outcome == "interrupted"
    assert last.phase == "join"
    assert set(last.awaited) == {a, b}


def test_rebalance_without_members_ends_without_an_assignment() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    told.handle(leave("bye", a))
    assert told.last.outcome == "nobody left"
    assert told.last.generation_id == 2


# ------------------------------------------------------------------------------- after a restart


def reloaded(told: JournaledShard) -> JournaledShard:
    """Returns a shard and journal that a new process loads from the same log."""
    again = JournaledShard()
    again.shard = GroupShard(again.config)
    for offset, run in told.log:
        again.shard.replay(run, offset)
    again.log = list(told.log)
    again.mono_ms = 500_000
    again.take(again.shard.loaded(again.now))
    return again


def test_journal_restored_from_the_log_has_the_last_generations() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    told.handle(join("again", a))
    told.handle(sync("s", a, 2))
    restored = reloaded(told).journal.restored("g")
    assert restored is not None
    assert [(each.log_offset, each.generation_id) for each in restored.generations] == [
        (0, 1),
        (1, 2),
    ]
    assert restored.generations[-1].leader == a
    assert restored.at_ms == 1_500_000
    assert told.journal.restored("g") is None, "it was not loaded from anything"


def test_rejoin_soon_after_a_broker_restart_has_the_restart_as_cause() -> None:
    told = JournaledShard()
    a, _ = told.form("a", "b")
    again = reloaded(told)
    again.mono_ms += 2100
    again.handle(join("back", a, client_id="m"))
    assert again.last.cause is Cause.COORDINATOR_RESTARTED
    assert again.last.detail == (
        f"{a} from 10.0.0.1, the leader, rejoined 2.1 s after the coordinator restarted"
    )


def test_broker_restart_is_not_the_cause_of_a_rejoin_long_afterwards() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    again = reloaded(told)
    for _ in range(3):
        again.mono_ms += 9_000
        again.handle(heartbeat("beat", a, 1))
    again.handle(join("back", a))
    assert again.last.cause is Cause.LEADER_REJOINED


def test_load_restores_only_the_last_generations_of_a_group() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    for generation in range(2, 30):
        told.handle(join(f"j{generation}", a))
        told.handle(sync(f"s{generation}", a, generation))
    restored = reloaded(told).journal.restored("g")
    assert restored is not None
    assert [each.generation_id for each in restored.generations] == list(range(22, 30))


def test_journal_of_a_deleted_group_is_not_restored() -> None:
    told = JournaledShard()
    told.form("a")
    told.log.append((len(told.log), GroupRun("g", None)))
    assert reloaded(told).journal.restored("g") is None


# --------------------------------------------------------------------------------------- commits


def offsets(*pairs: tuple[int, int]) -> list[TopicOffsets]:
    partitions, values = zip(*pairs, strict=True)
    return [TopicOffsets("t", partitions, values, [-1] * len(pairs), None, None)]


def test_refused_commits_are_counted_by_error_and_client() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    told.handle(commit(1, a, 7))
    told.handle(commit(2, a, 8, client_id="x", client_host="/10.9.9.9"))
    told.handle(commit(3))
    first, other, admin = told.entry.rejected
    assert [(each.key.error_code, each.count) for each in (first, other, admin)] == [
        (22, 1), (22, 1), (25, 1),
    ]  # fmt: skip
    last = other.last
    assert last is not None
    assert (last.member_id, last.client_id, last.client_host) == (a, "x", "/10.9.9.9")
    assert last.detail == "the commit has generation 8, but the group has 1"
    assert admin.last is not None
    assert admin.last.detail == "the client is not a member, but the group has members (Stable)"


@pytest.mark.parametrize("partitions", [[0], [0, 1, 2], [5, 3, 9], [2**31 - 1, 7]])
def test_commit_of_a_lower_offset_is_recorded_with_its_client(partitions: list[int]) -> None:
    told = JournaledShard()
    told.handle(commit(1, topics=offsets(*[(p, 50) for p in partitions])))
    told.handle(commit(2, topics=offsets(*[(p, 60) for p in partitions])))
    told.handle(commit(3, topics=offsets(*[(p, 60) for p in partitions])))
    assert told.journal.get("g") is None, "forward, or where it was, is nothing to tell"
    back = [(p, 60) for p in partitions[:-1]] + [(partitions[-1], 10)]
    told.handle(commit(4, topics=offsets(*back), client_id="reset", client_host="/10.1.2.3"))
    (moved,) = told.entry.moved_back
    assert moved.at_ms == told.now.wall_ms
    assert (moved.event.client_id, moved.event.client_host) == ("reset", "/10.1.2.3")
    assert moved.event.offsets == 1
    (example,) = moved.event.examples
    assert example == ("t", partitions[-1], 60, 10)


def test_offsets_lowered_by_one_commit_form_one_journal_entry_with_examples() -> None:
    told = JournaledShard()
    told.handle(commit(1, topics=offsets(*[(p, 50) for p in range(100)])))
    told.handle(commit(2, topics=offsets(*[(p, 0) for p in range(100)])))
    (moved,) = told.entry.moved_back
    assert moved.event.offsets == 100
    assert len(moved.event.examples) == 8


def test_journal_note_lists_the_offsets_that_an_aborted_transaction_drops() -> None:
    told = JournaledShard()
    for committed in (True, False):
        told.handle(txn_commit(1))
        told.handle(end(2, committed=committed))
    (note,) = told.entry.notes
    assert note.text == "1 pending offset dropped: the transaction of producer 7 was aborted"


# ------------------------------------------------------------------------------------ join storms


def flap(told: JournaledShard, topics: list[str], number: int) -> None:
    told.handle(join(f"f{number}", "c-b", protocols=subscribed(*topics)))
    told.handle(join(f"a{number}", "c-a", protocols=subscribed("t")))
    group = told.shard.view.groups["g"]
    told.handle(sync(f"s{number}", str(group.leader_id), group.generation_id))
    told.handle(sync(f"z{number}", "c-b", group.generation_id))


def flapper() -> JournaledShard:
    told = JournaledShard()
    told.handle(join("a", protocols=subscribed("t")))
    told.handle(join("b", protocols=subscribed("t", "u")))
    told.handle(join("a2", "c-a", protocols=subscribed("t")))
    told.handle(sync("s2", "c-a", 2))
    told.handle(sync("z2", "c-b", 2))
    return told


def test_member_that_alternates_between_subscriptions_is_recorded_as_flapping() -> None:
    told = flapper()
    for number in range(3):
        assert told.journal.flapping("g") == []
        flap(told, ["u", "t"] if number % 2 == 0 else ["t", "u"], number)
    (flapping,) = told.journal.flapping("g")
    assert (flapping.member_id, flapping.changes) == ("c-b", 3)
    assert flapping.detail == "listed the same topics in another order"


def test_rare_subscription_changes_are_not_recorded_as_flapping() -> None:
    told = flapper()
    for number in range(5):
        flap(told, ["t", f"u{number}"], number)
        for _ in range(40):
            told.mono_ms += 9_000
            generation = told.shard.view.groups["g"].generation_id
            told.handle(heartbeat("x", "c-a", generation))
            told.handle(heartbeat("y", "c-b", generation))
    assert told.journal.flapping("g") == []


def test_joins_into_a_stable_group_within_the_collection_window_form_one_rebalance() -> None:
    told = JournaledShard(join_coalescing_ms=500)
    (a,) = told.form("a")
    before = len(told.entry.rebalances)
    told.handle(join("n1", fresh_id="n1"))
    told.handle(join("again", a))
    group = told.shard.view.groups["g"]
    assert group.state.value == "PreparingRebalance", "all have joined, and more may come"
    assert (group.awaited().phase, group.awaited().members) == ("coalescing", ())
    told.pass_time(300)
    told.handle(join("n2", fresh_id="n2"))
    assert group.state.value == "PreparingRebalance"
    told.pass_time(200)
    assert group.state.value == "CompletingRebalance"
    assert len(group.members) == 3
    assert len(told.entry.rebalances) == before + 1
    assert told.last.join_ms == 500


def test_delay_that_lets_more_members_join_does_not_extend_the_rebalance_timeout() -> None:
    told = JournaledShard(join_coalescing_ms=500)
    a, b = told.form("a", "b")
    told.handle(join("n1", fresh_id="n1"))
    told.handle(join("again", a))
    for _ in range(7):
        told.mono_ms += 9_000
        told.handle(heartbeat("b", b, told.shard.view.groups["g"].generation_id))
        told.take(told.shard.expire(told.now, 100))
    group = told.shard.view.groups["g"]
    assert set(group.members) == {a, "c-n1"}, "who does not rejoin is out at the old deadline"


def formed_one_by_one(told: JournaledShard) -> list[str]:
    members: list[str] = []
    for name in "abc":
        told.handle(join(name, fresh_id=name))
        for each in members:
            told.handle(join(f"{name} {each}", each))
        told.pass_time(500)
        members.append(f"c-{name}")
        for each in members:
            generation = told.shard.view.groups["g"].generation_id
            told.handle(sync(f"sync {name} {each}", each, generation))
    return members


def test_rebalance_caused_by_a_leave_ends_without_the_join_coalescing_delay() -> None:
    told = JournaledShard(join_coalescing_ms=500)
    a, b, c = formed_one_by_one(told)
    told.handle(leave("bye", c))
    told.handle(join("again a", a))
    told.handle(join("again b", b))
    assert told.shard.view.groups["g"].state.value == "CompletingRebalance"


# ---------------------------------------------------------------------------------------- bounds


def rebalanced(group_id: str, detail: str = "x") -> Transition:
    return Transition(group_id, "Stable", "PreparingRebalance", 1, Cause.MEMBER_LEFT, detail)


def test_journal_keeps_the_last_rebalances_of_a_group() -> None:
    journal = Journal(rebalances_kept=4)
    for number in range(10):
        journal.observe(rebalanced("g", str(number)), Now(number, number))
    entry = journal.get("g")
    assert entry is not None
    assert [each.detail for each in entry.rebalances] == ["6", "7", "8", "9"]
    assert [each.number for each in entry.rebalances] == [7, 8, 9, 10]


def test_journal_first_removes_the_group_whose_last_event_is_oldest() -> None:
    journal = Journal(bytes_kept=100_000)
    journal.observe(rebalanced("busy"), Now(0, 0))
    for number in range(100):
        journal.observe(rebalanced(f"g{number}"), Now(number, number))
        journal.observe(rebalanced("busy"), Now(number, number))
    kept = journal.names()
    assert journal.bytes <= 100_000
    assert kept[-1] == "busy"
    assert kept[:-1] == [f"g{number}" for number in range(100 - len(kept) + 1, 100)]
    assert journal.bytes == sum(
        entry.bytes for name in kept if (entry := journal.get(name)) is not None
    )


def test_journal_of_a_single_group_drops_its_oldest_rebalances_at_the_size_limit() -> None:
    journal = Journal(bytes_kept=20_000)
    for number in range(60):
        journal.observe(rebalanced("g", "w" * 2000), Now(number, number))
    entry = journal.get("g")
    assert entry is not None
    assert 1 <= len(entry.rebalances) <= 6
    assert journal.bytes == entry.bytes <= 20_000


def test_full_journal_first_drops_generations_that_were_loaded_from_the_log() -> None:
    journal = Journal(bytes_kept=60_000)
    one = [LoadedGeneration(1, 1, "range", "m", 1, 0)]
    journal.observe(ShardLoaded(100, {f"g{i}": one for i in range(100)}), Now(0, 0))
    assert journal.restored("g7") is not None
    for number in range(10):
        journal.observe(rebalanced(f"h{number}", "w" * 2000), Now(number, number))
    assert journal.restored("g7") is None
    assert len(journal.names()) == 10


def size_of(returns: MemberRestarts) -> int:
    """Returns the size of ``returns`` in bytes, as the sum of its entries."""
    return sum([each.size() for ring in (returns.clients, returns._seen) for each in ring])


def test_size_of_the_journal_equals_the_sum_of_its_entry_sizes() -> None:
    told = JournaledShard(Journal(rebalances_kept=3))
    told.form("a", "b", "c")
    for round_ in range(8):
        told.handle(join(f"n{round_}", fresh_id=f"n{round_}"))
        group = told.shard.view.groups["g"]
        for each in list(group.members.values()):
            if each.join_ticket is None:
                told.handle(join(f"{round_}{each.member_id}", each.member_id))
        leader = str(group.leader_id)
        given = [(name, b"x" * 100) for name in group.members]
        told.handle(sync(f"s{round_}", leader, group.generation_id, assignments=given))
        told.handle(leave(f"l{round_}", f"c-n{round_}"))
        for each in list(group.members.values()):
            if each.join_ticket is None:
                told.handle(join(f"{round_}b{each.member_id}", each.member_id))
        told.handle(sync(f"t{round_}", str(group.leader_id), group.generation_id))
    entry = told.entry
    fixed = GroupJournal("g").own_bytes
    rebalances = sum(each.size() for each in entry.rebalances)
    returns = size_of(entry.returns)
    assert entry.bytes - fixed == rebalances + returns
    assert told.journal.bytes == entry.bytes


def measured(build: Callable[[], Journal]) -> tuple[int, int]:
    """Returns two sizes of a journal in bytes: its estimate, and the memory that is freed when the
    journal is deleted."""
    tracemalloc.start()
    try:
        journal = build()
        said = journal.bytes
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        del journal
        gc.collect()
        return said, before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_estimated_size_of_a_journal_is_close_to_its_memory() -> None:
    """Normally a journal shares some strings with the groups. Here no group exists, so the memory
    of all strings belongs to the journal."""

    def build() -> Journal:
        journal = Journal()
        for group in range(20):
            for number in range(20):
                now = Now(number, 1_700_000_000_000 + number)
                for event in _a_rebalance(f"group-{group}", number):
                    journal.observe(event, now)
        return journal

    said, taken = measured(build)
    assert said < 2 * taken, "nor far above"
    assert taken < 1.2 * said


def fresh(text: str, length: int) -> str:
    """Returns ``text``, padded to ``length`` characters, and then ``text`` again. The result is a
    new string object, as are the strings of each decoded request."""
    return (text + "-" * length)[: max(length, len(text))] + text


def rejected(group: str, number: int, length: int) -> list[Event]:
    ids = [fresh(f"{each}{number}", length) for each in ("m", "c")]
    return [CommitRejected(fresh(group, 0), ids[0], 1 + number % 20, ids[1], "/10.0.0.1", "why")]


def moved_back(group: str, number: int, length: int) -> list[Event]:
    ids = [fresh(f"{each}{number}", length) for each in ("m", "c")]
    topic = fresh(f"topic-{number}", min(length, 249))
    examples = tuple(MovedOffset(topic, i, 10**6 + number + i, 10**5 + i) for i in range(8))
    return [OffsetsMovedBack(fresh(group, 0), ids[0], ids[1], "/10.0.0.1", 8, examples)]


def noted(group: str, number: int, length: int) -> list[Event]:
    ids = [fresh(f"{each}{number}", length) for each in ("m", "i", "c")]
    cause = Cause.STATIC_MEMBER_REPLACED
    detail = fresh(f"{number} took over", length)
    return [MemberLeft(group, ids[0], ids[1], ids[2], "/10.0.0.1", cause, detail)]


def flapping(group: str, number: int, length: int) -> list[Event]:
    ids = [fresh(f"{each}{number % 40}", length) for each in ("m", "c")]
    detail = fresh(f"{number} has topics", length)
    return [MemberChanged(group, ids[0], ids[1], fresh("/10.0.0.1", 0), detail)]


def came_and_went(group: str, number: int, length: int) -> list[Event]:
    """Returns the event of a member that joined without a rebalance. The member id, the instance id
    and the client id have ``length`` characters."""
    ids = [fresh(f"{each}{number}", length) for each in ("m", "i", "c")]
    host, reason = fresh("/10.0.0.1", 0), fresh(f"{number}", min(length, 255))
    return [MemberJoined(group, ids[0], ids[1], ids[2], host, reason)]


def returned(group: str, number: int, length: int) -> list[Event]:
    """Returns the events of a client that joins, leaves, and joins again with a new member id."""
    event = came_and_went(group, number, length)[0]
    assert isinstance(event, MemberJoined)
    client, host, back = event.client_id, event.client_host, fresh(f"again{number}", length)
    cause = Cause.MEMBER_LEFT
    came = [replace(event, group_instance_id=None, client_id=client) for client in (client, "c")]
    gone = MemberLeft(group, came[0].member_id, None, client, host, cause, "left")
    return [*came, gone, replace(came[0], member_id=back)]


def rebalances(group: str, number: int, length: int) -> list[Event]:
    ids = tuple(fresh(f"{each}-{number}", length) for each in range(5))
    why = fresh(f"{number} left", length)
    members = tuple(
        AssignedMember(each, None, fresh("c", length), fresh("/10.0.0.1", 0), bytes(100 + number))
        for each in ids
    )
    begun = Transition(
        group, "Stable", "PreparingRebalance", number, Cause.MEMBER_LEFT, why, ids[0], ids, 60
    )
    name = fresh("range", length)
    return [
        begun,
        GenerationFormed(group, number, name, fresh("leader", length), 5, 50, ids[1], 4),
        Transition(group, "CompletingRebalance", "Stable", number, Cause.ASSIGNED, "x"),
        Assigned(group, number, "consumer", members),
    ]


@pytest.mark.parametrize("length", [30, 300, 32_000])
@pytest.mark.parametrize(
    "kind", [rejected, moved_back, noted, flapping, came_and_went, returned, rebalances]
)
def test_estimated_size_of_a_journal_is_within_a_factor_of_two_of_its_memory(
    kind: Callable[[str, int, int], list[Event]], length: int
) -> None:
    def build() -> Journal:
        journal = Journal()
        for number in range(100):
            for group in range(5):
                now = Now(number * 1000, 1_700_000_000_000 + number)
                for event in kind(fresh(f"group-{group}", length), number, length):
                    journal.observe(event, now)
        assert journal.bytes == sum(journal.get(name).bytes for name in journal.names())
        return journal

    said, taken = measured(build)
    assert taken / 2 < said < 2 * taken


@pytest.mark.parametrize("length", [30, 32_000])
def test_estimated_memory_of_loaded_journal_entries_is_within_a_factor_of_two(length: int) -> None:
    told = JournaledShard()

    def build() -> Journal:
        shard = GroupShard(told.config)
        for number in range(60):
            group_id = fresh(f"group-{number}", length)
            for generation in range(8):
                leader = fresh(f"leader-{number}-{generation}", length)
                member = GroupMember(leader, None, "c", "/10.0.0.1", 1000, 1000, b"", b"")
                name = fresh("range", length)
                value = GroupValue("consumer", generation, name, leader, 1000, [member])
                shard.replay(GroupRun(group_id, value), number * 8 + generation)
        outcome = shard.loaded(told.now)
        journal = Journal()
        for event in outcome.events:
            journal.observe(event, told.now)
        return journal

    said, taken = measured(build)
    assert taken / 2 < said < 2 * taken


def test_refused_commits_with_long_ids_stay_within_the_size_bound() -> None:
    """In an earlier version, 8,000 refused commits for different groups used 578 MB, although the
    limit was 64 MiB."""

    def build() -> Journal:
        journal = Journal(bytes_kept=4 << 20)
        for number in range(2000):
            for event in rejected(fresh(f"group-{number}", 32_000), number, 32_000):
                journal.observe(event, Now(number, number))
        return journal

    _, taken = measured(build)
    assert taken < 5 << 20


def test_long_member_id_in_a_journal_entry_is_shortened_in_the_middle() -> None:
    journal = Journal()
    (event,) = rejected("g", 7, 32_000)
    journal.observe(event, Now(0, 0))
    entry = journal.get(fresh("g", 0))
    assert entry is not None
    (kept,) = entry.rejected
    last = kept.last
    assert last is not None
    assert len(last.member_id) == 512
    assert last.member_id.startswith("m7---")
    assert last.member_id.endswith("---m7")


def _a_rebalance(group_id: str, number: int) -> list[Event]:
    ids = [f"consumer-app-{i}-6d0a6aa9-7c0c-4c55-9d4d-{number:012d}" for i in range(30)]
    gone = f"{ids[0]}-gone"
    members = tuple(
        AssignedMember(name, None, f"consumer-app-{i}", f"/10.0.{number}.{i}", bytes(100 + i))
        for i, name in enumerate(ids)
    )
    why = f"{gone} from 10.0.0.{number} left: {number}"
    cause = Cause.MEMBER_LEFT
    return [
        MemberLeft(group_id, gone, None, "app", "/10.0.0.1", cause, f"left: {number}"),
        Transition(group_id, "Stable", "PreparingRebalance", number, cause, why, gone, (*ids,), 60),
        MemberJoined(group_id, f"{gone}-new", None, "app", "/10.0.0.1", f"again {number}"),
        Transition(
            group_id, "PreparingRebalance", "CompletingRebalance", number + 1,
            Cause.ALL_JOINED, "all", "", (*ids,), 60,
        ),
        GenerationFormed(group_id, number + 1, "range", ids[1], 30, 50, ids[2], 4),
        Transition(group_id, "CompletingRebalance", "Stable", number + 1, Cause.ASSIGNED, "x"),
        Assigned(group_id, number + 1, "consumer", members),
        OffsetsMovedBack(
            group_id, ids[3], "app", "/10.0.0.1", 8,
            tuple(MovedOffset(f"topic-{number}", i, 10**6 + i, 10**5 + i) for i in range(8)),
        ),
    ]  # fmt: skip
