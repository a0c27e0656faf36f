"""Plans and makes the changes of a restore: topics, settings and offsets. Missing topics are
created without records, because a backup contains no records. Existing topics keep their
partitions. Settings that are not in the backup stay unchanged. Offsets outside their partition's
log are reported and not restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cli import output
from cli.backup.file import Backup, SavedTopic
from cli.client.cluster import Cluster
from cli.client.config_changes import SET, Operation, alter
from cli.client.configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Entry,
    Resource,
    describe_each,
)
from cli.client.group_reads import groups_with_offsets
from cli.client.new_topics import NewTopic, create_topics, settled
from cli.client.offsets_at import EARLIEST, LATEST, Partition, offsets_at
from cli.errors import check
from cli.offsets.changes import Change, make, refuse_members, with_true_epochs


@dataclass
class SettingsChange:
    """The changed settings of one topic or broker."""

    resource: Resource
    operations: list[Operation]
    before: dict[str, Entry]


@dataclass
class Comparison:
    """The changes that a restore will make, in the order of their execution."""

    topics: list[SavedTopic] = field(default_factory=list)
    settings: list[SettingsChange] = field(default_factory=list)
    offsets: list[Change] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """The contents of the backup that will not be restored, each with the reason."""

    def rows(self) -> Iterator[output.Row]:
        for topic in self.topics:
            after = output.counted(topic.partitions, "partition")
            yield _row(f"topic {topic.topic}", None, f"{after}, no records")
            for name, value in topic.configs.items():
                yield _row(f"topic {topic.topic}", None, value, name)
        for change in self.settings:
            for operation in change.operations:
                before = change.before.get(operation.setting, {}).get("value")
                yield _row(str(change.resource), before, operation.value, operation.setting)
        for offset in self.offsets:
            where = f"{offset.key[0]}:{offset.key[1]}"
            shown = offset.row()
            group = f"group {offset.group_id}"
            yield _row(group, shown["before"], shown["after"], where, offset.note)


def _row(
    what: str, before: object, after: object, detail: str | None = None, note: str | None = None
) -> output.Row:
    return {"restores": what, "detail": detail, "before": before, "after": after, "note": note}


def compare(cluster: Cluster, backup: Backup, *, outside_logs: bool = False) -> Comparison:
    """Returns the changes that restore ``backup``. With ``outside_logs``, the changes include
    offsets that are outside their partition's log. Raises CommandError for a group that has
    members."""
    made = Comparison()
    metadata = cluster.metadata(None)
    there = {topic["name"]: len(topic["partitions"]) for topic in metadata["topics"]}
    brokers = {int(broker["node_id"]) for broker in metadata["brokers"]}
    _plan_topics(made, backup, there, len(brokers))
    _plan_settings(made, cluster, backup, there, brokers)
    _plan_offsets(made, cluster, backup, there, outside_logs)
    return made


def _plan_topics(made: Comparison, backup: Backup, there: dict[str, int], brokers: int) -> None:
    for topic in backup.topics:
        if topic.topic not in there:
            replicas = min(topic.replication_factor, brokers)
            if replicas < topic.replication_factor:
                made.left_out.append(
                    f"{topic.replication_factor} replicas of topic {topic.topic}: the cluster has"
                    f" only {output.counted(brokers, 'broker')}"
                )
            made.topics.append(SavedTopic(topic.topic, topic.partitions, replicas, topic.configs))
        elif there[topic.topic] < topic.partitions:
            made.left_out.append(
                f"{topic.partitions} partitions of topic {topic.topic}: the topic has only"
                f" {there[topic.topic]}; `muster topics grow` adds partitions"
            )


def _plan_settings(
    made: Comparison, cluster: Cluster, backup: Backup, there: dict[str, int], brokers: set[int]
) -> None:
    wanted = {
        Resource(TOPIC_RESOURCE, topic.topic): topic.configs
        for topic in backup.topics
        if topic.topic in there and topic.configs
    }
    for broker, configs in backup.brokers.items():
        if broker is None or broker in brokers:
            wanted[Resource(BROKER_RESOURCE, "" if broker is None else str(broker))] = configs
        else:
            made.left_out.append(f"settings of broker {broker}: the broker does not exist")
    for resource, configs in wanted.items():
        connection = cluster.any
        if resource.kind == BROKER_RESOURCE and resource.name:
            connection = cluster.broker(int(resource.name))
        before = describe_each(connection, [resource])[resource]
        operations = [
            Operation(name, SET, value)
            for name, value in configs.items()
            if before.get(name, {}).get("value") != value
        ]
        if operations:
            made.settings.append(SettingsChange(resource, operations, before))


def _plan_offsets(
    made: Comparison, cluster: Cluster, backup: Backup, there: dict[str, int], outside_logs: bool
) -> None:
    partitions = there | {topic.topic: topic.partitions for topic in made.topics}
    keys = {key for found in backup.groups.values() for key in found}
    live = sorted(key for key in keys if key[1] < there.get(key[0], 0))
    first, end = offsets_at(cluster, live, EARLIEST), offsets_at(cluster, live, LATEST)
    changes: list[Change] = []
    now = groups_with_offsets(cluster, backup.groups)
    for group_id, found in backup.groups.items():
        group, offsets = now[group_id]
        # A broker deletes the offsets of a deleted topic a little later than the topic.
        before = {key: found for key, found in offsets.items() if key[1] < there.get(key[0], 0)}
        differing = {
            key: after
            for key, after in found.items()
            if key not in before or before[key][:2] != after[:2]  # the leader epoch may be missing
        }
        restored = {}
        outside: list[Partition] = []
        for key, after in sorted(differing.items()):
            if key[1] >= partitions.get(key[0], 0):
                made.left_out.append(
                    f"offset {after.offset} of group {group_id} in {key[0]}:{key[1]}: the partition"
                    " does not exist"
                )
            elif first.get(key, 0) <= after.offset <= end.get(key, 0) or outside_logs:
                restored[key] = after
            else:
                outside.append(key)
        if outside:
            named = ", ".join(f"{topic}:{partition}" for topic, partition in outside[:3])
            more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
            made.left_out.append(
                f"{output.counted(len(outside), 'offset')} of group {group_id} in {named}{more}:"
                " the offsets are outside the log; --outside-logs restores them anyway"
            )
        if restored:
            refuse_members([group])
        changes += (Change(group_id, key, before.get(key), at) for key, at in restored.items())
    made.offsets = with_true_epochs(cluster, changes)


def carry_out(cluster: Cluster, made: Comparison) -> None:
    """Makes the changes that the comparison ``made`` contains. Raises CommandError for the first
    change that the broker rejects."""
    new = [
        NewTopic(topic.topic, topic.partitions, topic.replication_factor, topic.configs)
        for topic in made.topics
    ]
    if new:
        for answer in create_topics(cluster, new):
            check(f"topic {answer['name']}", answer)
        settled(cluster, {topic.topic: topic.partitions for topic in made.topics})
    for change in output.progress(made.settings, "changing settings"):
        connection = cluster.any
        if change.resource.kind == BROKER_RESOURCE and change.resource.name:
            connection = cluster.broker(int(change.resource.name))
        alter(connection, change.resource, change.operations, change.before)
    make(cluster, made.offsets)
