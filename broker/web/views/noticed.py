"""The entries of the journal about a group, except those about rebalances, as plain values for
JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.classic.member_restarts import RestartingMember
from coordinator.events import Loss, MovedOffset
from coordinator.group_journal import GroupJournal
from coordinator.journal_entries import Flapping, Lost, MovedBack
from coordinator.wording import plain_host
from journal.texts import Source
from protocol.errors import NAMES
from verdicts.flapping_words import helps_static, what_helps, what_it_did

View = dict[str, Any]


def rejected(journal: GroupJournal, *, joins: bool) -> list[View]:
    """Returns the rejected joins (if ``joins``) or commits, by error and client. The most recent is
    last."""
    rows = []
    for kept in journal.rejected:
        key = kept.key
        if key.is_join is not joins:
            continue
        last = kept.last
        assert last is not None
        rows.append(
            {
                "error": NAMES.get(key.error_code, str(key.error_code)),
                "count": kept.count,
                "last_ms": kept.last_ms,
                "source": kept.source.value,
                "last": {
                    "member": last.member_id or None,
                    "client": last.client_id,
                    "host": plain_host(last.client_host),
                    "why": last.detail,
                },
            }
        )
    return rows


def moved_back(moved: MovedBack) -> View:
    """Returns the view of a commit that moved offsets to earlier values."""
    event = moved.event
    return {
        "at_ms": moved.at_ms,
        "source": moved.source.value,
        "member": event.member_id or None,
        "client": event.client_id,
        "host": plain_host(event.client_host),
        "principal": event.principal or None,
        "offsets": event.offsets,
        "examples": _examples(event.examples),
    }


def loss(lost: Lost) -> View:
    """Returns the response fields about an operation that made the group skip records."""
    event = lost.event
    return {
        "at_ms": lost.at_ms,
        "source": lost.source.value,
        "what": event.loss.value,
        "principal": event.principal or None,
        "client": event.client_id,
        "host": plain_host(event.client_host),
        "times": lost.times,
        "offsets": event.offsets,
        "examples": _examples(event.examples),
        "sentence": _loss_in_words(lost),
    }


_LOSSES = {
    Loss.SKIPPED: "moved the committed offset of {place} forward from {before} to {after}",
    Loss.TRIMMED: "deleted records of {place} before {after}; the committed offset was {before}",
    Loss.OFFSETS_DELETED: "deleted the committed offset {before} of {place}",
    Loss.TOPIC_DELETED: "deleted the topic of {place}; the committed offset was {before}",
    Loss.GROUP_DELETED: "deleted the group; the committed offset of {place} was {before}",
}


def _loss_in_words(lost: Lost) -> str:
    event = lost.event
    who = event.principal or event.client_id or "a client"
    if event.principal and event.client_id:
        who += f" (client {event.client_id})"
    words = "deleted the group, which had no offsets"
    if event.examples:
        topic, partition, before, after = event.examples[0]
        place = f"{topic}:{partition}"
        words = _LOSSES[event.loss].format(place=place, before=before, after=after)
    more = f" (and {event.offsets - 1} more offsets)" if event.offsets > 1 else ""
    more += f", in {lost.times} commits" if lost.times > 1 else ""
    return f"{who} from {plain_host(event.client_host)} {words}{more}"


def _examples(examples: Sequence[MovedOffset]) -> list[View]:
    return [
        {"topic": topic, "partition": partition, "from": before, "to": None if to < 0 else to}
        for topic, partition, before, to in examples
    ]


def flapping(each: Flapping) -> View:
    """Returns the view of a member that repeatedly changes its topics or protocols."""
    return {
        "member": each.member_id,
        "client": each.client_id,
        "host": plain_host(each.client_host),
        "changes": each.changes,
        "last_ms": each.last_ms,
        "last": each.detail,
        "source": each.source.value,
    }


def returning(each: RestartingMember, protocol_type: str | None) -> View:
    """Returns the view of a client that has rejoined several times, each time with a new member id.
    The view contains advice for the group's type."""
    ways = tuple(each.ways.items())
    return {
        "instance": each.instance,
        "client": each.client_id,
        "host": plain_host(each.client_host),
        "times": each.times,
        "last_ms": each.last_ms,
        "member": each.member_id,
        "before": each.before,
        "away_ms": each.away_ms,
        "source": (Source.KEPT if each.is_kept else Source.SEEN).value,
        "what": what_it_did(ways),
        "advice": what_helps(ways, protocol_type) if each.instance is None else helps_static(ways),
    }
