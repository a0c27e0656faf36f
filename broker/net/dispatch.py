"""The table of served APIs, gathered from ``broker/apis``.

What ApiVersions advertises and what ``docs/coverage.md`` lists come from this table, so an API
module that is not named here is not served.
"""

from __future__ import annotations

from importlib import import_module

from broker.net.request import ServedApi

MODULES = (
    "alter_configs",
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_topic_partitions",
    "elect_leaders",
    "fetch.handler",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce.handler",
    "sync_group",
)
"""The modules of ``broker/apis``, in alphabetical order; each has a ``SERVED``."""


def _gather() -> dict[int, ServedApi]:
    served = (import_module(f"broker.apis.{name}").SERVED for name in MODULES)
    return {entry.api.key: entry for entry in sorted(served, key=lambda entry: entry.api.key)}


SERVED: dict[int, ServedApi] = _gather()
"""API key to how it is served, in the order of the keys."""
