"""Sentences about transactions: the client, the outcome and its cause, and the groups that waited.
The fields of /api contain the same facts (docs/use/http-api.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.metrics.lso_blockers import LsoBlocker
from transactions.calls import Client
from transactions.events import Cause
from transactions.journal import HUNG
from transactions.journal_entries import Outcome, Story, Wait
from verdicts.spelling import plain_host, ranges, span

_NAMED = 3


def client_named(client: Client) -> str:
    """Returns a client's id and host as text; "" for the broker itself."""
    if not client.client_id and not client.host:
        return ""
    at = f" on {plain_host(client.host)}" if client.host else ""
    return f"client '{client.client_id}'{at}" if client.client_id else f"a client{at}"


def held_back(
    place: str,
    blocker: LsoBlocker,
    waits: Iterable[Wait],
    now_ms: int,
    late: Sequence[tuple[str, int]] = (),
) -> str:
    """Returns a sentence about a partition whose last stable offset is held back: the transaction,
    the time until its timeout, and the groups that wait.

    ``late`` contains the partitions that could not append the transaction's marker.
    """
    producer = f"producer {blocker.producer_id}, epoch {blocker.producer_epoch}"
    for_ms = max(0, now_ms - blocker.since_ms)
    if blocker.transactional_id is None:
        kind = "a hanging transaction" if blocker.hangs else "a transaction"
        whose = (
            f"no transactional id owns the transaction, and the producer last wrote {span(for_ms)}"
            " ago; only an operator can end the transaction"
        )
        if not blocker.hangs:
            whose = "the transactional id is unknown, because not all ids are loaded yet"
        if blocker.is_elsewhere:
            whose = "the transactional id is unknown: another broker may coordinate it"
        held = f"{place} is blocked at offset {blocker.start_offset}"
        return f"{held} by {kind} of {producer}: {whose}"
    of = client_named(blocker.client)
    sentence = (
        f"{place} is blocked at offset {blocker.start_offset} by transaction"
        f" '{blocker.transactional_id}' ({producer})"
    )
    sentence += f" of {of}" if of else ""
    sentence += f", open for {span(for_ms)}"
    if blocker.ends_ms is None:
        sentence += "; the outcome is decided, and the markers are being written"
        if late:
            names = ", ".join([f"{topic}-{partition}" for topic, partition in late[:_NAMED]])
            more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
            sentence += (
                f"; {names}{more} can't append a marker: check the broker's log for disk errors"
            )
    elif blocker.ends_ms > now_ms:
        left = span(blocker.ends_ms - now_ms)
        sentence += f"; the transaction times out in {left}"
    else:
        sentence += "; the timeout has expired: the coordinator aborts the transaction soon"
    waiting = [each for each in waits if not each.over]
    return sentence + "".join(f"; {text}" for text in _waited(waiting, now_ms, "have waited"))


def story_sentence(story: Story, now_ms: int) -> str:
    """Returns a sentence about one transaction, from its start to its end or to its current
    state."""
    who = client_named(story.client)
    opened = f"opened by {who}" if who else "opened before the broker's last start"
    if story.cause is Cause.ADMIN and story.detail == HUNG:
        opened = "hanging, unknown to the coordinator"
    producer = f"producer {story.producer_id}, epoch {story.producer_epoch}"
    parts = [f"{opened} ({producer})"]
    if touched := _touched(story):
        parts.append(touched)
    if story.past:
        parts.append(f"{story.past} without the coordinator")
    parts.append(_ended(story, now_ms))
    if story.ended_ms and story.prepared_ms and story.ended_ms > story.prepared_ms:
        parts.append(f"writing the markers took {_length(story.ended_ms - story.prepared_ms)}")
    verb = "waited" if story.outcome.is_over else "have waited"
    parts += _waited(story.waits.values(), now_ms, verb)
    if story.more_waits:
        parts.append("more readers waited than are recorded")
    return "; ".join(parts)


def _touched(story: Story) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in story.partitions:
        by_topic.setdefault(topic, []).append(partition)
    if not by_topic:
        return ""
    listed = [f"{topic}:{ranges(numbers)}" for topic, numbers in sorted(by_topic.items())]
    more = len(listed) - _NAMED
    text = f"wrote to {' '.join(listed[:_NAMED])}"
    text += f" and {more} more topics" if more > 0 else ""
    if story.groups:
        text += f", and sent offsets of group {', '.join(story.groups[:_NAMED])}"
    return text


def _ended(story: Story, now_ms: int) -> str:
    until_ms = story.prepared_ms or story.ended_ms or now_ms
    length = _length(max(0, until_ms - story.began_ms))
    verb = "committed" if story.outcome in (Outcome.COMMITTING, Outcome.COMMITTED) else "aborted"
    by = client_named(story.ended_by)
    match story.outcome:
        case Outcome.OPEN:
            return f"open for {length}"
        case Outcome.UNKNOWN:
            return "ended, but the outcome was not recorded"
        case Outcome.COMMITTING | Outcome.ABORTING | Outcome.COMMITTED | Outcome.ABORTED:
            done = f"{verb} after {length}"
    match story.cause:
        case Cause.CLIENT:
            return f"{done} by its client"
        case Cause.TIMEOUT:
            return f"{done} at its timeout"
        case Cause.FENCED:
            new = by or "a newer producer"
            return f"{done}, because {new} took over the id and fenced the producer"
        case Cause.ADMIN:
            return f"{done} by an operator{f', {by}' if by else ''}"
        case _:
            return f"{done}: {story.detail}" if story.detail else done


def _waited(waits: Iterable[Wait], now_ms: int, verb: str) -> list[str]:
    """Returns a text for each of the first _NAMED groups whose readers waited, with the longest
    wait in this group. If there are more groups, adds a text with their number."""
    found: dict[str, list[Wait]] = {}
    for each in waits:
        found.setdefault(each.reader.group_id, []).append(each)
    texts = []
    for group_id, of_group in found.items():
        longest = max(waited_ms(each, now_ms) for each in of_group)
        texts.append(f"readers of group '{group_id}' {verb} {span(longest)}")
    more = len(texts) - _NAMED
    return texts if more <= 0 else [*texts[:_NAMED], f"and readers of {more} more groups"]


def waited_ms(wait: Wait, now_ms: int) -> int:
    """Returns the number of ms that a reader waited. If it still waits, counts until ``now_ms``."""
    until_ms = wait.seen_ms if wait.over else now_ms
    return max(0, until_ms - wait.reader.since_ms)


def _length(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else span(milliseconds)
