"""Finds the verdicts of groups: from the Muster broker that hosts a group, or from the group's
present state.

A Muster broker has recorded when offsets moved and when members rejoined. The verdict on a group of
any other Kafka broker follows from its present offsets and, for the largest lags, from the
timestamps of the oldest unread records. Verdicts that require history are then not checked; the
command warns of that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from cli import clock, output
from cli.client.cluster import Cluster
from cli.client.group_reads import SHARE, Known
from cli.client.lag import lag_of
from cli.client.offsets_at import Bounds, Partition, offsets_at
from cli.client.records_at import records_at
from cli.errors import CommandError
from cli.http import Api, find_api, group_path
from client.connection import Value
from verdicts.facts import GroupFacts, MemberFacts, PartitionFacts
from verdicts.findings import Finding
from verdicts.judge import NEEDS_HISTORY, Judgement, judge
from verdicts.names import Verdict, rank_of
from verdicts.thresholds import Thresholds

MOST_ASKED = 100
"""The maximum number of groups for which the verdicts of partitions are read from Muster's API. If
there are more groups, the groups with the worst verdicts are chosen."""
MOST_TIMES = 100
"""The maximum number of unread records that are fetched for their timestamps, unless --seconds is
given."""
LANES = 4
_FINDINGS = 32
_FIELDS = [field.name for field in fields(Finding)]

Logs = Mapping[Partition, Bounds]
Places = dict[Partition, int]
"""The first unread offset of each partition."""


class Judged(NamedTuple):
    """The verdict on one partition of a group."""

    verdict: str | None = None
    lag_seconds: float | None = None
    committed_ms: int | None = None


class GroupHealth(NamedTuple):
    """The verdict on a group. The fields of an unknown verdict are None."""

    verdict: str | None = None
    since_ms: int | None = None
    sentence: str | None = None
    findings: Sequence[Value] = ()
    """The findings on the group, worst first, with the field names of /api (docs/use/http-api.md).
    """
    more_findings: int = 0
    partitions: Mapping[Partition, Judged] = {}
    pending: Sequence[Value] | None = None
    """Offsets committed in transactions that are still open, with the field names of /api."""

    @property
    def rank(self) -> int:
        """The rank of the verdict. 0 is the worst; unknown verdicts are last."""
        return rank_of(self.verdict)

    def now(self, verdict: str | None, since_ms: int | None, sentence: str | None) -> GroupHealth:
        return self._replace(verdict=verdict, since_ms=since_ms, sentence=sentence)


class Manner(NamedTuple):
    """The options that determine how verdicts are found."""

    what: str
    http: str | None
    timeout_s: float
    partitions: bool = True
    """True if each partition gets a verdict too, not only the group."""
    every_time: bool = False
    """True if the oldest unread record of every partition is fetched. Otherwise at most MOST_TIMES
    records are fetched."""


def judged(
    cluster: Cluster, known: Mapping[str, Known], logs: Logs, manner: Manner
) -> dict[str, GroupHealth]:
    if not known:
        return {}
    api, why = _muster(cluster, manner)
    found = {} if api is None else _by_history(api, known, manner)
    missed = {
        group_id: known[group_id]
        for group_id, health in found.items()
        if health.verdict != Verdict.OUT_OF_RANGE and _is_outside(known[group_id], logs)
    }
    if missed:  # out of range since the broker's last check
        for group_id, health in _over_the_wire(cluster, missed, logs, manner).items():
            found[group_id] = found[group_id].now(health.verdict, health.since_ms, health.sentence)
    rest = {group_id: each for group_id, each in known.items() if group_id not in found}
    if rest:
        found |= _over_the_wire(cluster, rest, logs, manner)
        names = ", ".join(NEEDS_HISTORY[:-1])
        output.warn(
            f"not checked: {names} and {NEEDS_HISTORY[-1]}, which need the history of a Muster"
            f" broker{f' ({why})' if why else ''}"
        )
    return {group_id: found[group_id] for group_id in known}


def _muster(cluster: Cluster, manner: Manner) -> tuple[Api | None, str]:
    """Returns the HTTP API of a Muster broker, or None and the reason why it can't be queried."""
    try:
        api = find_api(cluster, manner.what, manner.http, manner.timeout_s)
    except CommandError as error:
        if manner.http is not None:
            raise
        return None, str(error)
    return api, ""


