"""The allowed differences between Muster and Kafka, and the responses of Kafka that are random.
docs/use/differences.md lists the differences with their reasons. No other difference is allowed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.interop.differential.knowledge import Knowledge
from tests.interop.differential.normal import Answer
from tests.interop.differential.trace import MAX_SIZE, TOPICS, Step

UNKNOWN_SERVER_ERROR, NONE, UNKNOWN_MEMBER_ID = -1, 0, 25
GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 81, 82
_OPERATIONS_OF_3_9 = 328
_OF_CHOICE = frozenset({"leader", "members", "protocol_name"})
"""The fields of a JoinGroup response that depend on which leader or protocol the broker chooses."""


@dataclass(frozen=True)
class Reason:
    """A reason why a response of Kafka may differ from Muster's. ``then`` says how the trace
    continues on this Kafka broker.

    "go on": the group has the same state on Muster and on Kafka. "delete": the states differ until
    the group is deleted on Kafka. "part": the trace continues without this Kafka broker.
    """

    text: str
    then: str


PENDING_INSTANCE = Reason(
    "a JoinGroup with an id from MEMBER_ID_REQUIRED has an instance id", "go on"
)
FORGOTTEN = Reason("an empty group that never had members", "delete")
OTHER_TOPICS = Reason("a static member rejoined with other topics", "part")
OWNER_SHOWN = Reason("DescribeGroups of a group whose static member restarted", "go on")
TAKES_NO_ROOM = Reason("a static member rejoins a full group", "part")
TOGETHER = Reason("several members leave in one LeaveGroup", "part")
ANSWERED = Reason("a parked request to which Kafka never responds", "go on")
TIE = Reason("a tie in the vote for the protocol", "part")
LEADER_GONE = Reason("the leader left and each other member may become leader", "part")
DESCRIBED = Reason("DescribeGroups of a group in a rebalance; authorized operations", "go on")
ID_LEAVES = Reason("a LeaveGroup with a member id that never joined", "part")
EMPTIED = Reason("OffsetDelete of the last offset of a group", "part")
REASONS = (
    PENDING_INSTANCE,
    FORGOTTEN,
    OTHER_TOPICS,
    OWNER_SHOWN,
    TAKES_NO_ROOM,
    TOGETHER,
    ANSWERED,
    TIE,
    LEADER_GONE,
    DESCRIBED,
    ID_LEAVES,
    EMPTIED,
)
"""All reasons for differences. A test checks that docs/use/differences.md lists each of them."""


def of_answer(
    step: Step, mine: Answer, other: Answer, knowledge: Knowledge, during: Step
) -> Reason | None:
    """Returns the reason why Kafka's response ``other`` may differ from ``mine``, the response of
    the broker under test. Returns None if they may not differ.

    ``step`` is the request that both responses answer. If the request was parked, ``during`` is the
    later step that released the response.
    """
    if "closed" in mine or "closed" in other:
        return None
    if step is not during and _several_leave(during):
        return TOGETHER
    if step.api == "DescribeGroups":
        return _of_description(mine, other)
    if step.api != "JoinGroup":
        return None
    mine_code, other_code = mine["error_code"], other["error_code"]
    failed = other_code == UNKNOWN_SERVER_ERROR and step.says["instance"] != "none"
    if failed and mine_code in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
        return PENDING_INSTANCE
    if (mine_code, other_code) == (NONE, GROUP_MAX_SIZE_REACHED) and _came_back(step):
        return TAKES_NO_ROOM
    if mine_code == other_code == NONE:
        rebalanced = mine["generation_id"] == other["generation_id"] + 1
        if rebalanced and step.says["member"] == "none" and knowledge.came_with_other_topics:
            return OTHER_TOPICS
        return _of_choice(mine, other, knowledge)
    return None


def _of_description(mine: Answer, other: Answer) -> Reason | None:
    if _as_shown(mine) == _as_shown(other):
        return DESCRIBED
    if _as_shown(mine) == _as_shown(other, owners=True):
        return OWNER_SHOWN
    return None


def _as_shown(answer: Answer, owners: bool = False) -> list[Answer]:
    """Returns the groups in a DescribeGroups response. Two facts that only Kafka 4.3.1 returns are
    removed: the last assignments of a rebalancing group, and the operations on a group's
    configuration.

    With ``owners``, replaces the client id of each member by that of the client that received the
    member's id.
    """
    shown = []
    for group in answer["groups"]:
        members = [dict(member) for member in group["members"]]
        for member in members:
            if group["group_state"] in ("PreparingRebalance", "CompletingRebalance"):
                member["member_assignment"] = b""
            if owners and not member["member_id"].endswith("#?"):
                member["client_id"] = member["member_id"].partition("#")[0]
        allowed = group["authorized_operations"]
        if allowed > 0:
            allowed &= _OPERATIONS_OF_3_9
        shown.append({**group, "members": members, "authorized_operations": allowed})
    return shown


def _of_choice(mine: Answer, other: Answer, knowledge: Knowledge) -> Reason | None:
    if {key for key in mine if mine[key] != other[key]} - _OF_CHOICE:
        return None
    if mine["protocol_name"] != other["protocol_name"]:
        tied = top_protocols(knowledge.offers())
        if {mine["protocol_name"], other["protocol_name"]} <= tied:
            return TIE
        return None
    if knowledge.leader_gone:
        return LEADER_GONE
    return None


View = tuple[Any, ...]
"""The state, the protocol type and the members of a group, as run.py compares them."""


def of_group(
    step: Step, sent: Answer, before: str, mine: View, other: View, knowledge: Knowledge
) -> Reason | None:
    """Returns the reason why the state or the parked requests of a group may differ between a
    reference broker (``other``) and Muster (``mine``) after a step; None if no reason applies.

    ``before`` is the state of the group before the step. ``sent`` is the request to Muster.
    """
    kept_nothing = step.api in ("JoinGroup", "LeaveGroup") or _keeps_nothing(step)
    if kept_nothing and (mine[0], other[:3]) == ("Dead", _BLANK):
        return FORGOTTEN
    if _several_leave(step) and before not in ("Dead", "Empty"):
        return TOGETHER
    if step.api == "JoinGroup" and sent.get("group_instance_id") and not sent["member_id"]:
        if len(mine[2]) >= MAX_SIZE and before in ("CompletingRebalance", "Stable"):
            return TAKES_NO_ROOM
        came_back = before == other[0] == "Stable" != mine[0]
        return OTHER_TOPICS if came_back and knowledge.has_other_topics(step, sent) else None
    unmoved = (mine[0], mine[2]) == (before, other[2])
    if step.api == "LeaveGroup" and unmoved and other[0] == "PreparingRebalance":
        return ID_LEAVES
    if step.api == "OffsetDelete" and (mine[0], other[0]) == ("Empty", "Dead"):
        return EMPTIED
    return None


def _several_leave(step: Step) -> bool:
    named = [who for _, who, _ in step.says.get("members", ()) if who in ("self", "all stale")]
    return step.api == "LeaveGroup" and len(named) > 1


def _came_back(step: Step) -> bool:
    return step.says["member"] == "none" and step.says["instance"] != "none"


def _keeps_nothing(step: Step) -> bool:
    """Returns True for an OffsetCommit that stores no offset, because each of its partitions does
    not exist or has too long metadata."""
    return step.api == "OffsetCommit" and all(
        text == "long" or partition >= TOPICS.get(topic, 0)
        for topic, positions in step.says["topics"]
        for partition, _, _, text in positions
    )


_BLANK = ("Empty", "", [])


def top_protocols(lists: list[list[str]]) -> set[str]:
    """Returns the protocols that can win the vote. Each member votes for the first protocol in its
    list that all members support."""
    candidates = set.intersection(*(set(names) for names in lists)) if lists else set()
    votes = Counter(next(n for n in names if n in candidates) for names in lists if candidates)
    most = max(votes.values(), default=0)
    return {name for name, count in votes.items() if count == most}
