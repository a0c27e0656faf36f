"""Plans: the changes of a repair, as data that can be shown, applied and undone.

A plan has each committed offset before and after its change. The plan is written to a file before
any change, so that the change can be undone later from this file. This module uses no Spark and no
sockets: the command line reads the current offsets and applies the plan.
docs/use/pipeline-commands.md describes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pipeline.errors import PipelineError

VERSION = 1
KAFKA = "kafka"
ZOOKEEPER = "zookeeper"
OLD_WAY = "old-way"
TARGETS = (KAFKA, ZOOKEEPER, OLD_WAY)
"""Where the offsets of a plan are stored: in `__consumer_offsets`; in ZooKeeper's consumer paths;
or in these paths by requests to a broker (OffsetCommit and OffsetFetch version 0)."""


class Position(NamedTuple):
    """A committed offset. ``leader_epoch`` is -1 if unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Key(NamedTuple):
    """A group and a partition."""

    group: str
    topic: str
    partition: int

    @property
    def log(self) -> Log:
        """The topic and partition of the key, without the group."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.group}, {self.topic}:{self.partition}"


Log = tuple[str, int]
Positions = Mapping[Key, Position]


class Bounds(NamedTuple):
    """The current log start offset and log end offset of a partition."""

    first: int
    end: int


class Step(NamedTuple):
    """The change of one offset from ``before`` (None: no offset) to ``after`` (None: deleted).

    ``reread`` is the number of records that the group reads again, and ``skipped`` the number of
    records that it never reads. Both are None if unknown, for example because a group without an
    offset starts according to its `auto.offset.reset`.
    """

    key: Key
    before: Position | None
    after: Position | None
    reread: int | None = None
    skipped: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class Plan:
    """The changes that a repair will make, or has made."""

    kind: str
    """The command that made the plan: restore, migrate or replicate."""
    target: str
    """The storage of the offsets; one of `TARGETS`."""
    where: str
    """The address of the target, as given by the user."""
    cluster_id: str | None
    """The cluster id of the target; None if the target has none. The plan can be applied only to
    this cluster."""
    made_at: str
    about: Mapping[str, str]
    """The origin of the plan as texts, such as the source and the time."""
    steps: tuple[Step, ...]
    executed_at: str | None = None
    undone_at: str | None = None


def step(
    key: Key,
    before: Position | None,
    after: Position | None,
    bounds: Bounds | None,
    note: str | None = None,
) -> Step:
    """Make a step. Its numbers of reread and skipped records count only records within the bounds
    of the log."""
    reread = skipped = None
    notes = [note] if note else []
    if bounds is not None and after is not None:
        if before is not None:
            there, then = (min(max(p.offset, bounds.first), bounds.end) for p in (before, after))
            reread, skipped = max(0, there - then), max(0, then - there)
        if not bounds.first <= after.offset <= bounds.end:
            notes.append(
                f"offset {after.offset} is outside {key.topic}:{key.partition}, which has offsets"
                f" {bounds.first} to {bounds.end}"
            )
    return Step(key, before, after, reread, skipped, "; ".join(notes) or None)


def inside(position: Position, bounds: Bounds) -> Position:
    """Return the position. If it is outside the log, return it moved to the nearer end of the
    log."""
    offset = min(max(position.offset, bounds.first), bounds.end)
    # the epoch belongs to the offset that was committed, not to another
    return position if offset == position.offset else Position(offset, position.metadata)


def backwards(plan: Plan) -> Plan:
    turned = tuple(
        Step(s.key, s.after, s.before, s.skipped, s.reread, None) for s in reversed(plan.steps)
    )
    return replace(plan, steps=turned)


class Standing(NamedTuple):
    """The steps of a plan in three groups: not applied yet, already applied, and steps whose offset
    another client has changed. The current offsets determine the group of a step."""

    ahead: list[Step]
    """The steps that are not applied yet: the current offset equals the step's ``before``."""
    done: list[Step]
    """The steps that are already applied: the current offset equals ``after`` of the step."""
    differing: list[tuple[Step, Position | None]]
    """The steps whose current offset is neither ``before`` nor ``after`` of the step, because
    another client has changed the offset. Each step is paired with the current offset."""