# ------------------------------------------------------------------------------------- a Muster


def _by_history(api: Api, known: Mapping[str, Known], manner: Manner) -> dict[str, GroupHealth]:
    """Returns the verdicts on the groups that Muster brokers host, from their HTTP API."""
    summaries = {each["group"]: each for each in api.get("/api/groups")["groups"]}
    found = {
        group_id: GroupHealth(each["verdict"], each["verdict_since_ms"], each["sentence"])
        for group_id in known
        if (each := summaries.get(group_id)) is not None and "verdict" in each
    }
    if not manner.partitions:
        return found
    asked = list(found)
    if len(asked) > MOST_ASKED:
        asked = sorted(asked, key=lambda group_id: found[group_id].rank)[:MOST_ASKED]
        asked = [group_id for group_id in asked if found[group_id].verdict != Verdict.OK]
    with clock.threads(LANES) as pool:
        views = pool.map(lambda group_id: _view(api, group_id), asked)
        for group_id, view in zip(asked, output.progress(views, "reading groups"), strict=True):
            if view is not None:
                found[group_id] = _updated(found[group_id], view)
    return found


def judged_without_group(
    cluster: Cluster, group_ids: Collection[str], manner: Manner
) -> dict[str, GroupHealth]:
    """Returns the findings on groups that do not exist. Such a group has findings if clients tried
    to join it and were rejected."""
    found: dict[str, GroupHealth] = {}
    api = _muster(cluster, manner)[0] if group_ids else None
    if api is None:
        return found
    for group_id in group_ids:
        view = _view(api, group_id, "journal")
        if view is not None and view["findings"]:
            health = _worst(GroupHealth(), view)
            found[group_id] = health._replace(
                findings=view["findings"], more_findings=view["more_findings"]
            )
    return found


def _view(api: Api, group_id: str, *what: str) -> Value | None:
    try:
        view: Value = api.get(group_path(group_id, *what))
    except CommandError:
        return None  # it no longer exists
    return view


def _worst(health: GroupHealth, view: Value) -> GroupHealth:
    worst = view["findings"][0]
    return health.now(worst["verdict"], worst["since_ms"], worst["sentence"])


def _updated(health: GroupHealth, view: Value) -> GroupHealth:
    """Returns ``health`` with the newer verdict from ``view``, the response about the single
    group."""
    if view["findings"]:
        health = _worst(health, view)
    elif health.verdict != Verdict.OK:
        health = health.now(Verdict.OK, None, "the group no longer has a problem")
    return health._replace(
        findings=view["findings"],
        more_findings=view["more_findings"],
        pending=view.get("pending_offsets"),
        partitions={
            (row["topic"], row["partition"]): Judged(
                row["verdict"], row["lag_seconds"], row["committed_ms"]
            )
            for row in view["offsets"]
        },
    )


# ------------------------------------------------------------------------------------- the wire


def _is_outside(known: Known, logs: Logs) -> bool:
    """Returns True if a committed offset of the group is outside the partition's log."""
    return any(
        lag_of(found.offset, logs.get(key)).out_of_range for key, found in known.committed.items()
    )


def _over_the_wire(
    cluster: Cluster, known: Mapping[str, Known], logs: Logs, manner: Manner
) -> dict[str, GroupHealth]:
    now_ms = clock.now_ms()
    thresholds = Thresholds()
    unread = {group_id: _unread(each, logs) for group_id, each in known.items()}
    times = _times(cluster, unread, logs, manner.every_time)
    before_ms = now_ms - thresholds.lagging_ms - 1
    old = _old(cluster, unread, times, before_ms)
    found = {}
    for group_id, each in known.items():
        if each.group.kind == SHARE:
            found[group_id] = GroupHealth()  # each verdict on a share group needs its history
            continue
        places = unread[group_id]
        exact = {key: times[key, at] for key, at in places.items() if (key, at) in times}
        older = dict.fromkeys((key for key, at in places.items() if (key, at) in old), before_ms)
        facts = _facts(each, logs, {**older, **exact})
        judgement = judge(facts, thresholds, now_ms)
        worst = _worded(judgement.worst, older)
        health = GroupHealth(judgement.verdict, worst["since_ms"], worst["sentence"])
        if manner.partitions:
            health = health._replace(
                findings=[_worded(each, older) for each in judgement.first(_FINDINGS)],
                more_findings=max(0, len(judgement.marks) - _FINDINGS),
                partitions=_partitions(judgement, facts, older, now_ms),
            )
        found[group_id] = health
    return found


