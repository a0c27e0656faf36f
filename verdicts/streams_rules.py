"""The verdict NOT_READY of streams groups (KIP-1071): its rule and texts.

A streams group assigns no tasks in three cases: a source topic of its application is missing, the
partition counts of its input topics do not match, or an internal topic is not yet created. Kafka
Streams ends an instance whose source topic is missing. If the instance is restarted repeatedly, the
group is Empty between two starts. The verdict does not change in these pauses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from verdicts.commands import command
from verdicts.facts import EMPTY, GroupFacts
from verdicts.findings import Mark
from verdicts.names import Verdict
from verdicts.spelling import counted, since
from verdicts.thresholds import Thresholds

NOT_READY = "NotReady"
"""Kafka's name of the group state in which a topic of the topology is missing."""
MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS = 1, 2, 3


class StreamsFacts(NamedTuple):
    """A problem with the topics of a streams group's topology, as it was at the last heartbeat."""

    code: int | None
    """Kafka's status code, or None if no member has sent a heartbeat since the broker started."""
    detail: str
    """The text that Kafka sends with the status code."""
    topics: tuple[str, ...] = ()
    since_ms: int | None = None
    """The time at which the problem began, or None if it is unknown."""


def streams_marks(facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> Iterator[Mark]:
    """Yields NOT_READY for a streams group that has been in state NotReady for at least
    ``not_ready_ms``, because of a problem with its topics.

    If the start of the problem is unknown, as on an Apache Kafka broker, the duration is not
    checked. A group keeps the verdict NOT_READY for ``flapping_ms`` after its last instance has
    ended.
    """
    since_ms, counts_from_ms = facts.state_since_ms, facts.counts_from_ms
    if facts.state == EMPTY:
        if facts.streams is None or since_ms is None or facts.streams.since_ms is None:
            return
        if now_ms - since_ms >= thresholds.flapping_ms:
            return
        since_ms = counts_from_ms = facts.streams.since_ms
    elif facts.state != NOT_READY:
        return
    if counts_from_ms is None or now_ms - counts_from_ms >= thresholds.not_ready_ms:
        yield Mark(Verdict.NOT_READY, since_ms, (), None)


def streams_words(mark: Mark, facts: GroupFacts) -> tuple[str, str, str | None]:
    """Returns the sentence, the advice and the command for a mark of `streams_marks`."""
    problem, advice, todo = problem_words(facts)
    sentence = f"no instance has had a task{since(mark.since_ms)}: {problem}"
    if facts.state == EMPTY:
        sentence += "; the group has no members"
    elif facts.members:
        sentence += f", although the group has {counted(len(facts.members), 'member')}"
    return sentence, advice, todo


def problem_words(facts: GroupFacts) -> tuple[str, str, str]:
    """Returns three texts about a streams group with wrong topics: a clause that describes the
    problem, the advice, and the command."""
    streams = facts.streams
    if streams is None or streams.code is None:
        advice = "check that all source topics of the application exist"
        todo = command("groups describe", facts.group)
        return "a topic of the application is missing", advice, todo
    topics = ", ".join(streams.topics)
    is_one = len(streams.topics) == 1
    if streams.code == MISSING_SOURCE_TOPICS and streams.topics:
        what = f"source topic {topics} does" if is_one else f"source topics {topics} do"
        advice = "create the topic, or correct its name in the application"
        if facts.state == EMPTY:
            advice += "; then start the application again"
        return f"the {what} not exist", advice, command("topics create", streams.topics[0])
    if streams.code == MISSING_INTERNAL_TOPICS and streams.topics:
        what = f"internal topic {topics} is" if is_one else f"internal topics {topics} are"
        it = "it" if is_one else "them"
        advice = (
            "the members' principal needs CREATE on the topics or on the cluster; the broker's log"
            " has the reason if it could not create them"
        )
        todo = command("groups why", facts.group)
        return f"the {what} missing (the broker creates {it} at a member's heartbeat)", advice, todo
    advice = "give the topics of one join or merge equal numbers of partitions"
    return streams.detail.rstrip("."), advice, command("groups describe", facts.group)
