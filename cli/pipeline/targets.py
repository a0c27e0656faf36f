"""The storages of committed offsets that plans change: __consumer_offsets, or ZooKeeper's consumer
paths. The consumer paths are written directly, or by requests of version 0 to a broker. Each target
reads the present offsets and executes steps. Errors are CommandErrors or PipelineErrors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from cli import output
from cli.client import lag
from cli.client.cluster import Cluster
from cli.client.group_reads import (
    WITHOUT_MEMBERS,
    Committed,
    committed_of_groups,
    read_group,
    read_groups,
)
from cli.errors import CommandError, refused
from cli.groups.removal import remove_members
from cli.offsets.changes import Change, make, refuse_members, with_true_epochs
from pipeline.repairs.plan import KAFKA, OLD_WAY, ZOOKEEPER, Bounds, Key, Log, Position, Step
from protocol import errors

if TYPE_CHECKING:
    from pipeline.repairs.zookeeper import ZooKeeperOffsets

REMOVALS = 20
"""The maximum number of attempts to change a group's offsets while removed members rejoin the
group."""
OLD_VERSION = 0


class Target(Protocol):
    """A storage of committed offsets."""

    kind: str
    where: str
    cluster_id: str | None

    def read(self, keys: Sequence[Key]) -> Mapping[Key, Position]:
        """Returns the present offsets. Keys without a committed offset are omitted."""

    def settled(self, steps: Sequence[Step]) -> list[Step]:
        """Returns the steps after a check of their leader epochs. If the log does not confirm the
        leader epoch of a step, the returned step has no leader epoch, but a note."""

    def check(self, groups: Iterable[str], force: bool) -> None:
        """Raises CommandError if the offsets of one of the groups can't be changed now."""

    def write(self, steps: Sequence[Step], force: bool) -> None: ...

    def close(self) -> None: ...


class KafkaTarget:
    """`__consumer_offsets`, read and written by OffsetFetch, OffsetCommit and OffsetDelete."""

    kind = KAFKA

    def __init__(self, cluster: Cluster, where: str) -> None:
        self.cluster = cluster
        self.where = where
        self.cluster_id: str | None = cluster.metadata([])["cluster_id"]

    def read_groups(self, groups: Iterable[str]) -> dict[Key, Position]:
        coordinators = self.cluster.coordinators(sorted(set(groups)))
        return {
            Key(group, *key): Position(*found)
            for group, offsets in committed_of_groups(self.cluster, coordinators).items()
            for key, found in offsets.items()
        }

    def read(self, keys: Sequence[Key]) -> Mapping[Key, Position]:
        return self.read_groups(key.group for key in keys)

    def settled(self, steps: Sequence[Step]) -> list[Step]:
        changes = with_true_epochs(self.cluster, [_change(each) for each in steps])
        return [
            each._replace(after=change.after and Position(*change.after), note=change.note)
            for each, change in zip(steps, changes, strict=True)
        ]

    def check(self, groups: Iterable[str], force: bool) -> None:
        """Implements Target.check. A group with members is an error, because its members would
        overwrite the changes."""
        coordinators = self.cluster.coordinators(sorted(set(groups)))
        for group, found in read_groups(self.cluster, coordinators).items():
            if not force:
                refuse_members([found])
            elif found.state not in WITHOUT_MEMBERS and not found.members:
                raise refused(f"group {group} is {found.state}", errors.NON_EMPTY_GROUP)

    def write(self, steps: Sequence[Step], force: bool) -> None:
        """Implements Target.write. If ``force`` is True, removes the members of the groups before
        the write."""
        changes = [_change(step) for step in steps]
        if not force:
            make(self.cluster, changes)
            return
        ordered = sorted(changes, key=lambda change: change.group_id)
        for group, found in groupby(ordered, lambda change: change.group_id):
            self._force(group, list(found))

    def close(self) -> None:
        self.cluster.close()

    def _force(self, group: str, changes: Sequence[Change]) -> None:
        removed = 0
        for _ in range(REMOVALS):
            removed = max(removed, remove_members(self.cluster, group))
            try:
                make(self.cluster, changes)
            except CommandError:
                if read_group(self.cluster, group).state in WITHOUT_MEMBERS:
                    raise
                continue
            if removed:
                output.warn(f"removed {output.counted(removed, 'member')} of group {group}")
            return
        raise CommandError(
            f"the members of group {group} rejoined {REMOVALS} times before the offsets could be"
            " changed: stop the members"
        )


