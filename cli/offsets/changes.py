"""Changes the committed offsets of groups without members, after the user's confirmation. A table
shows each offset before and after the change; then `cli/plans.py` asks for confirmation. All
commands that change offsets use this module, so that they behave alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Annotated, NamedTuple

import typer

from cli import output
from cli.client.at_once import Call, at_once
from cli.client.cluster import Cluster
from cli.client.existing import no_partition
from cli.client.group_reads import WITHOUT_MEMBERS, Committed, Group
from cli.client.offsets_at import Partition
from cli.errors import REFUSED, CommandError, refused
from cli.layout import Column, Columns
from cli.names import parse_partitions
from cli.offsets.leader_epochs import LEFT_OUT, Claim, confirmed
from cli.patterns import chosen, is_pattern
from cli.plans import Plan, show_json
from client.connection import Value
from protocol import errors

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0-1,5]",
        help="Only this topic, or these partitions; repeatable.",
    ),
]

CHUNK = 2000
"""The maximum number of partitions in one request. It is far below a broker's limit for one record
batch."""
_AGAIN = "the same offset is committed again"
_NAMED = 5
_COLUMNS: Columns = [
    "group",
    "topic",
    "partition",
    Column("before", always=True),
    Column("after", always=True),
    "reread",
    "skipped",
    "note",
]


class Change(NamedTuple):
    """One change of a committed offset. ``before`` is None for a new offset; ``after`` is None for
    a deletion."""

    group_id: str
    key: Partition
    before: Committed | None
    after: Committed | None
    note: str | None = None

    @property
    def is_one(self) -> bool:
        """True if the offset or its metadata really changes."""
        return (self.before and self.before[:2]) != (self.after and self.after[:2])

    def row(self) -> output.Row:
        """Returns the table row of the change, which also serves as JSON."""
        return {
            "group": self.group_id,
            "topic": self.key[0],
            "partition": self.key[1],
            "before": None if self.before is None else self.before.offset,
            "after": None if self.after is None else self.after.offset,
            "note": self.note,
        }


def with_true_epochs(cluster: Cluster, changes: Sequence[Change]) -> list[Change]:
    """Checks the leader epoch of each change against the log. If the log does not confirm the
    epoch, the change is returned without the epoch and with a note."""
    claims = {
        number: Claim(change.key, change.after.offset, change.after.leader_epoch)
        for number, change in enumerate(changes)
        if change.after is not None and change.after.leader_epoch >= 0
    }
    true = confirmed(cluster, claims.values())
    return [
        _without_epoch(change) if number in claims and claims[number] not in true else change
        for number, change in enumerate(changes)
    ]


def _without_epoch(change: Change) -> Change:
    assert change.after is not None
    left_out = LEFT_OUT.format(change.after.leader_epoch)
    note = left_out if change.note is None else f"{change.note}; {left_out}"
    return change._replace(after=change.after._replace(leader_epoch=-1), note=note)


def refuse_members(groups: Iterable[Group]) -> None:
    """Raises CommandError if groups have members. The members would overwrite the changes."""
    busy = [group for group in groups if group.state not in WITHOUT_MEMBERS]
    if busy:
        named = ", ".join(f"group {group.group_id} is {group.state}" for group in busy[:_NAMED])
        more = f" and {len(busy) - _NAMED} more groups have members" if len(busy) > _NAMED else ""
        raise refused(f"{named}{more}", errors.NON_EMPTY_GROUP)


def agreed(
    rows: Sequence[output.Row],
    what: str,
    dry_run: bool,
    execute: bool,
    json: bool,
    as_of_ms: int | None = None,
    done: str = "changed",
) -> bool:
    """Shows the changes and asks for confirmation of ``what``, such as ``3 offsets``. Returns the
    answer.

    ``as_of_ms`` is the time to which the changes restore the offsets, if any. With ``json``, the
    caller prints the result with `plans.show_json`.
    """
    plan = Plan(dry_run, execute, json, done, as_of_ms).checked()
    if not json:
        plan.say_as_of("Offsets")
        output.show_table(rows, _COLUMNS, "Nothing to change", plan.title if rows else "")
    elif plan.shows_json or not rows:
        show_json(rows, False, as_of_ms)
    return bool(rows) and plan.goes_on(f"{done.removesuffix('d').capitalize()} {what}?")


def make(cluster: Cluster, changes: Iterable[Change]) -> None:
    """Commits or deletes the offsets. Raises CommandError for a partition that the broker
    rejects."""
    ordered = sorted(changes, key=lambda change: (change.group_id, change.after is None))
    steps = [
        (group_id, gone, part[start : start + CHUNK])
        for (group_id, gone), found in groupby(ordered, lambda c: (c.group_id, c.after is None))
        for part in [list(found)]
        for start in range(0, len(part), CHUNK)
    ]
    coordinators = cluster.coordinators(group_id for group_id, _, _ in steps)
    calls = [
        Call(coordinators[group_id], *(_deletion if gone else _commit)(group_id, part))
        for group_id, gone, part in steps
    ]
    answers = at_once(cluster, calls, "changing offsets")
    failed: dict[str, int] = {}
    for (group_id, _, part), answer in zip(steps, answers, strict=True):
        failed.update(_failed(group_id, part, answer))
    if failed:
        where, code = next(iter(failed.items()))
        done = len(ordered) - len(failed)
        raise refused(
            f"changed {done} of {output.counted(len(ordered), 'offset')}; {where}",
            code,
        )


def _by_topic(part: Sequence[Change]) -> dict[str, list[Change]]:
    topics: dict[str, list[Change]] = {}
    for change in part:
        topics.setdefault(change.key[0], []).append(change)
    return topics


def _commit(group_id: str, part: Sequence[Change]) -> tuple[str, Value]:
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": change.key[1],
                    "committed_offset": change.after.offset,
                    "committed_leader_epoch": change.after.leader_epoch,
                    "committed_metadata": change.after.metadata,
                }
                for change in found
                if change.after is not None
            ],
        }
        for topic, found in _by_topic(part).items()
    ]
    return "OffsetCommit", {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": topics,
    }


def _deletion(group_id: str, part: Sequence[Change]) -> tuple[str, Value]:
    topics = [
        {"name": topic, "partitions": [{"partition_index": change.key[1]} for change in found]}
        for topic, found in _by_topic(part).items()
    ]
    return "OffsetDelete", {"group_id": group_id, "topics": topics}


def _failed(group_id: str, part: Sequence[Change], answer: Value) -> dict[str, int]:
    """Returns the error code of each partition that the broker rejected."""
    if code := answer.get("error_code"):  # a deletion may be refused as a whole
        return {f"group {group_id}, {c.key[0]}:{c.key[1]}": code for c in part}
    # UNKNOWN_MEMBER_ID means that a member has joined the group since the check.
    members = {errors.UNKNOWN_MEMBER_ID: errors.NON_EMPTY_GROUP}
    return {
        f"group {group_id}, {topic['name']}:{p['partition_index']}": members.get(
            p["error_code"], p["error_code"]
        )
        for topic in answer["topics"]
        for p in topic["partitions"]
        if p["error_code"]
    }


def finish(
    cluster: Cluster,
    changes: Sequence[Change],
    dry_run: bool,
    execute: bool,
    json: bool,
    as_of_ms: int | None = None,
    *,
    refreshes: bool = False,
) -> None:
    """Shows the changes, asks for confirmation, and makes the changes.

    A change from an offset to the same offset is committed only if ``refreshes`` is set. It is
    shown only if it has a note with the reason.
    """
    if refreshes:
        changes = [each if each.is_one else each._replace(note=_AGAIN) for each in changes]
    rows = [each.row() for each in changes if each.is_one or each.note is not None]
    changes = [each for each in changes if refreshes or each.is_one]
    if not changes:
        _show_nothing(rows, Plan(dry_run, execute, json, as_of_ms=as_of_ms).checked())
        return
    what = output.counted(len(changes), "offset")
    if not agreed(rows, what, dry_run, execute, json, as_of_ms):
        return
    make(cluster, changes)
    if json:
        show_json(rows, True, as_of_ms)
        return
    changed = sum(each.is_one for each in changes)
    if changed:
        output.say(f"Changed {output.counted(changed, 'offset')}")
    if changed < len(changes):
        output.say(f"Committed {output.counted(len(changes) - changed, 'offset')} again, unchanged")


def _show_nothing(rows: Sequence[output.Row], plan: Plan) -> None:
    """Shows that the plan changes no offset. The notes in ``rows`` contain the reasons."""
    if plan.json:
        show_json(rows, False, plan.as_of_ms)
        return
    plan.say_as_of("Offsets")
    nothing = "Nothing to change"
    output.show_table(rows, _COLUMNS, nothing, nothing if rows else "")


# --------------------------------------------------------------------------- naming partitions


def selected(
    cluster: Cluster, wanted: Sequence[str], known: Collection[Partition] | None = None
) -> list[Partition]:
    """Returns the partitions that match ``TOPIC``, ``TOPIC:0-1,5`` or a topic pattern.

    The partitions are chosen from ``known`` (partitions with a committed offset) if given, else
    from the cluster. Raises CommandError for a topic or partition that does not exist.
    """
    there = _there(cluster, wanted) if known is None else known
    partitions: dict[str, set[int]] = {}
    for topic, partition in there:
        partitions.setdefault(topic, set()).add(partition)
    found: set[Partition] = set()
    for text in wanted:
        pattern, numbers = parse_partitions(text)
        topics = chosen([pattern], partitions).names
        if not topics:
            raise _not_there(pattern, pattern, known is None)
        for topic in topics:
            if missing := sorted(set(numbers or ()) - partitions[topic]):
                raise _not_there(f"{topic}:{missing[0]}", topic, known is None)
            found.update((topic, number) for number in numbers or partitions[topic])
    return sorted(found)


def _there(cluster: Cluster, wanted: Sequence[str]) -> Collection[Partition]:
    """Returns the partitions of the named topics. If a name is a pattern, also returns the
    partitions of all topics that are not internal."""
    names = [parse_partitions(text)[0] for text in wanted]
    if not any(map(is_pattern, names)):
        return cluster.leaders(names)
    answer = cluster.metadata(None)
    own = {topic["name"] for topic in answer["topics"] if topic["is_internal"]}
    return [key for key in cluster.leaders_in(answer) if key[0] not in own or key[0] in names]


def _not_there(what: str, topic: str, in_cluster: bool) -> CommandError:
    if in_cluster:
        return no_partition(what, topic)
    return CommandError(
        f"the group has no committed offset in {what}; `muster offsets get GROUP` lists the group's"
        " offsets",
        REFUSED,
    )
