"""The names by which the page's search finds a group: clients, hosts and topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from broker.cores.groups.runtime import HostedGroups
from coordinator.read_only import GroupView, MemberView
from verdicts.spelling import plain_host

NAMES_MAX = 100
"""The maximum number of names of each kind, so that the row of a group with thousands of members
stays small."""
CHARACTERS_MAX = 120
"""The maximum number of characters of each name; a client id may have 32,767 characters."""

Names = dict[str, list[str]]


def search_names(group: GroupView, committed: Iterable[str]) -> Names:
    """Returns the names by which the page's search finds a group. ``committed`` contains the topics
    in which the group has committed offsets."""
    members = group.members.values()
    topics = {*islice(committed, NAMES_MAX), *islice(group.subscribed_topics or (), NAMES_MAX)}
    return {
        "clients": _some({name for each in members for name in _called(each)}),
        "hosts": _some({plain_host(each.client_host) for each in members}),
        "topics": _some(topics),
    }


def topics_named(hosted: HostedGroups, group: GroupView) -> set[str]:
    """Returns the topics that texts about a group may name: the topics in which the group has
    commits, and the topics to which its members subscribe."""
    committed = hosted.core.view.offsets.topics(group.group_id)
    return {*committed, *(group.subscribed_topics or ())}


def _called(member: MemberView) -> tuple[str, ...]:
    instance = member.group_instance_id
    return (member.client_id,) if instance is None else (member.client_id, instance)


def _some(names: set[str]) -> list[str]:
    return [name[:CHARACTERS_MAX] for name in sorted(names)[:NAMES_MAX]]
