"""Resolves the group arguments of commands: group ids, patterns such as 'bill*', or all groups."""

from __future__ import annotations

from collections.abc import Sequence

from cli.client.cluster import Cluster
from cli.client.group_reads import GONE_STATES, SHARE, TYPES, list_groups
from cli.errors import USAGE, CommandError, refused
from cli.patterns import chosen, is_pattern, nearest, spelled
from protocol.errors import GROUP_ID_NOT_FOUND

STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
"""The states of all types of groups, in Kafka's spelling."""


def check_named(wanted: Sequence[str] | None, every: bool) -> None:
    """Raises CommandError if the user passes both group names and --all-groups, or neither."""
    if bool(wanted) == every:
        raise CommandError("name groups, or use --all-groups", USAGE)


def named_groups(
    cluster: Cluster, wanted: Sequence[str] | None, every: bool, done: str = ""
) -> list[str]:
    """Returns the ids of groups without duplicates: all groups if ``every``, otherwise the groups
    in ``wanted``, which are names or patterns.

    If ``wanted`` has no pattern, returns the names without a request to the cluster. Otherwise
    raises CommandError for names and patterns that match no group. ``done`` is a participle, such
    as "deleted", with which the error message ends: "nothing was deleted".
    """
    if wanted and not any(map(is_pattern, wanted)):
        return list(dict.fromkeys(wanted))
    rows = list_groups(cluster)
    if every:
        return [
            row["group"] for row in rows if row["type"] != SHARE and row["state"] not in GONE_STATES
        ]
    names, missing = chosen(wanted or (), [row["group"] for row in rows])
    if missing:
        nothing = f"; nothing was {done}" if done else ""
        meant = nearest(missing, [row["group"] for row in rows])
        raise refused(spelled(missing, "group"), GROUP_ID_NOT_FOUND, f"not found{nothing}", meant)
    return names


def states_named(texts: Sequence[str]) -> list[str]:
    """Returns group states in Kafka's spelling. Raises CommandError for an unknown state."""
    known = {state.lower(): state for state in STATES}
    for text in texts:
        if text.lower() not in known:
            raise CommandError(f"--state {text}: choose one of {', '.join(STATES)}", USAGE)
    return [known[text.lower()] for text in texts]


def types_named(texts: Sequence[str]) -> list[str]:
    """Returns group types in lower case. Raises CommandError for an unknown type."""
    for text in texts:
        if text.lower() not in TYPES:
            raise CommandError(f"--type {text}: choose one of {', '.join(TYPES)}", USAGE)
    return [text.lower() for text in texts]
