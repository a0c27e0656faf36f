"""Executes test commands on a shard; `coordinator/on_command.py` lists the commands."""

from __future__ import annotations

from broker.cores.groups.runtime import GroupRuntime, HostedGroups
from coordinator.on_command import OnStep


def do(groups: GroupRuntime, hosted: HostedGroups, work: OnStep) -> None:
    """Queues ``work`` for an active shard, which executes the work as it does a request."""
    groups.life.work(hosted, lambda: hosted.core.do(work, groups.time.now()))
