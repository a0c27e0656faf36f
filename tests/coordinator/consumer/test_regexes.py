"""Subscriptions by regular expression have the results that a running Kafka 4.3.1 returned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinator.consumer.events import RegexesResolved, RegexesWanted
from coordinator.consumer.heartbeat import idle_heartbeat
from coordinator.events import Event
from tests.coordinator.consumer.groups import Groups, T, U, heartbeat_of


class RegexGroups(Groups):
    """A consumer group whose members subscribe by regular expressions. Python's module re resolves
    them when the test calls `resolve`."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[RegexesWanted] = []
        self.seen: list[RegexesResolved] = []

    def note(self, events: Sequence[Event]) -> None:
        self.wanted += [each for each in events if isinstance(each, RegexesWanted)]
        self.seen += [each for each in events if isinstance(each, RegexesResolved)]

    def resolve(self) -> None:
        """Resolves the regexes of the shard's last request, and passes the matching topics to the
        shard."""
        wanted = self.wanted.pop()
        topics = {
            regex: tuple(name for name in self.image.by_name if re.fullmatch(regex, name))
            for regex in wanted.regexes
        }
        outcome = self.shard.regexes_resolved(wanted.group_id, topics, wanted.version, self.now)
        self.note(outcome.events)
        self.take(outcome)

    def pattern(self, member_id: str, regex: str, epoch: int = 0) -> None:
        self.join(member_id, subscribed_topics=None, subscribed_regex=regex)


def test_first_member_with_a_regex_gets_partitions_when_the_regex_is_resolved() -> None:
    groups = RegexGroups()
    reply = groups.join("a", subscribed_topics=None, subscribed_regex="t.*")
    assert (reply.member_epoch, reply.assignment) == (1, {})
    assert groups.kinds() == "5 8"
    groups.resolve()
    assert groups.kinds() == "16 3"
    assert groups.group.regexes["t.*"].topics == ("t",)
    reply = groups.send("a", 1)
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
    groups.check_loaded()


def test_join_with_an_already_resolved_regex_raises_the_epoch_immediately() -> None:
    groups = RegexGroups()
    groups.pattern("a", "t")
    groups.resolve()
    groups.send("a", 1)
    reply = groups.join("b", subscribed_topics=None, subscribed_regex="t")
    assert reply.member_epoch == 3
    assert groups.wanted == []


def test_new_topic_that_matches_a_regex_is_assigned_at_a_heartbeat_after_ten_seconds() -> None:
    groups = RegexGroups()
    groups.pattern("a", "[tu]")
    groups.resolve()
    groups.send("a", 1)
    groups.topics(u=1)
    groups.send("a", 2)
    assert groups.wanted == []
    groups.pass_ms(10_001)
    groups.send("a", 2)
    groups.resolve()
    assert groups.seen[-1].came == ("u",)
    reply = groups.send("a", 2)
    assert (reply.member_epoch, reply.assignment) == (3, {T: (0, 1), U: (0,)})


def test_topics_of_a_regex_are_revoked_in_the_heartbeat_that_drops_the_regex() -> None:
    groups = RegexGroups()
    groups.topics(u=1)
    groups.join("a", "u", subscribed_regex="t")
    groups.resolve()
    groups.send("a", 2)
    reply = groups.send("a", 3, subscribed_regex="", owned={T: [0, 1], U: [0]})
    assert groups.kinds() == "5 16T 3 7 6 8"
    assert reply.assignment == {U: (0,)}


def test_regex_resolution_for_a_removed_group_has_no_effect() -> None:
    groups = RegexGroups()
    groups.pattern("a", "t")
    groups.send("a", -1)
    groups.resolve()
    assert groups.written == []


def test_failed_regex_resolution_is_retried() -> None:
    groups = RegexGroups()
    groups.pattern("a", "t")
    wanted = groups.wanted.pop()
    groups.take(groups.shard.regexes_resolved(wanted.group_id, {}, wanted.version, groups.now))
    groups.send("a", 1)
    assert len(groups.wanted) == 1


def test_regex_is_dropped_when_the_sessions_of_its_members_expire_together() -> None:
    groups = RegexGroups()
    groups.pattern("a", "t")
    groups.resolve()
    groups.pattern("b", "t")
    groups.pass_ms(45_000)
    assert groups.group.members == {}
    assert groups.group.regexes == {}
    groups.check_loaded()


def test_idle_heartbeat_resolves_its_regex_again_when_topics_changed_and_10_s_passed() -> None:
    groups = RegexGroups()
    groups.pattern("a", "t.*")
    groups.resolve()
    groups.send("a", 1)
    call = heartbeat_of("a", 2)
    state = groups.shard._state
    assert idle_heartbeat(state, call, groups.now) is not None
    groups.topics(tt=1)
    assert idle_heartbeat(state, call, groups.now) is not None  # the last resolution is too new
    groups.pass_ms(10_001)
    assert idle_heartbeat(state, call, groups.now) is None
    groups.send("a", 2)
    assert [each.regexes for each in groups.wanted] == [("t.*",)]