class ZooKeeperTarget:
    """ZooKeeper's consumer paths, which are read and written directly."""

    kind = ZOOKEEPER
    cluster_id: str | None = None

    def __init__(self, offsets: ZooKeeperOffsets, where: str) -> None:
        self.offsets = offsets
        self.where = where

    def read(self, keys: Sequence[Key]) -> Mapping[Key, Position]:
        return self.offsets.read_keys(keys)

    def settled(self, steps: Sequence[Step]) -> list[Step]:
        """Implements Target.settled. Offsets in ZooKeeper have no leader epoch."""
        return list(steps)

    def check(self, groups: Iterable[str], force: bool) -> None:
        """Implements Target.check. Running consumers are an error, because they would overwrite the
        changes."""
        running = self.offsets.read(groups).running
        if running and not force:
            raise CommandError(
                f"group {min(running)} has running consumers that commit to ZooKeeper: stop the"
                " consumers first, or add --force"
            )

    def write(self, steps: Sequence[Step], force: bool) -> None:  # noqa: ARG002 - as Target
        """Implements Target.write. Does not write an offset that another client has changed."""
        for _ in output.progress(self.offsets.change(steps), "changing offsets", len(steps)):
            pass

    def close(self) -> None:
        self.offsets.close()


class OldWayTarget:
    """ZooKeeper's consumer paths, which a broker reads and writes by OffsetFetch and OffsetCommit
    version 0."""

    kind = OLD_WAY

    def __init__(self, cluster: Cluster, where: str) -> None:
        self.cluster = cluster
        self.where = where
        self.cluster_id: str | None = cluster.metadata([])["cluster_id"]
        for name in ("OffsetFetch", "OffsetCommit"):
            if not cluster.any.supports(name, OLD_VERSION):
                raise CommandError(
                    f"the broker at {where} does not serve {name} version 0, which --old-way"
                    " needs: name the ZooKeeper with --zookeeper"
                )

    def read(self, keys: Sequence[Key]) -> Mapping[Key, Position]:
        found = {}
        for group, part in groupby(sorted(keys), lambda key: key.group):
            asked = [
                {"name": topic, "partition_indexes": [key.partition for key in of_topic]}
                for topic, of_topic in groupby(part, lambda key: key.topic)
            ]
            request = {"group_id": group, "topics": asked}
            for topic in self.cluster.any.call("OffsetFetch", request, version=OLD_VERSION)[
                "topics"
            ]:
                for entry in topic["partitions"]:
                    if not entry["error_code"] and entry["committed_offset"] >= 0:
                        key = Key(group, topic["name"], entry["partition_index"])
                        found[key] = Position(entry["committed_offset"])
        return found

    def settled(self, steps: Sequence[Step]) -> list[Step]:
        """Implements Target.settled. Offsets of version 0 have no leader epoch."""
        return list(steps)

    def check(self, groups: Iterable[str], force: bool) -> None:
        """Implements Target.check. Raises no error. A broker does not know which consumers use
        OffsetCommit version 0, so active consumers can't be detected."""

    def write(self, steps: Sequence[Step], force: bool) -> None:  # noqa: ARG002 - as Target
        """Implements Target.write. Raises CommandError for a deletion, because version 0 can't
        delete offsets."""
        for each in steps:
            if each.after is None:
                raise CommandError(
                    f"{each.key}: OffsetCommit v0 can't delete offsets; nothing was changed"
                )
        for each in output.progress(steps, "changing offsets"):
            self._commit(each)

    def close(self) -> None:
        self.cluster.close()

    def _commit(self, each: Step) -> None:
        assert each.after is not None
        entry = {
            "partition_index": each.key.partition,
            "committed_offset": each.after.offset,
            "committed_metadata": None,
        }
        request = {
            "group_id": each.key.group,
            "topics": [{"name": each.key.topic, "partitions": [entry]}],
        }
        answer = self.cluster.any.call("OffsetCommit", request, version=OLD_VERSION)
        code = answer["topics"][0]["partitions"][0]["error_code"]
        if code:
            raise refused(str(each.key), code)


def _change(each: Step) -> Change:
    before, after = (None if p is None else Committed(*p) for p in (each.before, each.after))
    return Change(each.key.group, each.key.log, before, after, each.note)


def bounds_of(cluster: Cluster, logs: Iterable[Log]) -> dict[Log, Bounds]:
    """Returns the log start offset and log end offset of the partitions. Missing partitions are
    omitted."""
    return {log: Bounds(*found) for log, found in lag.logs_of(cluster, logs).items()}
