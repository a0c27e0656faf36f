"""Subscriptions by regex: decides when a group's regexes are resolved, and applies the result.

A regex must match the whole name of a topic. Matching may take long, so the broker matches names
outside the shard, between two calls: `ask` emits `RegexesWanted`, and the broker passes the
matching topics to `resolved`. Until then a member with a new regex has no partitions of the regex's
topics.

Source: Kafka 4.3.1 ``GroupMetadataManager.maybeUpdateRegularExpressions``, ``TopicRegexResolver``.
Kafka waits at least 10 s between two resolutions of a group; Muster resolves a new regex
immediately.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set

from coordinator.consumer.changes import Changes
from coordinator.consumer.events import EpochBumped, EpochCause, RegexesResolved, RegexesWanted
from coordinator.consumer.group import ConsumerGroup
from coordinator.step import Step
from coordinator.topics_image import TopicsImage
from coordinator.wording import some_of
from offsets.consumer_records import ConsumerGroupRun, RegexRecord, ResolvedRegex
from protocol.now import Now

REFRESH_MS_MIN = 10_000
"""The minimum time in ms between two resolutions of the same regexes."""
REFRESH_MS = 600_000
"""The time in ms after which a regex is resolved again, because the principal's ACLs may have
changed."""


def is_due(group: ConsumerGroup, used: Set[str], topics: TopicsImage, now: Now) -> bool:
    """Returns whether the regexes ``used``, to which members subscribe, must be resolved now."""
    if group.resolving or not used:
        return False
    if not used <= group.regexes.keys():
        return True
    age_ms = now.mono_ms - group.resolved_ms
    has_new_topics = topics.created > group.resolved_version
    return (has_new_topics and age_ms > REFRESH_MS_MIN) or age_ms > REFRESH_MS


def ask(step: Step, changes: Changes, sender: Hashable) -> None:
    """Emits `RegexesWanted` if the group's regexes must be resolved after this request."""
    group = changes.group
    if group.resolving or not (group.has_regexes or changes.members_changed):
        return
    regexes = changes.used_regexes()
    topics = step.state.topics
    if is_due(group, regexes, topics, step.now):
        group.resolving = True
        group.resolved_ms = step.now.mono_ms
        group.resolved_version = topics.version
        wanted = tuple(sorted(regexes))
        step.events.append(RegexesWanted(group.group_id, wanted, topics.version, sender))


def resolved(
    step: Step, group: ConsumerGroup, topics_by_regex: Mapping[str, tuple[str, ...]], version: int
) -> None:
    """Writes the topics that match each regex, and raises the epoch if these topics changed.

    ``version`` is the version of the topics image at the start of the resolution. A regex to which
    no member subscribes any more is ignored. An empty mapping means that the resolution failed.
    """
    group.resolving = False
    changes = Changes(group)
    found = dict(group.regexes)
    came: list[str] = []
    gone: list[str] = []
    for regex, topics in sorted(topics_by_regex.items()):
        if group.regex_members(regex):
            before = found[regex].topics if regex in found else ()
            found[regex] = ResolvedRegex(tuple(sorted(topics)), version, step.now.wall_ms)
            changes.records.append(RegexRecord(regex, found[regex]))
            came += sorted({*topics} - {*before})
            gone += sorted({*before} - {*topics})
    if not changes.records:
        return
    metadata_hash = step.state.topics.metadata_hash(changes.names(found))
    if came or gone or metadata_hash != group.epoch.metadata_hash:
        changes.bump(metadata_hash)
        cause = EpochCause.REGEX_RESOLVED
        words = [f"{name} came" for name in came] + [f"{name} is gone" for name in gone]
        detail = f"topics of a regex changed: {some_of(words, ', ')}"
        awaited = changes.awaited()
        step.events.append(
            EpochBumped(group.group_id, changes.epoch.epoch, cause, "", detail, awaited)
        )
    step.records.append(ConsumerGroupRun(group.group_id, changes.records, step.now.wall_ms))
    regexes = tuple(record.regex for record in changes.records if isinstance(record, RegexRecord))
    step.events.append(RegexesResolved(group.group_id, regexes, tuple(came), tuple(gone)))