def _unread(known: Known, logs: Logs) -> Places:
    """Returns the first unread offset of each partition in which a group has unread records."""
    found = {}
    for key in {*known.committed, *known.group.owners} & logs.keys():
        committed = known.committed.get(key)
        first = logs[key].start if committed is None else max(committed.offset, logs[key].start)
        if first < logs[key].end:
            found[key] = first
    return found


Times = dict[tuple[Partition, int], int]
"""The timestamp of each record in ms, by partition and offset."""


def _times(cluster: Cluster, unread: Mapping[str, Places], logs: Logs, every: bool) -> Times:
    """Returns the timestamps of the first unread records, at most MOST_TIMES of them unless
    ``every`` is set."""
    wanted = sorted(
        {place for places in unread.values() for place in places.items()},
        key=lambda place: (place[1] - logs[place[0]].end, place),
    )
    rounds: list[Places] = []
    for key, at in wanted if every else wanted[:MOST_TIMES]:
        free = next((each for each in rounds if key not in each), None)
        if free is None:
            rounds.append(free := {})
        free[key] = at
    found: Times = {}
    for asked in rounds:
        try:
            answer = records_at(cluster, asked)
        except CommandError:
            continue  # without timestamps: a topic may be hidden or deleted
        found |= {(key, asked[key]): at_ms for key, (_, at_ms) in answer.items()}
    return found


def _old(
    cluster: Cluster, unread: Mapping[str, Places], times: Times, before_ms: int
) -> set[tuple[Partition, int]]:
    """Returns the unread records that were written before ``before_ms`` according to ListOffsets.
    Omits records whose timestamps are in ``times``."""
    places = {place for each in unread.values() for place in each.items()} - times.keys()
    if not places:
        return set()
    try:
        first_since = offsets_at(cluster, {key for key, _ in places}, before_ms)
    except CommandError:
        return set()
    return {
        (key, at) for key, at in places if key in first_since and not 0 <= first_since[key] <= at
    }


def _facts(known: Known, logs: Logs, since_ms: Mapping[Partition, int]) -> GroupFacts:
    """Returns the facts about a group from Kafka's responses. ``since_ms`` contains the timestamps
    of unread records."""
    group, committed = known
    return GroupFacts(
        group.group_id,
        group.state,
        protocol_type=group.protocol_type,
        members=[
            MemberFacts(each["member"], each["instance"], each["client"], each["host"])
            for each in group.members
        ],
        partitions=[
            PartitionFacts(
                *key,
                committed=committed[key].offset if key in committed else None,
                log_start=logs[key].start if key in logs else None,
                log_end=logs[key].end if key in logs else None,
                unread_since_ms=since_ms.get(key),
                owner=group.owners.get(key),
                has_grown=False,  # unknown
            )
            for key in sorted({*committed, *group.owners})
        ],
    )


def _partitions(
    judgement: Judgement, facts: GroupFacts, older: Collection[Partition], now_ms: int
) -> dict[Partition, Judged]:
    """Returns the verdict and the lag in seconds of each partition. The lag of a partition in
    ``older`` is unknown, because only a minimum age of its first unread record is known."""
    found = {}
    for each in facts.partitions:
        key = each.topic, each.partition
        seconds = 0.0 if each.unread == 0 else None
        if each.committed is None and each.unread:
            seconds = None  # the position from which its owner reads is unknown
        elif each.unread_since_ms is not None and key not in older:
            seconds = max(0, now_ms - each.unread_since_ms) / 1000
        found[key] = Judged(judgement.of_partition(*key), seconds)
    return found


def _worded(finding: Finding, older: Collection[Partition]) -> Value:
    """Returns a finding with the field names of the HTTP API. ``older`` contains partitions for
    which only a minimum age of the first unread record is known. A LAGGING finding about one of
    them has no start time."""
    value: Value = {name: getattr(finding, name) for name in _FIELDS}
    if finding.verdict is Verdict.LAGGING and (finding.topic, finding.partition) in older:
        seconds = Thresholds().lagging_ms // 1000
        where = f"{finding.topic}:{finding.partition}"
        sentence = f"the oldest unread record of {where} is older than {seconds} s"
        value |= {"since_ms": None, "sentence": sentence}
    return value
