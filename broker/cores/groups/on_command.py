"""Executes commands of tests on a shard of groups; `coordinator/on_command.py` lists the
commands."""

from __future__ import annotations

from broker.cores.groups.runtime import GroupRuntime, HostedGroups
from coordinator.on_command import OnStep


def do(groups: GroupRuntime, hosted: HostedGroups, work: OnStep) -> None:
    """Makes an active shard execute ``work``, as it executes a request."""
    groups.life.work(hosted, lambda: hosted.core.do(work, groups.time.now()))
