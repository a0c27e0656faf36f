"""A classic group: its protocol vote, state transitions, generations, and which members it
accepts."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import coordinator.classic.states
from coordinator.classic.group import Group, vote
from coordinator.classic.member import Member
from coordinator.classic.states import LEGAL_PREVIOUS, State, state_filter
from offsets.runs import GroupMember, GroupValue
from protocol.now import Now

VOTES = [
    # the protocols of each member, first choice first; and the chosen one, with the reason
    (["range"], "range"),
    (["range,sticky", "sticky,range", "sticky,range"], "sticky"),  # two first choices of three
    (["range,sticky", "sticky"], "sticky"),  # the only protocol that both members offer
    (["a,b,c", "b,c", "c,b"], "b"),  # a is not shared; b and c tie at first, b ranks 0+0+1
    (["b,a", "a,b"], "a"),  # a tie of votes and ranks: the first by name
    (["a,b,c", "b,c,a", "c,a,b"], "a"),  # a tie of three votes and ranks
    (["a,c,b", "b,c,a"], "a"),  # c is the second choice of all members, but has no vote
    (["a,b,x", "b,x,a", "x,a,b", "b,a,x"], "b"),
    (["a,a,b", "b,a"], "a"),  # a repeated name counts once
]


def offers(text: str) -> list[tuple[str, bytes]]:
    return [(name, b"") for name in text.split(",")]


@pytest.mark.parametrize(("lists", "chosen"), VOTES)
def test_protocol_vote_chooses_the_expected_protocol(lists: list[str], chosen: str) -> None:
    assert vote([offers(text) for text in lists]) == chosen


def test_protocol_vote_does_not_depend_on_the_order_of_members() -> None:
    for lists, chosen in VOTES:
        for order in itertools.permutations(lists):
            assert vote([offers(text) for text in order]) == chosen


def member(name: str, protocols: str = "range", instance: str | None = None) -> Member:
    return Member("g", name, instance, "c", "/h", 6000, 5000, offers(protocols))


def test_illegal_state_transitions_are_refused() -> None:
    for old in State:
        for new in State:
            group = Group("g")
            group.state = old
            group.phase.due_ms = 1
            if old in LEGAL_PREVIOUS[new]:
                group.transition_to(new, Now(5, 7))
                assert (group.state, group.state_since_ms, group.state_timestamp_ms) == (new, 5, 7)
            else:
                with pytest.raises(AssertionError, match=f"from {old.name} to {new.name}"):
                    group.transition_to(new, Now(5, 7))


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.AWAITING_SYNC])
def test_transition_to_a_waiting_group_state_without_a_deadline_is_refused(state: State) -> None:
    group = Group("g")
    group.state = next(iter(LEGAL_PREVIOUS[state]))
    with pytest.raises(AssertionError, match="without a deadline"):
        group.transition_to(state, Now(0, 0))


def test_only_the_module_group_py_assigns_the_state_of_a_classic_group() -> None:
    room = Path(coordinator.classic.states.__file__).parent
    assigning = {
        path.name: len(re.findall(r"\.state = (?!state\b)|group\.state = ", path.read_text()))
        for path in room.glob("*.py")
    }
    found = {name: count for name, count in assigning.items() if count}
    assert found.pop("group.py") >= 2  # the constructors; transition_to assigns its argument
    assert found == {}


def test_coordinator_page_describes_every_group_state() -> None:
    text = Path(coordinator.classic.states.__file__).read_text()
    for state in State:
        assert f'{state.name} = "{state.value}"' in text
    assert text.count("*Action*") == text.count("*Transition*") == len(State)


def test_group_state_filter_accepts_kafkas_old_and_new_names() -> None:
    assert state_filter(["AwaitingSync"]) == {State.AWAITING_SYNC}
    assert state_filter(["COMPLETINGREBALANCE", "stable"]) == {State.AWAITING_SYNC, State.STABLE}
    assert state_filter(["Assigning", ""]) == set()


def test_generation_after_int32_max_is_1() -> None:
    group = Group("g")
    group.generation_id = 2**31 - 2
    group.next_generation()
    assert group.generation_id == 2**31 - 1
    group.next_generation()
    assert group.generation_id == 1


def test_group_accepts_a_client_with_a_protocol_that_all_members_support() -> None:
    group = Group("g")
    assert group.accepts("consumer", offers("range"))
    assert not group.accepts("", offers("range"))
    assert not group.accepts("consumer", [])
    group.protocol_type = "consumer"
    group.state = State.PREPARING_REBALANCE
    group.add(member("a", "range,sticky"))
    group.add(member("b", "sticky,lottery"))
    assert group.accepts("consumer", offers("lottery,sticky"))
    assert not group.accepts("consumer", offers("range,lottery"))
    assert not group.accepts("connect", offers("sticky"))


def test_protocol_type_of_a_group_is_kept_in_a_join_phase_without_members() -> None:
    group = Group("g")
    group.protocol_type = "consumer"
    group.state = State.PREPARING_REBALANCE
    assert group.accepts("consumer", offers("range"))
    assert not group.accepts("connect", offers("range"))
    group.state = State.EMPTY
    assert group.accepts("connect", offers("range")), "an empty group takes any type"


def test_oldest_member_leads_when_the_leader_is_removed() -> None:
    group = Group("g")
    a, b, c = member("a"), member("b"), member("c")
    for each in (a, b, c):
        group.add(each)
    assert group.leader_id == "a"
    group.remove(a)
    assert group.leader_id == "b"
    group.remove(b)
    group.remove(c)
    assert group.leader_id is None
    assert group.support == {}


def test_replacement_of_a_static_member_inherits_its_leadership_and_parked_sync_group() -> None:
    group = Group("g")
    old, other, new = member("a", instance="i"), member("b"), member("c", "sticky", instance="i")
    group.add(old)
    group.add(other)
    group.pending_syncs = {"a"}
    group.replace(old, new)
    assert group.leader_id == "c"
    assert group.static_members == {"i": "c"}
    assert group.pending_syncs == {"c"}
    assert group.support == {"range": 1, "sticky": 1}


def test_member_that_a_record_contains_twice_is_restored_once() -> None:
    stored = GroupMember("a", "i", "c", "/h", 5000, 6000, b"S", b"A")
    again = GroupMember("b", "i", "c", "/h", 5000, 6000, b"S", b"B")
    value = GroupValue("consumer", 3, "range", "nobody", 77, [stored, stored, again])
    group = Group.restored("g", value, 9)
    assert list(group.members) == ["a"]
    assert group.static_members == {"i": "a"}
    assert group.leader_id == "a", "a leader that is no member gives way"
    assert (group.state, group.generation_id, group.state_timestamp_ms) == (State.STABLE, 3, 77)


def test_subscribed_topics_of_a_group_change_only_when_a_generation_begins() -> None:
    def subscription(topic: bytes) -> bytes:
        return b"\0\0" + b"\0\0\0\1" + b"\0\1" + topic + b"\xff\xff\xff\xff"

    group = Group("g")
    assert group.subscribed_topics is None, "before the first generation"
    group.protocol_type, group.protocol_name = "consumer", "range"
    one = Member("g", "a", None, "c", "/h", 1, 1, [("range", subscription(b"t")), ("sticky", b"?")])
    group.add(one)
    group.note_subscriptions()
    assert group.subscribed_topics == {"t"}
    group.set_protocols(one, [("range", subscription(b"u"))])
    assert group.subscribed_topics == {"t"}, "only a new generation changes it"
    group.note_subscriptions()
    assert group.subscribed_topics == {"u"}
    group.set_protocols(one, [("range", b"?")])
    group.note_subscriptions()
    assert group.subscribed_topics is None, "unreadable"
    group.remove(one)
    group.note_subscriptions()
    assert group.subscribed_topics == ()
