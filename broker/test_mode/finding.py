"""Finds the group or member that a verb of `/test` names, or raises an error with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from broker.broker import Broker
from broker.cores.groups.runtime import HostedGroups
from broker.cores.hosted_shard import Phase
from broker.test_mode.refusals import NotNow
from coordinator.read_only import GroupView, MemberView

_NAMED = 5


def hosted_of(broker: Broker, verb: str, group_id: str) -> HostedGroups:
    """Returns the shard of a group. Raises NotNow if the shard is not available."""
    hosted = broker.groups.hosted_for(group_id)
    if hosted is None and not broker.groups.is_started:
        raise NotNow(f"{verb}: group {group_id!r} does not exist; no groups exist yet")
    if hosted is None and broker.config.is_in_cluster:
        raise NotNow(
            f"{verb}: this broker does not coordinate {group_id!r}; GET /test/coordinator"
            " returns the broker that does"
        )
    if hosted is None:
        raise NotNow(
            f"{verb}: the coordinator of {group_id!r} is not available: a fault has moved it"
        )
    if hosted.phase is not Phase.ACTIVE:
        raise NotNow(
            f"{verb}: the coordinator of {group_id!r} is not available: {hosted.phase.value}"
        )
    return hosted


def group_of(broker: Broker, verb: str, group_id: str) -> tuple[HostedGroups, GroupView]:
    """Returns a group and its shard. Raises NotNow if the shard is not available or the group does
    not exist."""
    hosted = hosted_of(broker, verb, group_id)
    group = hosted.core.view.groups.get(group_id)
    if group is None:
        there = some_of([each.group_id for _, each in groups(broker)])
        raise NotNow(
            f"{verb}: group {group_id!r} does not exist; existing groups: {there or 'none'}"
        )
    return hosted, group


def groups(broker: Broker) -> Iterator[tuple[HostedGroups, GroupView]]:
    for hosted in broker.groups.hosted_shards:
        if hosted.phase is Phase.ACTIVE:
            for group in list(hosted.core.view.groups.values()):
                yield hosted, group


def member_of(
    broker: Broker, verb: str, name: str, group_id: str | None
) -> tuple[HostedGroups, GroupView, MemberView]:
    """Returns the member whose member id, group.instance.id or client id is ``name``, with its
    group and shard. If ``group_id`` is None, searches all groups. Raises NotNow if no member or
    several members match."""
    within = groups(broker) if group_id is None else [group_of(broker, verb, group_id)]
    members = [(hosted, group, each) for hosted, group in within for each in group.members.values()]
    for named in ("member_id", "group_instance_id", "client_id"):
        found = [each for each in members if getattr(each[2], named) == name]
        if len(found) == 1:
            return found[0]
        if found:
            several = some_of([f"{each[2].member_id} of {each[1].group_id}" for each in found])
            raise NotNow(f"{verb}: {name!r} is the {named} of several members: {several}")
    there = some_of([each[2].member_id for each in members])
    where = "" if group_id is None else f" in {group_id!r}"
    raise NotNow(
        f"{verb}: member {name!r} does not exist{where}; existing members: {there or 'none'}"
    )


def some_of(names: list[str]) -> str:
    """Returns a text that lists the first few of ``names``."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