def standing(steps: Iterable[Step], now: Positions) -> Standing:
    """Return three lists of steps, by the current committed offset and metadata: steps that were
    executed (it is the new one), steps that can be executed (it is the old one), and steps with any
    other current offset or metadata. Leader epochs are not compared."""
    found = Standing([], [], [])
    for each in steps:
        there = now.get(each.key)
        if same(there, each.after):
            found.done.append(each)
        elif same(there, each.before):
            found.ahead.append(each)
        else:
            found.differing.append((each, there))
    return found


def same(one: Position | None, other: Position | None) -> bool:
    """Return True if two committed offsets have the same offset and metadata, so that they are the
    same for a consumer."""
    if one is None or other is None:
        return one is other
    return one[:2] == other[:2]


# ----------------------------------------------------------------------------- the file


def to_json(plan: Plan) -> str:
    value = {
        "version": VERSION,
        "kind": plan.kind,
        "target": plan.target,
        "where": plan.where,
        "cluster_id": plan.cluster_id,
        "made_at": plan.made_at,
        "executed_at": plan.executed_at,
        "undone_at": plan.undone_at,
        "about": dict(plan.about),
        "steps": [row(each) for each in plan.steps],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def row(each: Step) -> dict[str, Any]:
    return {
        "group": each.key.group,
        "topic": each.key.topic,
        "partition": each.key.partition,
        "before": None if each.before is None else each.before._asdict(),
        "after": None if each.after is None else each.after._asdict(),
        "reread": each.reread,
        "skipped": each.skipped,
        "note": each.note,
    }


def from_json(text: str, name: str) -> Plan:
    """Parse a plan's file. Raise PipelineError, which names the invalid part, if the file is
    invalid."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise PipelineError(
            f"{name} is not JSON ({error}): name a file that --plan wrote"
        ) from None
    known = isinstance(value, dict) and value.get("version") == VERSION
    if not known or value.get("target") not in TARGETS or not isinstance(value.get("steps"), list):
        raise PipelineError(
            f"{name} is not a plan of version {VERSION}: make a new plan with restore,"
            " migrate or replicate"
        )
    texts = [value.get("kind"), value.get("where"), value.get("made_at")]
    marks = [value.get(field) for field in ("cluster_id", "executed_at", "undone_at")]
    about = value.get("about")
    if not (
        all(isinstance(each, str) for each in texts)
        and all(isinstance(each, str | None) for each in marks)
        and isinstance(about, dict)
    ):
        raise PipelineError(f"{name} is damaged: its target, cluster or times can't be read")
    steps = tuple(_step(each, f"{name}, step {at}") for at, each in enumerate(value["steps"], 1))
    _check_once(steps, name)
    return Plan(
        kind=value["kind"],
        target=value["target"],
        where=value["where"],
        cluster_id=value.get("cluster_id"),
        made_at=value["made_at"],
        about={str(key): str(each) for key, each in about.items()},
        steps=steps,
        executed_at=value.get("executed_at"),
        undone_at=value.get("undone_at"),
    )


def _step(value: Any, where: str) -> Step:
    if not isinstance(value, dict):
        raise PipelineError(f"{where}: the value must be a JSON object")
    group, topic = value.get("group"), value.get("topic")
    if not (isinstance(group, str) and isinstance(topic, str) and topic):
        raise PipelineError(f"{where}: a group and a topic are required")
    note = value.get("note")
    return Step(
        Key(group, topic, _number(value, "partition", where, 0)),
        _position(value.get("before"), f"{where}, before"),
        _position(value.get("after"), f"{where}, after"),
        None if value.get("reread") is None else _number(value, "reread", where, 0),
        None if value.get("skipped") is None else _number(value, "skipped", where, 0),
        note if isinstance(note, str) else None,
    )


def _position(value: Any, where: str) -> Position | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("metadata", ""), str):
        raise PipelineError(f"{where}: the value must be an object whose metadata is a string")
    epoch = _number(value, "leader_epoch", where, -1) if "leader_epoch" in value else -1
    return Position(_number(value, "offset", where, 0), value.get("metadata", ""), epoch)


def _number(value: Mapping[str, Any], name: str, where: str, least: int) -> int:
    number = value.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise PipelineError(f"{where}: {name} is {number!r}; it must be a number, {least} or more")
    return number


def _check_once(steps: Sequence[Step], name: str) -> None:
    seen: set[Key] = set()
    for each in steps:
        if each.key in seen:
            raise PipelineError(f"{name}: {each.key} is listed twice: delete a step")
        seen.add(each.key)
